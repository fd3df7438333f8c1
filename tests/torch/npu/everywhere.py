# SPDX-License-Identifier: Apache-2.0
"""Runs the other PyTorch tests on the simulated device: ``pytest -p`` this module."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest
import torch

from tests.torch.npu.device import chip, install, treat_as_plain

if TYPE_CHECKING:
    from collections.abc import Iterator

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
    "test_settings_of_the_training_reach_the_finding": "expects the CPU's settings",
    "test_audit_of_the_first_step_sees_a_flushed_gradient": "asks for CPU autocast",
    "test_a_weight_too_large_is_found_in_its_layer": "asks for CPU autocast",
    "test_weights_too_large_for_their_sum": "asks for squares beyond float32",
    "test_search_for_a_loss_scale_is_no_fault": "asks for the CPU's scaler",
    "test_every_value_of_a_format_is_counted": "expects sums in float64",
    "test_chunks_merge_to_the_summary": "expects sums in float64",
    "test_sums_of_squares_do_not_overflow": "expects sums in float64",
    "test_sums_are_exact_to_a_few_roundings": "the CPU behind adds rows in a chain",
    "test_long_narrow_values_are_summed": "a device widens as it reads",
    "test_an_output_that_cannot_be_copied": "vmap does not take wrapper subclasses",
    "test_a_sparse_tensor_counts": "the simulated tensors are dense",
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


@pytest.fixture(autouse=True)
def _on_the_simulated_device(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    install()
    treat_as_plain(monkeypatch)
    with chip(), torch.device("npu"):
        yield
