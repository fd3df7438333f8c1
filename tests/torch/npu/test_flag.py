# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import torch

from numcheck_torch import npu
from tests.torch.npu.device import chip

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def flag() -> Iterator[npu.OverflowFlag]:
    with chip(soc=104, saturates=True):
        found = npu.overflow_flag(listening=True)
        assert found is not None
        yield found
        found.close()


def overflow() -> None:
    x = torch.full((2,), 300.0, dtype=torch.float16, device="npu")
    x * x


def test_there_is_no_flag_where_inf_is_kept() -> None:
    assert npu.overflow_flag() is None


def test_a_bracket_sees_what_happens_inside_it(flag: npu.OverflowFlag) -> None:
    overflow()
    with flag:
        pass
    assert flag.is_set is False
    with flag:
        overflow()
    assert flag.is_set is True


def test_another_reader_that_clears_it_makes_the_reading_unknown(
    flag: npu.OverflowFlag,
) -> None:
    with flag:
        overflow()
        torch.npu.utils.clear_npu_overflow_flag()
    assert (flag.is_set, flag.others) == (None, 1)


def test_a_flag_set_after_another_reader_cleared_it_is_seen(
    flag: npu.OverflowFlag,
) -> None:
    with flag:
        torch.npu.clear_npu_overflow_flag()
        overflow()
    assert flag.is_set is True


def test_clearing_forgets_other_readers(flag: npu.OverflowFlag) -> None:
    torch.npu.clear_npu_overflow_flag()
    with flag:
        pass
    assert (flag.is_set, flag.others) == (False, 0)


def test_closing_leaves_the_functions_as_they_were() -> None:
    with chip(soc=104, saturates=True):
        before = torch.npu.clear_npu_overflow_flag
        found = npu.overflow_flag(listening=True)
        assert found is not None
        assert torch.npu.clear_npu_overflow_flag is not before
        found.close()
        assert torch.npu.clear_npu_overflow_flag == before
