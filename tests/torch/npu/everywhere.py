# SPDX-License-Identifier: Apache-2.0
"""Runs the other PyTorch tests on the simulated device: ``pytest -p`` this module."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Final

import pytest
import torch

from tests.torch.npu.device import chip, install, treat_as_plain

if TYPE_CHECKING:
    from collections.abc import Iterator

_NO_HIGHER_ORDER: Final = "higher-order operators do not take wrapper subclasses"
_NO_SECOND_CLASS: Final = "a wrapper subclass takes no further class"

NOT_HERE: Final = {
    "test_compiled": "PyTorch does not compile wrapper subclasses",
    "inside_a_compiled_program": "PyTorch does not compile wrapper subclasses",
    "inside_compiled_code": "PyTorch does not compile wrapper subclasses",
    "compiled_module": "PyTorch does not compile wrapper subclasses",
    "of_compiled_code": "PyTorch does not compile wrapper subclasses",
    "test_what_compiled_code_hides": "PyTorch does not compile wrapper subclasses",
    "test_a_compiled_": "PyTorch does not compile wrapper subclasses",
    "[aot_eager-": "PyTorch does not compile wrapper subclasses",
    "[inductor-": "PyTorch does not compile wrapper subclasses",
    "step_that_is_compiled_as_a_whole": "PyTorch does not compile wrapper subclasses",
    "watch_shows_them[compiled]": "PyTorch does not compile wrapper subclasses",
    "what_traces_a_program_sees": "PyTorch does not trace wrapper subclasses",
    "test_the_operators_of_the_branch_taken": _NO_HIGHER_ORDER,
    "test_modes_of_experiments_let_conditions_run": _NO_HIGHER_ORDER,
    "test_random_numbers_are_those_drawn_without": _NO_HIGHER_ORDER,
    "test_what_puts_results_together_itself": _NO_HIGHER_ORDER,
    "test_every_round_of_a_loop_is_recorded": _NO_HIGHER_ORDER,
    "images of a class of their own": _NO_SECOND_CLASS,
    "watch_shows_them[subclass]": _NO_SECOND_CLASS,
    "test_a_module_without_values_yet": _NO_SECOND_CLASS,
    "buffer that is resized": "a wrapper subclass keeps the shape it was made with",
    "test_settings_of_the_training_reach_the_finding": "expects the CPU's settings",
    "test_every_value_of_a_format_is_counted": "expects sums in float64",
    "test_chunks_merge_to_the_summary": "expects sums in float64",
    "test_sums_of_squares_do_not_overflow": "expects sums in float64",
    "test_sums_are_exact_to_a_few_roundings": "the CPU behind adds rows in a chain",
    "test_long_narrow_values_are_summed": "a device widens as it reads",
    "inside_a_function_transform": "vmap does not take wrapper subclasses",
    "test_an_output_that_cannot_be_copied": "vmap does not take wrapper subclasses",
    "memory_was_given_back": "wrapper subclasses have no memory of their own",
    "test_a_sparse_tensor_counts": "the simulated tensors are dense",
    "test_sparse_batches_and_targets": "the simulated tensors are dense",
    "of_strided_nested_tensors": "the simulated tensors have one shape",
    "test_tangents_that_are_zero_throughout": "the device has no zero tangents",
    "test_a_reduction_that_fails": "the device reduces by other operators",
    "float64_twin": "there is no float64",
    "[many_kinds]": "there is no float64",
    "test_float32_does_not_heal_a_logarithm_of_zero": "there is no float64",
    "test_a_fully_sharded_step": "process groups do not take wrapper subclasses",
    "test_a_functional_collective": "process groups do not take wrapper subclasses",
    "lifted_weights[GRU]": "the CPU behind the device has no fused cell",
    "lifted_weights[LSTM]": "the CPU behind the device has no fused cell",
    "tied language model": "the CPU behind the device has no fused cell",
    "has_its_family[<lambda>-attention]": "attention has no fused kernel here",
    "test_scores_that_overflow_are_named": "attention has no fused kernel here",
    "test_a_checkpoint_recomputes_under_the_same_line_and_module[True]": (
        "a reentrant checkpoint leaves the thread of the device"
    ),
}
"""Tests that cannot hold on this device, by a part of their name, and why.

What starts processes of its own (ranks, scripts, other libraries' trainers) would start
them without the device, so those folders are left out whole.
"""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip what cannot hold here."""
    for item in items:
        for part, why in NOT_HERE.items():
            if part in item.name:
                item.add_marker(pytest.mark.skip(reason=why))


def _named_by_tests(device: str) -> str:
    """Return the device a test means where it names the CPU: the one it runs on."""
    caller = str(sys._getframe(2).f_globals.get("__name__"))
    return "npu" if device == "cpu" and caller.startswith("tests.") else device


class _Autocast(torch.autocast):
    def __init__(self, device_type: str, *args: Any, **kwargs: Any) -> None:
        super().__init__(_named_by_tests(device_type), *args, **kwargs)


class _GradScaler(torch.amp.GradScaler):
    def __init__(self, device: str = "npu", *args: Any, **kwargs: Any) -> None:
        super().__init__(_named_by_tests(device), *args, **kwargs)


@pytest.fixture(autouse=True)
def _on_the_simulated_device(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    install()
    treat_as_plain(monkeypatch)
    monkeypatch.setattr(torch, "autocast", _Autocast)
    monkeypatch.setattr(torch.amp, "GradScaler", _GradScaler)
    with chip(), torch.device("npu"):
        yield
