# SPDX-License-Identifier: Apache-2.0
"""Level ``anchors``: matrix products, convolutions, attention, and module outputs.

They are few, their values bound most of what lies between them, and they can be
measured at every step for a fraction of what all operators cost. Data flow between
them is not followed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from torch.multiprocessing.reductions import StorageWeakRef

from numcheck.record.site import Site
from numcheck_torch.autograd_nodes import autograd_phase
from numcheck_torch.dtypes import format_name
from numcheck_torch.kinds import is_plain
from numcheck_torch.trees import tensors

if TYPE_CHECKING:
    import torch

    from numcheck.record.site import Role
    from numcheck_torch.meters import Meter
    from numcheck_torch.operators import Operator
    from numcheck_torch.rehearsal import Rehearsal
    from numcheck_torch.site_log import SiteLog

__all__ = ["Anchors", "is_anchor"]

_FAMILIES: Final = frozenset({"matmul", "conv", "attention"})


def is_anchor(operator: Operator) -> bool:
    """Whether an operator's outputs are measured at every step.

    Example:
        >>> import torch
        >>> from numcheck_torch.operators import describe
        >>> is_anchor(describe(torch.ops.aten.mm.default))
        True
        >>> is_anchor(describe(torch.ops.aten.relu.default))
        False
    """
    return operator.family in _FAMILIES


class Anchors:
    """Adds what is no operator: module outputs, and the losses.

    Args:
        log: receives the sites.
        meter: measures their values.
        rehearsal: the last step, where this one goes as it went.
    """

    def __init__(self, log: SiteLog, meter: Meter, rehearsal: Rehearsal | None) -> None:
        self._log = log
        self._meter = meter
        self._rehearsal = rehearsal
        self._last: tuple[_Value, int] | None = None

    def measured(self, site: int, tensor: torch.Tensor) -> None:
        """Remember the last operator: a module's output often is its very value."""
        self._last = _Value(tensor), site

    def left(self, scope: tuple[str, str], out: object) -> None:
        """Add what a module returned."""
        phase = autograd_phase(in_module=True) or "forward"
        returned = [t for t in tensors(out) if is_plain(type(t)) and not t.is_meta]
        for i, tensor in enumerate(t for t in returned if t.is_floating_point()):
            site = Site(
                index=-1,
                op=f"module.{scope[1]}",
                output=i,
                phase=phase,
                effect="move",
                dtype=format_name(tensor.dtype),
                shape=tuple(tensor.shape),
                scope=scope[0],
                scope_type=scope[1],
            )
            self._add(site, tensor)

    def kept(self, tensor: torch.Tensor, op: str, role: Role) -> None:
        """Add a value the step hands back."""
        site = Site(
            index=-1,
            op=op,
            phase="forward",
            kind="kept",
            role=role,
            effect="move",
            dtype=format_name(tensor.dtype),
            shape=tuple(tensor.shape),
        )
        self._add(site, tensor)

    def _add(self, site: Site, tensor: torch.Tensor) -> None:
        value, same = tensor.detach(), self._site_of(tensor)
        what = (
            "source" if same is None else "keep",
            f"{site.scope}:{site.op}:{site.output}:{site.phase}",
        )
        rehearsal = self._rehearsal
        index = None if rehearsal is None else rehearsal.repeat(what, value)
        if index is None:
            first = len(self._log.builder.sites)
            index = self._log.anchor(site, same)
            if same is None:
                self._meter.take(index, value)
            if rehearsal is not None:
                rehearsal.note_value(what, first, index, value)
        if site.phase == "forward":
            self._meter.sum_up(index if same is None else same, value)

    def _site_of(self, tensor: torch.Tensor) -> int | None:
        if self._last is None or not self._last[0].is_in(tensor):
            return None
        return self._last[1]


class _Value:
    """What a tensor holds now, without keeping the tensor alive.

    Memory that was let go is given to the next tensor. A weak reference keeps the
    storage's own address, so that a new one is never taken for it.
    """

    __slots__ = ("_identity", "_storage")

    def __init__(self, tensor: torch.Tensor) -> None:
        self._identity = _identity(tensor)
        if self._identity is not None:
            self._storage = StorageWeakRef(tensor.untyped_storage())

    def is_in(self, tensor: torch.Tensor) -> bool:
        """Whether a tensor holds the same elements, unchanged."""
        return self._identity is not None and self._identity == _identity(tensor)


def _identity(tensor: torch.Tensor) -> tuple[Any, ...] | None:
    """Return what changes when a tensor's elements do; None where nothing tells."""
    version = None if tensor.is_inference() else tensor._version
    try:
        storage, offset = tensor.untyped_storage()._cdata, tensor.storage_offset()
    except (NotImplementedError, RuntimeError):
        return None  # a sparse one has no storage of its own
    return storage, offset, tensor.numel(), tensor.dtype, version
