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
from numcheck_torch.npu.releases import cann_of, fit, oldest_driver, order
from numcheck_torch.npu.selftest import blind_reductions

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numcheck.doctor import State
    from numcheck_torch.npu.releases import Fit

__all__ = ["examine_npu", "versions_on_disk"]

_HOME: Final = Path("/usr/local/Ascend")
_TOOLKITS: Final = ("ascend-toolkit/latest", "cann")
_VERSION: Final = re.compile(r"^\s*[Vv]ersion\s*=\s*(?P<version>\S+)", re.MULTILINE)
_FIRMWARE: Final = re.compile(
    r"^\s*compatible_version_fw\s*=\s*\[(?P<from>[\d.]+),\s*(?P<to>[\d.]+)\]",
    re.MULTILINE,
)
_CANN: Final[dict[Fit, tuple[State, str]]] = {
    "released_for": ("ok", "cann_fits"),
    "runs_on": ("ok", "cann_runs"),
    "older": ("problem", "cann_older"),
    "newer": ("note", "cann_newer"),
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
        yield Check("npu", "ok", "part", {"part": part, "version": found})
    yield from _driver(on_disk, root)
    if package is not None:
        yield from _package(package, on_disk)
    if not has_npu():
        yield Check("npu", "note", "no_npu")
        return
    yield from _device()


def versions_on_disk(environment: Mapping[str, str], root: Path) -> dict[str, str]:
    """Return the versions of driver, firmware and CANN that their files state.

    Args:
        environment: environment variables; CANN sets where it lies.
        root: where Ascend software is installed otherwise.
    """
    home = environment.get("ASCEND_HOME_PATH") or environment.get("ASCEND_TOOLKIT_HOME")
    homes = [Path(home)] if home else [root / part for part in _TOOLKITS]
    files = {
        "driver": [root / "driver" / "version.info"],
        "firmware": [root / "firmware" / "version.info"],
        "CANN": [
            path
            for cann in homes
            for path in (
                *sorted(cann.glob("*/ascend_*_install.info")),
                cann / "version.info",
            )
        ],
    }
    found = {}
    for part, paths in files.items():
        stated = next((v for p in paths if (v := _stated(p)) is not None), None)
        if stated is not None:
            found[part] = stated
    return found


def _stated(path: Path) -> str | None:
    match = _VERSION.search(_text(path))
    return None if match is None else match["version"]


def _text(path: Path) -> str:
    try:
        return path.read_text("utf-8", errors="replace")
    except OSError:
        return ""


def _driver(on_disk: Mapping[str, str], root: Path) -> Iterator[Check]:
    """Say whether the driver fits the firmware and the CANN that are here."""
    driver = on_disk.get("driver")
    if driver is None:
        return
    firmware = on_disk.get("firmware")
    range_ = _FIRMWARE.search(_text(root / "driver" / "version.info"))
    if firmware is not None and range_ is not None:
        pair = {"driver": driver, "firmware": firmware, **range_.groupdict()}
        is_inside = _numbers(pair["from"]) <= _numbers(firmware) <= _numbers(pair["to"])
        state: State = "ok" if is_inside else "problem"
        yield Check(
            "npu", state, f"firmware_{'fits' if is_inside else 'differs'}", pair
        )
    cann = on_disk.get("CANN", "")
    oldest = oldest_driver(cann)
    if oldest is not None and order(driver) < order(oldest):
        pair = {"driver": driver, "cann": cann, "wanted": oldest}
        yield Check("npu", "problem", "driver_older", pair)


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(n) for n in re.findall(r"\d+", version)[:3])


def _package(package: str, on_disk: Mapping[str, str]) -> Iterator[Check]:
    """Say whether torch_npu fits the PyTorch and the CANN that are here."""
    wanted, here = _release(package), _release(torch.__version__)
    pair = {"package": package, "torch": torch.__version__, "wanted": wanted}
    if wanted != here:
        yield Check("npu", "problem", "pair_differs", pair)
    else:
        yield Check("npu", "ok", "pair_fits", pair)
    cann = on_disk.get("CANN")
    if cann is None:
        yield Check("npu", "problem", "no_cann")
        return
    found = fit(package, cann)
    if found is not None:
        state, text = _CANN[found]
        wanted = cann_of(package) or ""
        pair = {"package": package, "cann": cann, "wanted": wanted}
        yield Check("npu", state, text, pair)


def _release(text: str) -> str:
    """Return the release that a version belongs to: a torch_npu needs its very own."""
    found = re.match(r"\d+(?:\.\d+){0,2}", text)
    return text if found is None else found[0]


def _device() -> Iterator[Check]:
    device = torch.device("npu")
    facts = device_facts(device)
    known: dict[str, str | int] = {
        "n": int(ask(module(), "device_count") or 1),
        "chip": str(facts.get("chip", "NPU")),
    }
    yield Check("npu", "ok", "chips", known)
    mode = facts.get("overflow_mode")
    if mode == "saturation":
        yield Check("npu", "note", "saturates")
    elif mode == "inf_nan":
        yield Check("npu", "ok", "keeps")
    wrong = facts.get("mode_contradiction")
    if wrong is not None:
        yield Check("npu", "problem", str(wrong))
    for switch in ("hf32_conv", "hf32_matmul"):
        if facts.get(switch) is True:
            yield Check("npu", "note", switch)
    if facts.get("bfloat16_supported") is False:
        yield Check("npu", "note", "no_bfloat16")
    blind = () if mode == "saturation" else blind_reductions(device)
    if blind:
        lost = {"device": "npu", "reductions": ", ".join(blind)}
        yield Check("npu", "problem", "nan_lost", lost)
