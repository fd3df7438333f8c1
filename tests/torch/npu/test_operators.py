# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import sys
import types
from typing import Any

import pytest
import torch

from numcheck_torch import npu

Q = torch.zeros(2, 4, 5, 8)


@pytest.mark.parametrize(
    ("name", "family", "effect"),
    [
        ("npu_fusion_attention", "attention", "compute"),
        ("npu_fusion_attention_grad_v3", "attention", "compute"),
        ("npu_rms_norm", "normalisation", "compute"),
        ("npu_add_rms_norm_v2_functional", "normalisation", "compute"),
        ("npu_scaled_masked_softmax", "softmax", "compute"),
        ("npu_grouped_matmul_swiglu_quant", "matmul", "compute"),
        ("npu_linear", "matmul", "compute"),
        ("npu_mm_all_reduce_base", "collective", "compute"),
        ("npu_conv2d", "conv", "compute"),
        ("npu_swiglu", "mul", "compute"),
        ("npu_gelu", "sigmoid", "compute"),
        ("npu_rotary_mul", "mul", "compute"),
        ("npu_cross_entropy_loss", "loss", "compute"),
        ("npu_apply_adam_w", "optimizer", "compute"),
        ("npu_dtype_cast_", "cast", "cast"),
        ("npu_format_cast_", "", "move"),
        ("npu_transpose", "", "move"),
        ("npu_get_float_status", "", "compute"),
    ],
)
def test_operators_are_what_their_names_say(
    name: str, family: str, effect: str
) -> None:
    assert npu.classify_npu(name) == (family, effect)


def facts(mask: torch.Tensor | None, **given: Any) -> dict[str, str | float]:
    call = {"query": Q, "key": Q, "input_layout": "BNSD", "atten_mask": mask, **given}
    return dict(npu.mask_facts(call))


HIDE_FUTURE = torch.ones(5, 5, dtype=torch.bool).triu(1)


def test_a_causal_mask_of_the_kernel_s_polarity_is_fine() -> None:
    assert facts(HIDE_FUTURE) == {}
    assert facts(None) == {}


def test_a_causal_mask_of_the_other_polarity_is_upside_down() -> None:
    found = facts(~HIDE_FUTURE)
    assert found["mask_upside_down"] == 1.0
    assert found["mask_hidden_rows"] == 1.0


def test_a_mask_of_floats_is_noted() -> None:
    mask = torch.zeros(5, 5).masked_fill(HIDE_FUTURE, float("-inf"))
    assert facts(mask) == {"mask_dtype": "float32"}


def test_rows_without_a_visible_key_are_counted() -> None:
    mask = torch.zeros(2, 1, 5, 5, dtype=torch.bool)
    mask[1, 0, 3:] = True
    assert facts(mask) == {"mask_hidden_rows": 2.0, "mask_rows": 10.0}


@pytest.mark.parametrize(
    ("layout", "shape"),
    [("BNSD", (2, 4, 5, 8)), ("BSND", (2, 5, 4, 8)), ("BSH", (2, 5, 32)),
     ("SBH", (5, 2, 32))],
)  # fmt: skip
def test_the_mask_s_shape_is_held_against_the_scores(
    layout: str, shape: tuple[int, ...]
) -> None:
    given = {"query": torch.zeros(shape), "key": torch.zeros(shape)}
    assert facts(HIDE_FUTURE, input_layout=layout, **given) == {}
    wrong = facts(torch.zeros(4, 5, dtype=torch.bool), input_layout=layout, **given)
    assert wrong == {"mask_shape": "[4, 5] for [5, 5]"}


def test_compressed_masks_have_one_size() -> None:
    big = torch.ones(2048, 2048, dtype=torch.bool).triu(1)
    assert facts(big, sparse_mode=2) == {}
    assert facts(~big, sparse_mode=3) == {"mask_upside_down": 1.0}
    assert "mask_shape" in facts(HIDE_FUTURE, sparse_mode=2)


def test_the_compressed_mask_of_a_prefix_is_longer() -> None:
    prefix = torch.zeros(3072, 2048, dtype=torch.bool)
    prefix[:2048] = torch.ones(2048, 2048, dtype=torch.bool).triu(1)
    prefix[2048:, 1024:] = True
    assert facts(prefix, sparse_mode=6) == {}
    assert "mask_shape" in facts(prefix[:2048], sparse_mode=6)


def test_padded_layouts_are_told_from_plain_ones(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    x, padded = torch.ones(2, device="npu"), torch.ones(2, device="npu")
    fake = types.ModuleType("torch_npu")
    fake.npu = torch.npu  # type: ignore[attr-defined]
    fake.get_npu_format = lambda t: 29 if t is padded else 2  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "torch_npu", fake)
    assert [npu.has_padding(t) for t in (x, padded, torch.ones(2))] == [
        False,
        True,
        False,
    ]
