# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import sys
import types
from typing import TYPE_CHECKING, Any

import pytest
import torch

from numcheck.errors import ArgumentError, MissingExtraError
from numcheck_torch import npu

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def options(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, str]]:
    """Returns the options the device is given, which it writes into as the real."""
    given: list[dict[str, str]] = []

    def set_option(option: dict[str, Any]) -> None:
        assert isinstance(option, dict)
        given.append({name: str(value) for name, value in option.items()})

    monkeypatch.setattr(torch.npu, "set_option", set_option, raising=False)
    return given


def test_kernels_are_debugged_inside_the_block_only(
    options: list[dict[str, str]], tmp_path: Path
) -> None:
    home = tmp_path / "new" / "kernels"
    with npu.kernel_debugging(2, home):
        assert options == [{"ACL_OP_DEBUG_LEVEL": "2", "ACL_DEBUG_DIR": str(home)}]
        assert home.is_dir()
    assert options[1:] == [{"ACL_OP_DEBUG_LEVEL": "0", "ACL_DEBUG_DIR": "./"}]


def test_afterwards_level_and_folder_are_what_they_were(
    options: list[dict[str, str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = {"ACL_OP_DEBUG_LEVEL": b"3", "ACL_DEBUG_DIR": b"/mine"}
    fake: Any = types.ModuleType("torch_npu")
    fake.npu, fake._C = torch.npu, types.SimpleNamespace(_npu_getOption=held.get)
    monkeypatch.setitem(sys.modules, "torch_npu", fake)
    with npu.kernel_debugging(1, tmp_path):
        pass
    with npu.kernel_debugging(1):
        pass
    assert options[1] == {"ACL_OP_DEBUG_LEVEL": "3", "ACL_DEBUG_DIR": "/mine"}
    assert options[3] == {"ACL_OP_DEBUG_LEVEL": "3"}


def test_a_block_that_fails_ends_it_too(options: list[dict[str, str]]) -> None:
    with pytest.raises(KeyError), npu.kernel_debugging(1):
        raise KeyError
    assert [o["ACL_OP_DEBUG_LEVEL"] for o in options] == ["1", "0"]


@pytest.mark.parametrize("level", [5, -1, True, "2"], ids=repr)
def test_levels_the_compiler_does_not_know_are_refused(
    options: list[dict[str, str]], level: Any
) -> None:
    with (
        pytest.raises(ArgumentError, match="level is one of"),
        npu.kernel_debugging(level),
    ):
        pass
    assert options == []


def test_without_the_device_it_says_what_to_install() -> None:
    with pytest.raises(MissingExtraError, match="CANN"), npu.kernel_debugging(1):
        pass
