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


def test_flags_that_led_to_nothing_are_heeded_ever_more_rarely(
    flag: npu.OverflowFlag,
) -> None:
    heeded = []
    for step in range(20):
        with flag:
            overflow()
        if flag.is_heeded:
            heeded.append(step)
            flag.judge(in_vain=True)
    assert heeded == [0, 1, 2, 4, 8, 16]


def test_a_clear_flag_makes_the_next_one_count(flag: npu.OverflowFlag) -> None:
    for _ in range(5):
        with flag:
            overflow()
        flag.judge(in_vain=True)
    with flag:
        overflow()
    assert not flag.is_heeded
    with flag:
        pass
    with flag:
        overflow()
    assert flag.is_heeded


def test_a_flag_that_led_to_something_is_heeded_every_time(
    flag: npu.OverflowFlag,
) -> None:
    for _ in range(3):
        with flag:
            overflow()
        assert flag.is_heeded
        flag.judge(in_vain=False)
