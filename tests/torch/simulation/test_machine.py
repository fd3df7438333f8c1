# SPDX-License-Identifier: Apache-2.0
"""A simulated PyTorch program computes what the profile says, and else what it was."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

import numcheck
import numcheck_torch
from numcheck import quantize
from numcheck.errors import ArgumentTypeError
from numcheck.simulation import load
from numcheck.simulation.loading import parse

if TYPE_CHECKING:
    from collections.abc import Callable

Results = list[torch.Tensor]


class Small(nn.Module):
    """Convolution, attention and layers, on sixteen places of two images."""

    def __init__(self) -> None:
        super().__init__()
        self.look = nn.Conv2d(3, 32, 2, stride=2)
        self.norm = nn.LayerNorm(32)
        self.mixed = nn.Linear(32, 96)
        self.out = nn.Linear(32, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Returns the scores of five classes."""
        tokens = self.look(x).flatten(2).transpose(1, 2)
        query, key, value = self.mixed(self.norm(tokens)).chunk(3, -1)
        heads = [t.unflatten(-1, (2, 16)).transpose(1, 2) for t in (query, key, value)]
        found = functional.scaled_dot_product_attention(*heads)
        tokens = tokens + found.transpose(1, 2).flatten(-2)
        return self.out(functional.gelu(tokens).mean(1))


def trained(prepare: Callable[[nn.Module], object], steps: int = 3) -> Results:
    """Returns losses, gradients and parameters of some steps of training."""
    torch.manual_seed(0)
    model = Small()
    x, y = torch.randn(2, 3, 8, 8), torch.tensor([1, 4])
    prepare(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    found = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        found.append(loss.detach())
        found += [p.grad.clone() for p in model.parameters() if p.grad is not None]
    return [*found, *(p.detach() for p in model.parameters())]


def equal(a: Results, b: Results) -> bool:
    """Returns whether all tensors agree in every bit."""
    return len(a) == len(b) and all(map(torch.equal, a, b))


def test_float32_everywhere_is_the_plain_program_bit_for_bit() -> None:
    plain = trained(lambda m: None)
    assert equal(plain, trained(lambda m: numcheck_torch.simulate(m, "float32")))


@pytest.mark.parametrize("profile", ["mxfp8", "gpu-tf32", "fp8-per-tensor"])
def test_another_device_gives_other_results_every_time_the_same(profile: str) -> None:
    first = trained(lambda m: numcheck_torch.simulate(m, profile))
    assert equal(first, trained(lambda m: numcheck_torch.simulate(m, profile)))
    assert not equal(first, trained(lambda m: None))
    assert all(t.isfinite().all() for t in first)


def test_a_closed_simulation_is_over() -> None:
    def prepare(model: Any) -> None:
        numcheck_torch.simulate(model, "mxfp4")
        model.simulation.close()

    assert equal(trained(prepare), trained(lambda m: None))


def test_a_second_profile_takes_the_place_of_the_first() -> None:
    def prepare(model: nn.Module) -> None:
        numcheck_torch.simulate(numcheck_torch.simulate(model, "mxfp4"), "float32")

    assert equal(trained(prepare), trained(lambda m: None))


def test_a_step_as_a_function_is_simulated_like_its_module() -> None:
    def train(model: nn.Module, step: Callable[..., torch.Tensor]) -> Results:
        x, y = torch.randn(2, 3, 8, 8), torch.tensor([1, 4])
        loss = step(x, y)
        return [loss.detach(), *(p.grad for p in model.parameters())]  # type: ignore[list-item]

    def step_of(model: nn.Module) -> Callable[..., torch.Tensor]:
        def step(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            loss = functional.cross_entropy(model(x), y)
            loss.backward()
            return loss

        return step

    torch.manual_seed(0)
    one = Small()
    other = copy.deepcopy(one)
    numcheck_torch.simulate(one, "mxfp8")
    torch.manual_seed(1)
    first = train(one, step_of(one))
    torch.manual_seed(1)
    second = train(other, numcheck_torch.simulate(step_of(other), "mxfp8"))
    assert equal(first, second)


@pytest.mark.parametrize("wrap", ["module", "function"])
def test_no_mode_is_left_behind(wrap: str) -> None:
    model: Any = nn.Linear(4, 1)
    if wrap == "module":
        step = numcheck_torch.simulate(model, "mxfp8")
        step(torch.ones(2, 4)).sum().backward()
        with torch.no_grad():
            step(torch.ones(2, 4))
    else:
        numcheck_torch.simulate(lambda x: model(x).sum().backward(), "mxfp8")(
            torch.ones(2, 4)
        )
    assert torch._C._len_torch_dispatch_stack() == 0


def test_what_follows_a_dropped_graph_is_not_simulated() -> None:
    model, x = nn.Linear(32, 4), torch.randn(3, 32)
    numcheck_torch.simulate(model, "mxfp4")
    loss = model(x).sum()
    simulated = x @ x.T
    del loss
    plain = x @ x.T
    model.simulation.close()  # type: ignore[union-attr, operator]
    assert not torch.equal(simulated, plain)
    assert torch.equal(plain, x @ x.T)


def test_a_failing_call_leaves_no_mode_behind() -> None:
    model = numcheck_torch.simulate(nn.Linear(4, 1), "mxfp8")
    with pytest.raises(RuntimeError):
        model(torch.ones(2, 5))
    assert torch._C._len_torch_dispatch_stack() == 0


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_saturation_gives_the_largest_number_and_zero_for_nan(
    dtype: torch.dtype,
) -> None:
    largest = torch.finfo(dtype).max

    def program(x: torch.Tensor) -> Results:
        top = x * largest
        return [top * 2, -top - top, torch.log(x - x), top * 2 - top * 2, 0 / (x - x)]

    found = numcheck_torch.simulate(program, "ascend910a")(torch.ones(1, dtype=dtype))
    assert [t.item() for t in found] == [largest, -largest, -largest, 0.0, 0.0]


def test_casts_saturate_as_the_device_s_do() -> None:
    x = torch.tensor([70000.0, -1e30, float("inf"), float("nan"), 65519.9, 1e-9])
    cast = numcheck_torch.simulate(lambda x: x.half(), "ascend910a")
    expected = numcheck.formats.cast(x.numpy(), "float16", "ascend_saturation")
    assert np.array_equal(cast(x).float().numpy(), expected)


def test_masks_of_infinity_are_moved_and_not_saturated() -> None:
    mask = torch.tensor([True, False])
    fill = numcheck_torch.simulate(
        lambda x: x.masked_fill(mask, -torch.inf), "ascend910a"
    )
    assert fill(torch.zeros(2)).tolist() == [-torch.inf, 0.0]


def test_what_is_written_in_place_is_settled_in_place() -> None:
    x = torch.full((3,), 60000.0).half()
    double = numcheck_torch.simulate(lambda x: x.add_(x), "ascend910a")
    assert double(x) is x
    assert x.tolist() == [65504.0] * 3


@pytest.mark.parametrize("profile", ["mxfp8", "mxfp4", "tpu-bf16", "hif8"])
def test_products_are_those_of_quantised_factors(profile: str) -> None:
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal(s).astype(np.float32) for s in ((8, 80), (80, 6)))
    rounding = load(profile).arithmetic("matmul", "float32").input
    assert rounding is not None
    left, right = rounding.quantized(a, -1), rounding.quantized(b, -2)
    multiply = numcheck_torch.simulate(torch.matmul, profile)
    found = multiply(torch.from_numpy(a), torch.from_numpy(b)).numpy()
    # Sums of 80 products in float32, in whatever order (Higham 2002, section 3.1).
    bound = 80 * 2.0**-24 * (np.abs(left) @ np.abs(right))
    expected = left.astype(np.float64) @ right.astype(np.float64)
    assert np.all(np.abs(found.astype(np.float64) - expected) <= bound)
    assert not np.allclose(found, a @ b, rtol=1e-4, atol=1e-4)


def test_gradients_of_a_product_are_those_of_quantised_factors() -> None:
    torch.manual_seed(0)
    x, w = torch.randn(64, 96, requires_grad=True), torch.randn(96, 32)
    w.requires_grad_()
    g = torch.randn(64, 32)

    def rounded(t: torch.Tensor, axis: int) -> torch.Tensor:
        return torch.from_numpy(
            np.ascontiguousarray(quantize(t.detach().numpy(), "mxfp8", axis=axis))
        )

    numcheck_torch.simulate(lambda: (x @ w).backward(g), "mxfp8")()
    assert x.grad is not None
    assert w.grad is not None
    dx = rounded(g, 1) @ rounded(w, 1).T
    dw = rounded(x, 0).T @ rounded(g, 0)
    assert torch.allclose(x.grad, dx, rtol=1e-5, atol=1e-4)
    assert torch.allclose(w.grad, dw, rtol=1e-5, atol=1e-4)


def test_gradients_are_rounded_to_their_own_format() -> None:
    profile = parse("input = 'float32'\ngradient = 'float4_e2m1fn'", "coarse")
    x, w = torch.full((2, 2), 1.1), torch.full((2, 2), 1.1, requires_grad=True)

    def step() -> torch.Tensor:
        y = x @ w
        y.mul(1.3).sum().backward()
        return y

    y = numcheck_torch.simulate(step, profile)()
    assert torch.equal(y, x @ w)
    # 1.3 is nearest to 1.5 among the values of the format.
    assert w.grad is not None
    assert torch.allclose(w.grad, torch.full((2, 2), 2 * 1.1 * 1.5))


@pytest.mark.parametrize(
    ("profile", "fmt"), [("fp16-accumulate", "fp16"), ("bf16-accumulate", "bf16")]
)
def test_narrow_sums_are_those_of_numcheck_matmul(profile: str, fmt: str) -> None:
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal(s).astype(np.float32) for s in ((5, 200), (200, 7)))
    expected = numcheck.matmul(a, b, fmt, accumulator=fmt, chunk=16)
    found = numcheck_torch.simulate(torch.mm, profile)(
        torch.from_numpy(a), torch.from_numpy(b)
    )
    assert np.array_equal(found.numpy(), expected.astype(np.float32))


@pytest.mark.parametrize("batch", [(), (3,)])
def test_narrow_sums_hold_for_vectors_batches_and_added_terms(
    batch: tuple[int, ...],
) -> None:
    torch.manual_seed(0)
    a, b, c = torch.randn(*batch, 4, 64), torch.randn(*batch, 64, 5), torch.randn(5)
    profile = parse("accumulator = 'bfloat16'", "narrow")
    run = numcheck_torch.simulate(lambda: a @ b + c, profile)
    rows = [numcheck.matmul(*m, accumulator="bf16") for m in _matrices(a, b)]
    expected = torch.tensor(np.array(rows), dtype=torch.float32).reshape(*batch, 4, 5)
    assert torch.equal(run(), expected + c)
    vector = numcheck_torch.simulate(lambda: a @ b[..., 0].flatten()[:64], profile)
    assert vector().shape == (*batch, 4)


def _matrices(a: torch.Tensor, b: torch.Tensor) -> list[tuple[Any, Any]]:
    pairs = zip(a.reshape(-1, 4, 64), b.reshape(-1, 64, 5), strict=True)
    return [(left.numpy(), right.numpy()) for left, right in pairs]


def test_truncation_rounds_between_a_product_and_its_addition() -> None:
    layer = nn.Linear(1, 1).bfloat16()
    with torch.no_grad():
        layer.weight.fill_(1 + 2**-6)
        layer.bias.fill_(-1.0)
    x = torch.full((1, 1), 1 + 2**-6, dtype=torch.bfloat16)
    wide = numcheck_torch.simulate(lambda: layer(x), parse("input='bf16'", "w"))()
    cut = numcheck_torch.simulate(lambda: layer(x), parse("fused='truncate'", "t"))()
    # (1 + 2^-6)^2 - 1 = 2^-5 + 2^-12, whose last term the product alone cannot hold.
    assert wide.item() == 2**-5 + 2**-12
    assert cut.item() == 2**-5


def test_truncation_rounds_between_the_steps_of_a_fused_kernel() -> None:
    torch.manual_seed(0)
    x = torch.randn(64, 50).bfloat16()
    cut = numcheck_torch.simulate(torch.softmax, parse("fused='truncate'", "t"))(x, -1)
    # The steps of a softmax, each an operator of its own that rounds to bfloat16.
    raised = torch.exp(x - x.amax(-1, keepdim=True))
    total = raised.float().sum(-1, keepdim=True).bfloat16()
    assert torch.equal(cut, raised / total)
    assert not torch.equal(cut, torch.softmax(x, -1))


def test_truncation_goes_through_the_backward_of_a_fused_kernel() -> None:
    torch.manual_seed(0)
    x = torch.randn(4, 50).bfloat16().requires_grad_()
    layer = nn.LayerNorm(50).bfloat16()
    step = numcheck_torch.simulate(
        lambda: layer(x).square().sum().backward(), parse("fused='truncate'", "t")
    )
    step()
    assert x.grad is not None
    assert x.grad.isfinite().all()
    assert x.grad.dtype == torch.bfloat16


def test_outputs_are_rounded_where_a_profile_says_so() -> None:
    profile = parse("output = 'bfloat16'", "coarse")
    x = torch.linspace(1, 2, 50)
    found = numcheck_torch.simulate(torch.exp, profile)(x)
    assert torch.equal(found, torch.exp(x).bfloat16().float())


def test_convolutions_take_rounded_factors_forward_and_backward() -> None:
    torch.manual_seed(0)
    x, w = torch.randn(2, 3, 6, 6), torch.randn(4, 3, 3, 3)
    g = torch.randn(2, 4, 4, 4)

    def gradients(*given: torch.Tensor) -> Results:
        a, b = (t.clone().requires_grad_() for t in given[:2])
        y = functional.conv2d(a, b)
        y.backward(given[2])
        return [y.detach(), a.grad, b.grad]  # type: ignore[list-item]

    coarse = [torch.from_numpy(quantize(t.numpy(), "hf32")) for t in (x, w, g)]
    found = numcheck_torch.simulate(gradients, "ascend910b")(x, w, g)
    for one, expected in zip(found, gradients(*coarse), strict=True):
        assert torch.allclose(one, expected, rtol=1e-5, atol=1e-5)
    assert not torch.equal(found[0], functional.conv2d(x, w))


def test_a_low_precision_product_keeps_its_dtype() -> None:
    x = torch.randn(4, 32).half()
    found = numcheck_torch.simulate(lambda: x @ x.T, "mxfp8")()
    assert found.dtype == torch.float16


def test_what_is_neither_module_nor_function_is_refused() -> None:
    with pytest.raises(ArgumentTypeError, match="got int"):
        numcheck_torch.simulate(3, "mxfp8")


def test_a_copy_of_a_simulated_module_is_simulated() -> None:
    model = numcheck_torch.simulate(nn.Linear(32, 4), "mxfp4")
    x = torch.randn(3, 32)
    assert torch.equal(copy.deepcopy(model)(x), model(x))
