# SPDX-License-Identifier: Apache-2.0
"""What is installed for an NPU, whether it fits together, how the device behaves."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Final

import torch

from numcheck.doctor import Check, installed
from numcheck_torch.npu.door import ask, has_npu, module
from numcheck_torch.npu.facts import device_facts
from numcheck_torch.npu.selftest import blind_reductions

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

__all__ = ["examine_npu", "versions_on_disk"]

_HOME: Final = Path("/usr/local/Ascend")
_VERSION: Final = re.compile(r"^\s*[Vv]ersion\s*=\s*(?P<version>\S+)", re.MULTILINE)
_WRONG: Final = {
    "chip_saturates_only": "INF_NAN_MODE_ENABLE=1 is ignored: this chip only saturates",
    "chip_never_saturates": "saturation was asked for and is ignored by this chip",
    "disabled_without_force": "INF_NAN_MODE_ENABLE=0 makes every call fail: unset it, "
    "or set INF_NAN_MODE_FORCE_DISABLE=1 too",
    "saturation_by_choice": "INF_NAN_MODE_FORCE_DISABLE=1 hides Inf and NaN: unset it",
}


def examine_npu(
    environment: Mapping[str, str] = os.environ, root: Path = _HOME
) -> Iterator[Check]:
    """Yield what is known of the NPU; nothing where none is installed nor answers.

    Args:
        environment: environment variables.
        root: where Ascend software is installed unless the environment says.
    """
    package = installed("torch_npu")
    on_disk = versions_on_disk(environment, root)
    if package is None and not on_disk and module() is None:
        return
    for part, found in on_disk.items():
        yield Check("npu", "ok", f"{part} {found}")
    if package is not None:
        yield from _package(package, on_disk)
    if not has_npu():
        yield Check("npu", "note", "no NPU answers: nothing can be watched on one here")
        return
    yield from _device()


def versions_on_disk(environment: Mapping[str, str], root: Path) -> dict[str, str]:
    """Return the versions of driver, firmware and CANN that their files state.

    Args:
        environment: environment variables; CANN sets where it lies.
        root: where Ascend software is installed otherwise.
    """
    home = environment.get("ASCEND_HOME_PATH") or environment.get("ASCEND_TOOLKIT_HOME")
    cann = Path(home) if home else root / "ascend-toolkit" / "latest"
    files = {
        "driver": [root / "driver" / "version.info"],
        "firmware": [root / "firmware" / "version.info"],
        "CANN": [*sorted(cann.glob("*/ascend_*_install.info")), cann / "version.info"],
    }
    found = {}
    for part, paths in files.items():
        stated = next((v for p in paths if (v := _stated(p)) is not None), None)
        if stated is not None:
            found[part] = stated
    return found


def _stated(path: Path) -> str | None:
    try:
        match = _VERSION.search(path.read_text("utf-8", errors="replace"))
    except OSError:
        return None
    return None if match is None else match["version"]


def _package(package: str, on_disk: Mapping[str, str]) -> Iterator[Check]:
    """Say whether torch_npu fits the PyTorch and the CANN that are here."""
    wanted, here = _release(package), _release(torch.__version__)
    if wanted != here:
        text = (
            f"torch_npu {package} needs torch {wanted}.*, found {torch.__version__}: "
            f"pip install torch=={wanted}.0"
        )
        yield Check("npu", "problem", text)
    else:
        yield Check("npu", "ok", f"torch_npu {package} fits torch {torch.__version__}")
    if "CANN" not in on_disk:
        text = (
            "torch_npu is installed and CANN was not found: source its set_env.sh, or "
            "set TORCH_DEVICE_BACKEND_AUTOLOAD=0 so that `import torch` works"
        )
        yield Check("npu", "problem", text)


def _release(text: str) -> str:
    return ".".join(re.split(r"[.+]", text)[:2])


def _device() -> Iterator[Check]:
    device = torch.device("npu")
    facts = device_facts(device)
    count = ask(module(), "device_count") or 1
    yield Check("npu", "ok", f"{count} x {facts.get('chip', 'NPU')}")
    mode = facts.get("overflow_mode")
    if mode == "saturation":
        text = (
            "saturation mode: Inf becomes the largest number, NaN 0; numcheck "
            "reads the overflow flag once a step"
        )
        yield Check("npu", "note", text)
    elif mode == "inf_nan":
        yield Check("npu", "ok", "overflow keeps Inf and NaN")
    wrong = _WRONG.get(str(facts.get("mode_contradiction")))
    if wrong is not None:
        yield Check("npu", "problem", wrong)
    if facts.get("hf32_conv") is True:
        text = "float32 convolutions run in HF32 (torch.npu.conv.allow_hf32 = True)"
        yield Check("npu", "note", text)
    if facts.get("bfloat16_supported") is False:
        yield Check("npu", "note", "no bfloat16 on this chip")
    blind = () if mode == "saturation" else blind_reductions(device)
    if blind:
        text = f"these reductions lose a NaN here: {', '.join(blind)}"
        yield Check("npu", "problem", text)
