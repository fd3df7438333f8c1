# SPDX-License-Identifier: Apache-2.0
"""A look at a step that does not wait for the device: the next step reads its answer.

By then the update was made, so a gradient's norm that is not finite is held against
the parameters: NaN and Inf in a gradient get into them, the infinite norm of a finite
gradient does not.
"""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING, Any

import torch

from numcheck_torch.sentinel import Reading, bad_checks, local, norms_of, scalar

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numcheck_torch.boundary import Checked

__all__ = ["Deferred"]


class Deferred:
    """Norms and losses on their way to the host.

    Args:
        step: whose they are.
        gradients: (name, gradient) of each parameter.
        losses: what was differentiated.
        total: norm over all gradients that the program computed itself.
        checks: values the user checks by hand.

    Example:
        >>> weight = torch.nn.Parameter(torch.tensor([3.0, 4.0]))
        >>> look = Deferred(0, [("w", weight.detach())], [torch.tensor(0.5)])
        >>> look.read([("w", weight)]).norm
        5.0
    """

    def __init__(
        self,
        step: int,
        gradients: Sequence[tuple[str, torch.Tensor]],
        losses: Sequence[torch.Tensor],
        *,
        total: torch.Tensor | None = None,
        checks: Sequence[Checked] = (),
    ) -> None:
        self.step = step
        self.total = total
        self._checks = checks
        with torch.no_grad():
            values = [local(gradient) for _, gradient in gradients]
            parts = norms_of(values) if total is None else [scalar(total)]
            self._names = [n for n, _ in gradients] if total is None else None
            self._parts = len(parts)
            amounts = [scalar(loss) for loss in losses]
            ends = [end for check in checks for end in check.extremes.unbind()]
            self._sent = _send([*parts, *amounts, *ends])

    def read(self, parameters: Sequence[tuple[str, torch.Tensor]]) -> Reading:
        """Return what was seen.

        Args:
            parameters: (name, parameter), as the updates since have left them.
        """
        numbers = _received(self._sent)
        checked = bad_checks(self._checks, numbers) if self._checks else ()
        del numbers[len(numbers) - 2 * len(self._checks) :]
        parts, losses = numbers[: self._parts], tuple(numbers[self._parts :])
        bad = ["loss" for loss in losses if not math.isfinite(loss)]
        if not all(map(math.isfinite, parts)):
            bad += self._ruined(parts, parameters)
        bad += [site.op for site, _ in checked]
        norm = math.hypot(*parts) if parts else None
        return Reading(losses, norm, tuple(bad), checked=checked)

    def _ruined(
        self, parts: list[float], parameters: Sequence[tuple[str, torch.Tensor]]
    ) -> list[str]:
        names = self._names
        suspects = (
            {name for name, _ in parameters}
            if names is None
            else {n for n, p in zip(names, parts, strict=True) if not math.isfinite(p)}
        )
        return [
            name
            for name, parameter in parameters
            if name in suspects and not bool(torch.isfinite(local(parameter)).all())
        ]


@dataclasses.dataclass(frozen=True, slots=True)
class _Sent:
    """Numbers of one device: their positions, and the row that they arrive in."""

    positions: list[int]
    row: torch.Tensor
    arrival: Any


def _send(scalars: Sequence[torch.Tensor]) -> list[_Sent]:
    devices: dict[torch.device, list[int]] = {}
    for position, number in enumerate(scalars):
        devices.setdefault(number.device, []).append(position)
    sent = []
    for positions in devices.values():
        here = [
            scalars[i].abs() if scalars[i].is_complex() else scalars[i]
            for i in positions
        ]
        wide = (
            torch.float64
            if any(s.dtype == torch.float64 for s in here)
            else torch.float32
        )
        # A copy, for the program may write to its loss.
        row = torch.stack([s.to(wide) for s in here])
        sent.append(_Sent(positions, *_to_host(row)))
    return sent


def _to_host(row: torch.Tensor) -> tuple[torch.Tensor, Any]:
    if row.is_cpu:
        return row, None
    host = torch.empty(row.shape, dtype=row.dtype, pin_memory=True)
    host.copy_(row, non_blocking=True)
    arrival = torch.get_device_module(row.device).Event()
    arrival.record()
    return host, arrival


def _received(sent: Sequence[_Sent]) -> list[float]:
    numbers: dict[int, float] = {}
    for one in sent:
        if one.arrival is not None:
            one.arrival.synchronize()
        numbers.update(zip(one.positions, one.row.tolist(), strict=True))
    return [numbers[i] for i in range(len(numbers))]
