# SPDX-License-Identifier: Apache-2.0
"""Convolutions and reductions whose running sums are narrow."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
import torch

import numcheck
import numcheck_torch
from numcheck.simulation import Arithmetic
from numcheck.simulation.loading import parse
from numcheck_torch.simulation.convolution import Convolution

if TYPE_CHECKING:
    from numpy.typing import NDArray

KERNELS = {1: (3,), 2: (3, 2), 3: (3, 2, 2)}


def drawn(*shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(len(shape)))


@pytest.mark.parametrize("is_transposed", [False, True], ids=["", "transposed"])
@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize(
    ("stride", "padding", "dilation"),
    [(1, 0, 1), (2, 1, 1), (1, 2, 2), (3, 1, 2), (2, 3, 1)],
    ids=str,
)
@pytest.mark.parametrize("axes", KERNELS)
def test_taken_apart_a_convolution_and_its_gradients_are_pytorch_s(
    axes: int, *, stride: int, padding: int, dilation: int, groups: int,
    is_transposed: bool,
) -> None:  # fmt: skip
    x = drawn(2, 4, *(9, 8, 10)[:axes]).requires_grad_()
    channels = (4, 6 // groups) if is_transposed else (6, 4 // groups)
    weight = drawn(*channels, *KERNELS[axes]).requires_grad_()
    lists = [[n] * axes for n in (stride, padding, dilation)]
    extra = [stride - 1 if is_transposed else 0] * axes
    settings = (*lists, is_transposed, extra, groups)
    expected = torch.ops.aten.convolution(x, weight, None, *settings)
    gradient = drawn(*expected.shape, 1)[..., 0]
    expected.backward(gradient)
    taken = Convolution.of(weight, settings, Arithmetic())
    for found, known in (
        (taken.forward(x, weight), expected),
        (taken.input_gradient(gradient, x, weight), x.grad),
        (taken.weight_gradient(gradient, x, weight), weight.grad),
    ):
        torch.testing.assert_close(found, known, rtol=1e-4, atol=1e-4)


def patches(x: NDArray[np.float32], size: int) -> NDArray[np.float32]:
    """Returns (place, channel and offset) of every square patch of one image."""
    _, height, width = x.shape
    return np.stack(
        [
            x[:, i : i + size, j : j + size].ravel()
            for i in range(height - size + 1)
            for j in range(width - size + 1)
        ]
    )


@pytest.mark.parametrize("fmt", ["fp16", "bf16"])
def test_narrow_sums_of_convolutions_are_those_of_numcheck_matmul(fmt: str) -> None:
    model = torch.nn.Conv2d(8, 5, 3, bias=False)
    weight = model.weight.detach().numpy().copy()
    x = drawn(1, 8, 6, 6).requires_grad_()
    numcheck_torch.simulate(model, f"{fmt}-accumulate")
    out = model(x)
    gradient = drawn(*out.shape)
    out.backward(gradient)
    assert x.grad is not None
    assert model.weight.grad is not None

    def product(a: NDArray[np.float32], b: NDArray[np.float32]) -> torch.Tensor:
        found = numcheck.matmul(a, b, fmt, accumulator=fmt, chunk=16)
        return torch.from_numpy(found.astype(np.float32))

    seen = patches(x.detach()[0].numpy(), 3)
    back = gradient[0].numpy().reshape(5, -1)
    around = patches(np.pad(gradient[0].numpy(), ((0, 0), (2, 2), (2, 2))), 3)
    turned = weight[:, :, ::-1, ::-1].transpose(1, 0, 2, 3).reshape(8, -1)
    assert torch.equal(out[0].flatten(1), product(seen, weight.reshape(5, -1).T).T)
    assert torch.equal(model.weight.grad.flatten(1), product(back, seen))
    assert torch.equal(x.grad[0].flatten(1), product(around, turned.T).T)


def in_pairs(values: NDArray[np.float16]) -> np.float16:
    """Returns a sum whose partial sums are all float16 numbers."""
    while len(values) > 1:
        values = values[0::2] + values[1::2]
    return np.float16(values[0])


FP16 = parse("[[rule]]\nfamilies = ['sum', 'mean']\naccumulator = 'float16'", "fp16")


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32], ids=str)
def test_reductions_are_added_up_in_the_accumulator_s_format(
    dtype: torch.dtype,
) -> None:
    x = drawn(3, 64).to(torch.float16)
    rows = np.array([in_pairs(row) for row in x.numpy()])
    add = numcheck_torch.simulate(lambda x: (x.sum(1), x.mean(1, keepdim=True)), FP16)
    total, mean = add(x.to(dtype))
    assert np.array_equal(total.numpy(), rows.astype(total.numpy().dtype))
    assert torch.equal(mean, torch.from_numpy(rows).float().div(64)[:, None].to(dtype))
    assert not torch.equal(total, x.to(dtype).sum(1))


@pytest.mark.parametrize("rules", ["", "[[rule]]\nfamilies=['conv']\ninput='bf16'\n"])
def test_the_gradient_of_a_convolution_s_bias_is_such_a_sum(rules: str) -> None:
    sums = "[[rule]]\nfamilies = ['sum']\naccumulator = 'float16'"
    layer = torch.nn.Conv2d(3, 4, 2)
    numcheck_torch.simulate(layer, parse(rules + sums, "fp16"))
    gradient = drawn(2, 4, 4, 8).to(torch.float16)
    layer(drawn(2, 3, 5, 9)).backward(gradient.float())
    rows = gradient.numpy().transpose(1, 0, 2, 3).reshape(4, -1)
    assert layer.bias is not None
    assert layer.bias.grad is not None
    assert layer.bias.grad.tolist() == [float(in_pairs(row)) for row in rows]


def test_a_mean_overflows_where_its_sum_does() -> None:
    x = torch.full((64,), 3000.0, dtype=torch.float16)
    assert numcheck_torch.simulate(torch.mean, FP16)(x).item() == torch.inf
    assert torch.mean(x).item() == 3000.0


def test_sums_of_nothing_and_of_all_axes_keep_their_shapes() -> None:
    x = drawn(2, 3)
    add = numcheck_torch.simulate(
        lambda x: [x.sum(), x.sum((0, 1), keepdim=True), x[:0].sum(0), x.sum(-1)], FP16
    )
    shapes = [t.shape for t in add(x)]
    assert shapes == [(), (1, 1), (3,), (2,)]
