# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import torch

from numcheck_torch.npu import doctor
from numcheck_torch.npu.doctor import examine_npu, versions_on_disk
from tests.torch.npu.device import chip

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for part, text in {
        "driver/version.info": "Version=24.1.rc3\nascendhal_version=7.35\n",
        "firmware/version.info": "Version=7.5.0.1.129\n",
        "ascend-toolkit/latest/x86_64-linux/ascend_toolkit_install.info": (
            "package_name=Ascend-cann-toolkit\nversion=8.2.RC1\n"
        ),
    }.items():
        path = tmp_path / part
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path


def lines(root: Path, package: str | None, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(doctor, "installed", lambda _: package)
    return "\n".join(f"{c.state}: {c.told('en')}" for c in examine_npu({}, root))


def test_versions_are_read_from_where_they_are_installed(root: Path) -> None:
    expected = {"driver": "24.1.rc3", "firmware": "7.5.0.1.129", "CANN": "8.2.RC1"}
    assert versions_on_disk({}, root) == expected


def test_the_environment_says_where_cann_lies(root: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "version.info").write_text("Version=9.1.0")
    assert versions_on_disk({"ASCEND_HOME_PATH": str(other)}, root)["CANN"] == "9.1.0"


def test_a_package_for_another_torch_is_a_problem(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = lines(root, "2.1.0", monkeypatch)
    assert "problem: torch_npu 2.1.0 needs torch 2.1.0" in found
    found = lines(root, "2.13.1", monkeypatch)
    assert "problem: torch_npu 2.13.1 needs torch 2.13.1" in found
    fitting = ".".join(torch.__version__.split(".")[:2]) + ".0.post2"
    assert "problem" not in lines(root, fitting, monkeypatch)


@pytest.mark.parametrize(
    ("package", "said"),
    [
        ("2.6.0", "ok: torch_npu 2.6.0 was released for CANN 8.2.RC1"),
        ("2.4.0", "ok: torch_npu 2.4.0 runs on CANN 8.2.RC1"),
        (
            "2.9.0",
            "problem: torch_npu 2.9.0 was released for CANN 8.5.0, found 8.2.RC1",
        ),
        ("2.2.0", "note: torch_npu 2.2.0 was released for CANN 8.0.RC1; 8.2.RC1 is"),
    ],
)
def test_a_package_is_held_against_the_cann_it_was_released_for(
    package: str, said: str, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert said in lines(root, package, monkeypatch)


def test_nothing_is_said_of_pairs_nobody_published(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fitting = ".".join(torch.__version__.split(".")[:2]) + ".0.post77"
    assert "CANN 8" not in lines(root, fitting, monkeypatch).replace("ok: CANN 8", "")


@pytest.mark.parametrize(
    ("driver", "problems"),
    [
        ("Version=24.1.rc3", []),
        ("Version=24.1.rc1", ["CANN 8.2.RC1 needs driver 24.1.RC2 or later"]),
        ("Version=25.2.0\ncompatible_version_fw=[7.0.0,7.7.99]", []),
        (
            "Version=25.2.0\ncompatible_version_fw=[7.6.0,7.7.99]",
            ["driver 25.2.0 needs firmware 7.6.0 to 7.7.99, found 7.5.0.1.129"],
        ),
    ],
)
def test_a_driver_is_held_against_firmware_and_cann(
    driver: str, problems: list[str], root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (root / "driver/version.info").write_text(driver)
    found = lines(root, None, monkeypatch).splitlines()
    told = [line for line in found if line.startswith("problem")]
    assert len(told) == len(problems)
    assert all(p in line for p, line in zip(problems, told, strict=True))


def test_a_package_without_cann_is_a_problem(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = lines(tmp_path, "2.13.0", monkeypatch)
    assert "TORCH_DEVICE_BACKEND_AUTOLOAD=0" in found


def test_the_device_says_how_overflow_shows(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "ok: overflow keeps Inf and NaN" in lines(root, None, monkeypatch)
    with chip(soc=104, saturates=True):
        found = lines(root, None, monkeypatch)
    assert "note: overflow saturates" in found
    assert "note: this chip has no bfloat16" in found


def test_an_environment_against_the_chip_is_a_problem(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INF_NAN_MODE_FORCE_DISABLE", "1")
    with chip(soc=220, saturates=True):
        found = lines(root, None, monkeypatch)
    assert "problem: INF_NAN_MODE_FORCE_DISABLE=1 hides Inf and NaN" in found


def test_fewer_bits_than_float32_has_are_told_with_the_way_out(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.npu.matmul, "allow_hf32", True)
    found = lines(root, None, monkeypatch)
    for switch in ("conv", "matmul"):
        assert f"torch.npu.{switch}.allow_hf32 = False turns that off" in found
    monkeypatch.setattr(torch.npu.conv, "allow_hf32", False)
    assert "convolutions" not in lines(root, None, monkeypatch)


def test_a_reduction_that_loses_a_nan_is_a_problem(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with chip(blind="aten::amax"):
        found = lines(root, None, monkeypatch)
    assert "problem: on npu these lose a NaN" in found


def test_everything_is_told_in_chinese_too(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INF_NAN_MODE_FORCE_DISABLE", "1")
    monkeypatch.setattr(doctor, "installed", lambda _: "2.1.0")
    with chip(soc=220, saturates=True):
        checks = list(examine_npu({}, root))
    assert len(checks) > 6
    for check in checks:
        is_number_alone = check.text in ("part", "chips")
        assert is_number_alone or check.told("zh") != check.told("en")
