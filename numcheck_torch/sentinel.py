# SPDX-License-Identifier: Apache-2.0
"""The cheap check before an update: are the loss and every gradient finite?

One fused norm over the gradients, in float32, joined with the losses into one vector
that is read once. A norm that is not finite is confirmed element by element, since a
finite gradient of 1e20 has an infinite float32 norm.
"""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING

import torch

from numcheck.measure.summary import Summary

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numcheck.record.site import Site
    from numcheck_torch.boundary import Checked

__all__ = [
    "Reading",
    "at_a_glance",
    "bad_checks",
    "local",
    "look",
    "norms_of",
    "scalar",
]

FLAG = "overflow flag"
"""Name in `Reading.bad` of a device's own sticky flag."""

_UP_TO_FLOAT32 = {torch.float32, torch.bfloat16, torch.float16}


@dataclasses.dataclass(slots=True)
class Reading:
    """What one look at the step's results showed.

    Attributes:
        losses: values of what was differentiated, in order.
        norm: 2-norm over all gradients; None when there are none.
        bad: names of the gradients that hold NaN or Inf, ``loss`` for a loss.
        checked: values the user checks that are bad, and what they held.
        overflowed: whether a gradient scaler is about to drop the gradients.
        scale: what the gradient scaler multiplied the losses by.
    """

    losses: tuple[float, ...]
    norm: float | None
    bad: tuple[str, ...]
    overflowed: bool = False
    scale: float = 1.0
    checked: tuple[tuple[Site, Summary], ...] = ()

    @property
    def loss(self) -> float | None:
        """The last loss, without a gradient scaler's scale."""
        return self.losses[-1] / self.scale if self.losses else None

    @property
    def is_healthy(self) -> bool:
        """Whether everything looked at is finite."""
        return not self.bad

    def beside(self, flag: bool) -> Reading:  # noqa: FBT001 - a device's reading
        """Return this reading with what a device's overflow flag says, if it is set."""
        return dataclasses.replace(self, bad=(*self.bad, FLAG)) if flag else self


def local(tensor: torch.Tensor) -> torch.Tensor:
    """Return the part of a tensor that lives in this process, as plain strided."""
    if type(tensor) is not torch.Tensor and hasattr(tensor, "to_local"):
        tensor = tensor.to_local()
    if tensor.is_nested and tensor.layout is torch.strided:
        parts = [part.reshape(-1) for part in tensor.unbind()]
        return torch.cat(parts) if parts else torch.zeros(0)
    return tensor.coalesce().values() if tensor.is_sparse else tensor


def look(
    gradients: Sequence[tuple[str, torch.Tensor]],
    losses: Sequence[torch.Tensor],
    *,
    total: torch.Tensor | None = None,
    found_inf: torch.Tensor | None = None,
    scale: torch.Tensor | None = None,
    checks: Sequence[Checked] = (),
) -> Reading:
    """Return what the step's gradients and losses hold, with one synchronisation.

    Args:
        gradients: (name, gradient) of each parameter; any floating dtype or device.
        losses: what was differentiated, any shape.
        total: norm over all gradients that the program computed itself, to be used in
            place of one of ours.
        found_inf: a gradient scaler's verdict; where it is not zero the gradients
            are about to be dropped, and are not judged.
        scale: a gradient scaler's scale.
        checks: values the user checks by hand.

    Example:
        >>> g = torch.tensor([3.0, 4.0])
        >>> look([("w", g)], [torch.tensor(0.5)]).norm
        5.0
    """
    with torch.no_grad():
        values = [
            g if type(g) is torch.Tensor and g.layout is torch.strided else local(g)
            for _, g in gradients
        ]
        norms = norms_of(values) if total is None else [scalar(total)]
        amounts = [scalar(loss) for loss in losses]
        extra = [scalar(t) for t in (found_inf, scale) if t is not None]
        ends = [end for check in checks for end in check.extremes.unbind()]
        numbers = _read([*norms, *amounts, *extra, *ends])
        checked = bad_checks(checks, numbers) if checks else ()
        del numbers[len(numbers) - len(ends) :]
        factor = 1.0 if scale is None else numbers.pop()
        overflowed = found_inf is not None and numbers.pop() != 0
        parts, found = numbers[: len(norms)], tuple(numbers[len(norms) :])
        if overflowed and all(site.phase == "backward" for site, _ in checked):
            return Reading(found, None, (), overflowed=True, scale=factor)
        # One sum tells that all is well: NaN and Inf are lost in none, and a sum that
        # overflows by itself is looked at more closely.
        if math.isfinite(sum(numbers)) and not checked:
            return Reading(
                found, math.hypot(*parts) if parts else None, (), scale=factor
            )
        bad = ["loss" for amount in found if not math.isfinite(amount)]
        if not all(map(math.isfinite, parts)):
            named = zip(gradients, values, strict=True)
            bad += [n for (n, _), v in named if not bool(torch.isfinite(v).all())]
        bad += [site.op for site, _ in checked]
    norm = math.hypot(*parts) if parts else None
    return Reading(found, norm, tuple(bad), scale=factor, checked=checked)


def at_a_glance(
    parameters: Sequence[tuple[str, torch.Tensor]], losses: Sequence[torch.Tensor]
) -> Reading | None:
    """Return a healthy reading of ordinary values on the host; None for all others.

    Of a step of a few milliseconds the price is the code that runs, not the numbers,
    so this is one function with as few branches as can be.

    Args:
        parameters: (name, parameter) of each, with a gradient or without.
        losses: as `look` takes them.
    """
    plain, strided, values = torch.Tensor, torch.strided, []
    for _, parameter in parameters:
        g = parameter.grad
        if g is None:
            continue
        if type(g) is not plain or g.layout is not strided or not g.is_cpu:
            return None
        values.append(g)
    if not values or not {g.dtype for g in values} <= _UP_TO_FLOAT32:
        return None
    amounts = []
    for loss in losses:
        if type(loss) is not torch.Tensor or not loss.is_floating_point() or loss.dim():
            return None
        amounts.append(loss.item())
    norms = [n.item() for n in torch._foreach_norm(values, 2, dtype=torch.float32)]
    norm = math.hypot(*norms)
    if not math.isfinite(norm + sum(amounts)):
        return None
    return Reading(tuple(amounts), norm, ())


def bad_checks(
    checks: Sequence[Checked], numbers: list[float]
) -> tuple[tuple[Site, Summary], ...]:
    """Return which checks failed; their extremes are the last of the numbers."""
    ends = numbers[len(numbers) - 2 * len(checks) :]
    found = zip(checks, ends[::2], ends[1::2], strict=True)
    return tuple(
        (check.site, Summary(n=check.size, low=low, high=high))
        for check, low, high in found
        if not (math.isfinite(low) and math.isfinite(high))
    )


def norms_of(values: list[torch.Tensor]) -> list[torch.Tensor]:
    """Return the 2-norm of each tensor, still on its device."""
    if not values:
        return []
    dtypes = {v.dtype for v in values}
    if dtypes <= _UP_TO_FLOAT32:
        return list(torch._foreach_norm(values, 2, dtype=torch.float32))
    if len(dtypes) == 1:
        return list(torch._foreach_norm(values, 2))
    return [torch.linalg.vector_norm(v) for v in values]


def scalar(loss: torch.Tensor) -> torch.Tensor:
    """Return a loss as one number, still on its device."""
    loss = local(loss.detach())
    return loss if loss.dim() == 0 else loss.sum()


def _read(scalars: list[torch.Tensor]) -> list[float]:
    """Return the scalars on the host; one transfer for each device among them."""
    if not scalars:
        return []
    device = scalars[0].device
    if all(s.device == device for s in scalars):
        return _row(scalars)
    numbers: dict[int, float] = {}
    for where in {s.device for s in scalars}:
        here = [(i, s) for i, s in enumerate(scalars) if s.device == where]
        row = _row([s for _, s in here])
        numbers.update({i: n for (i, _), n in zip(here, row, strict=True)})
    return [numbers[i] for i in range(len(scalars))]


def _row(scalars: list[torch.Tensor]) -> list[float]:
    dtypes = {s.dtype for s in scalars}
    if len(dtypes) > 1 or scalars[0].is_complex():
        wide = torch.float64 if torch.float64 in dtypes else torch.float32
        scalars = [(s.abs() if s.is_complex() else s).to(wide) for s in scalars]
    if scalars[0].is_cpu:
        return [float(s) for s in scalars]
    row: list[float] = torch.stack(scalars).tolist()
    return row
