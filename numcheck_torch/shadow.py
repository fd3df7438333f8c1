# SPDX-License-Identifier: Apache-2.0
"""Runs a float32 twin of the program in step with it, and tells them apart.

Each storage of the program that holds lower-precision values, or values computed from
such, has a twin of the same layout in the wider format. A tensor's shadow is the same
window onto the twin, so views and in-place writes need no care of their own. Each
operator runs once more on shadows, with the lower-precision dtypes among its arguments
lifted, its own integers and masks, and its own random numbers: both programs take the
same decisions and differ by rounding and range alone.
"""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING, Any, Final

import torch
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._pytree import tree_map_only

from numcheck_torch.lift import lifted_dtypes
from numcheck_torch.scaled_products import wide_product
from numcheck_torch.statistics import WITHOUT_FLOAT64

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch._ops import OpOverload

    from numcheck_torch.operators import Operator

__all__ = ["Prepared", "Shadow"]

# Kernels that may be run once more without anyone noticing. Others may talk to other
# processes or count their calls.
_REPEATABLE: Final = ("aten.", "prims.", "torchvision.")
# Tensors that say whether a step is taken, not what is in it.
_DECISIONS: Final = ("found_inf", "grad_scale")
_SWEEP: Final = 256


@dataclasses.dataclass(slots=True)
class _Twin:
    reference: StorageWeakRef
    dtype: torch.dtype
    flat: torch.Tensor


@dataclasses.dataclass(slots=True)
class Prepared:
    """One operator's arguments on the shadow side, taken before it runs."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    is_apart: bool


class Shadow:
    """The float32 twin of a running program.

    Args:
        dtype: the wider format; for float64 the program's float32 is lifted too.

    Attributes:
        fallen_back: how often an operator's shadow could not be run, by operator;
            there the twin went on from the program's own values.
    """

    def __init__(self, dtype: torch.dtype = torch.float32) -> None:
        self._to = lifted_dtypes(dtype)
        self._twins: dict[int, _Twin] = {}
        self._apart: list[tuple[int, torch.Tensor]] = []
        self._equal: list[int] = []
        self._calls = 0
        self.fallen_back: dict[str, int] = {}

    def prepare(
        self, operator: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Prepared | None:
        """Return the operator's arguments on the shadow side.

        None for a view, and for memory that nothing was written to yet.
        """
        self._calls += 1
        if self._calls % _SWEEP == 0:
            self._sweep()
        if operator.is_view or operator.effect == "uninitialised":
            return None
        written = operator.writes(args, kwargs)
        named = dict(operator.operands(args, kwargs))
        apart = any(self._is_apart(t) for t in _tensors(tuple(named.values())))
        if apart and _may_repeat(operator, named):
            for tensor in written:
                self._ensure_twin(tensor)

        decided = [t for n in _DECISIONS for t in _tensors(named.get(n))]

        def lift(value: torch.Tensor) -> torch.Tensor:
            # Decisions are the program's own, and so is what it writes to them.
            is_decision = any(value is d for d in decided)
            shadow = value if is_decision else self._of(value)
            is_target = shadow is value and any(value is w for w in written)
            return value.clone() if is_target else shadow

        args, kwargs = self._lifted(args, lift), self._lifted(kwargs, lift)
        return Prepared(*_without_widening(operator, args, kwargs), apart)

    def follow(
        self,
        overload: OpOverload,
        operator: Operator,
        prepared: Prepared | None,
        outputs: Sequence[tuple[int, torch.Tensor, bool]],
    ) -> None:
        """Run the operator on the shadow side and hold its outputs against it.

        Args:
            overload: the operator.
            operator: its facts.
            prepared: what `prepare` returned.
            outputs: (site, tensor, whether it was written in place) of the program; a
                negative site is not compared.
        """
        floats = [(s, t, w) for s, t, w in outputs if _is_float(t)]
        if prepared is None or not floats:
            self._compare([(site, tensor) for site, tensor, _ in floats])
            return
        low = any(t.dtype in self._to for _, t, _ in floats)
        if not prepared.is_apart and not low:
            self._equal.extend(site for site, _, _ in floats if site >= 0)
            return
        found = self._run(overload, operator, prepared, [t for _, t, _ in outputs])
        self._settle(operator, outputs, found, prepared)
        self._compare([(site, tensor) for site, tensor, _ in floats])

    def note(self, site: int, tensor: torch.Tensor) -> None:
        """Hold a value that no operator made (a source, a view) against its shadow."""
        if _is_float(tensor):
            self._compare([(site, tensor)])

    def departures(self) -> dict[int, float]:
        """Return the relative L2 error of each compared site, and forget it.

        Inf where exactly one of the two is not finite; 1 where the shadow is zero and
        the program is not; 0 where they are equal.
        """
        found = dict.fromkeys(self._equal, 0.0)
        devices: dict[torch.device, list[tuple[int, torch.Tensor]]] = {}
        for site, row in self._apart:
            devices.setdefault(row.device, []).append((site, row))
        for rows in devices.values():
            host: list[list[float]] = torch.stack([r for _, r in rows]).tolist()
            for (site, _), (error, size, mixed) in zip(rows, host, strict=True):
                found[site] = _relative(error, size, mixed)
        self._apart, self._equal = [], []
        return found

    # --- running ---

    def _run(
        self,
        overload: OpOverload,
        operator: Operator,
        prepared: Prepared,
        outputs: Sequence[torch.Tensor],
    ) -> list[torch.Tensor] | None:
        """Return the operator's outputs on the shadow side; None when it has none."""
        named = dict(operator.operands(prepared.args, prepared.kwargs))
        if operator.name == "aten.native_dropout.default":
            return _dropped_out(named, outputs)
        if not _may_repeat(operator, named):
            if operator.family != "random":
                self._fall_back(operator)
            return None
        try:
            result = wide_product(operator.name, named.items())
            if result is None:
                result = overload(*prepared.args, **prepared.kwargs)
        except (RuntimeError, NotImplementedError, TypeError, ValueError, IndexError):
            self._fall_back(operator)
            return None
        return _tensors(result) or operator.writes(prepared.args, prepared.kwargs)

    def _settle(
        self,
        operator: Operator,
        outputs: Sequence[tuple[int, torch.Tensor, bool]],
        found: list[torch.Tensor] | None,
        prepared: Prepared,
    ) -> None:
        """Give the program's outputs their shadows."""
        given = {_key(t) for t in _tensors((prepared.args, prepared.kwargs))}
        fresh = iter(found or ())
        for _, tensor, is_written in outputs:
            if is_written:
                if operator.is_unfinished:
                    self._twins.pop(_key(tensor), None)
                elif found is None:
                    self._reset(tensor)
                continue
            shadow = next(fresh, None)
            if (
                shadow is not None
                and _is_float(tensor)
                and (shadow.shape == tensor.shape)
            ):
                self._adopt(tensor, shadow, is_shared=_key(shadow) in given)

    def _fall_back(self, operator: Operator) -> None:
        self.fallen_back[operator.name] = self.fallen_back.get(operator.name, 0) + 1

    def _lifted(self, tree: Any, lift: Any) -> Any:
        tree = tree_map_only(torch.Tensor, lift, tree)
        return tree_map_only(torch.dtype, lambda d: self._to.get(d, d), tree)

    # --- twins ---

    def _wide(self, dtype: torch.dtype) -> torch.dtype:
        return self._to.get(dtype, dtype)

    def _is_apart(self, tensor: torch.Tensor) -> bool:
        return tensor.dtype in self._to or _key(tensor) in self._twins

    def _of(self, tensor: torch.Tensor) -> torch.Tensor:
        """Return the shadow of a tensor; the tensor itself where they cannot differ."""
        twin = self._twins.get(_key(tensor))
        if twin is not None and twin.dtype == tensor.dtype:
            span = tensor.storage_offset() + _span(tensor)
            if span <= twin.flat.numel():
                return _window(twin.flat, tensor)
        return tensor.to(self._to[tensor.dtype]) if tensor.dtype in self._to else tensor

    def _ensure_twin(self, tensor: torch.Tensor) -> None:
        if not _is_float(tensor) or _key(tensor) in self._twins:
            return
        storage = tensor.untyped_storage()
        length = storage.nbytes() // tensor.element_size()
        whole = tensor.detach().as_strided((length,), (1,), 0)
        flat = whole.to(self._wide(tensor.dtype), copy=True)
        self._twins[_key(tensor)] = _Twin(StorageWeakRef(storage), tensor.dtype, flat)

    def _adopt(
        self, tensor: torch.Tensor, shadow: torch.Tensor, *, is_shared: bool
    ) -> None:
        """Make `shadow` the twin of a new tensor's storage."""
        storage = tensor.untyped_storage()
        length = storage.nbytes() // tensor.element_size()
        wide = self._wide(tensor.dtype)
        is_same_layout = (
            shadow.stride() == tensor.stride()
            and shadow.storage_offset() == tensor.storage_offset() == 0
            and shadow.numel() == length
            and shadow.dtype == wide
        )
        if is_same_layout and not is_shared:
            flat = shadow.as_strided((length,), (1,))
        else:
            flat = torch.zeros(length, dtype=wide, device=tensor.device)
            _window(flat, tensor).copy_(shadow)
        self._twins[_key(tensor)] = _Twin(StorageWeakRef(storage), tensor.dtype, flat)

    def _reset(self, tensor: torch.Tensor) -> None:
        """Let the shadow go on from the program's own value."""
        shadow = self._of(tensor)
        if shadow is not tensor and _key(tensor) in self._twins:
            shadow.copy_(tensor)

    def _sweep(self) -> None:
        """Let go of twins whose storage is gone."""
        dead = [k for k, twin in self._twins.items() if twin.reference.expired()]
        for key in dead:
            del self._twins[key]

    # --- comparing ---

    def _compare(self, values: Sequence[tuple[int, torch.Tensor]]) -> None:
        for site, tensor in values:
            if site < 0:
                continue
            if not self._is_apart(tensor) or not tensor.numel():
                self._equal.append(site)
            else:
                self._apart.append((site, _difference(tensor, self._of(tensor))))


def _difference(value: torch.Tensor, shadow: torch.Tensor) -> torch.Tensor:
    """Return squared error, squared size, and whether one side alone is not finite."""
    if value.is_complex():
        value, shadow = torch.view_as_real(value), torch.view_as_real(shadow)
    wide = torch.float32 if value.device.type in WITHOUT_FLOAT64 else torch.float64
    v, s = value.detach().to(wide), shadow.to(wide)
    finite = v.isfinite(), s.isfinite()
    both = finite[0] & finite[1]
    error = torch.where(both, v - s, 0).square().sum()
    size = torch.where(both, s, 0).square().sum()
    return torch.stack([error, size, (finite[0] != finite[1]).any().to(wide)])


def _relative(error: float, size: float, mixed: float) -> float:
    if mixed:
        return math.inf
    if error == 0:
        return 0.0
    return math.sqrt(error / size) if size > 0 else 1.0


def _may_repeat(operator: Operator, named: dict[str, Any]) -> bool:
    """Whether running the operator again leaves no trace, its random state included."""
    if not operator.name.startswith(_REPEATABLE):
        return False
    if not operator.is_random:
        return True
    return "dropout_p" in operator.arguments and not named.get("dropout_p")


def _without_widening(
    operator: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Turn off softmax's own widening, which refuses what is wide already."""
    if "half_to_float" not in operator.arguments:
        return args, kwargs
    at = operator.arguments.index("half_to_float")
    return (*args[:at], False, *args[at + 1 :]), kwargs


def _dropped_out(
    named: dict[str, Any], outputs: Sequence[torch.Tensor]
) -> list[torch.Tensor]:
    """Return dropout's output for the mask that the program drew."""
    mask, p = outputs[1], float(named["p"])
    scale = 0.0 if p == 1.0 else 1.0 / (1.0 - p)
    return [named["input"] * mask * scale, mask]


def _window(flat: torch.Tensor, tensor: torch.Tensor) -> torch.Tensor:
    return flat.as_strided(tensor.shape, tensor.stride(), tensor.storage_offset())


def _span(tensor: torch.Tensor) -> int:
    if not tensor.numel():
        return 0
    pairs = zip(tensor.shape, tensor.stride(), strict=True)
    return 1 + sum((size - 1) * stride for size, stride in pairs)


def _is_float(tensor: torch.Tensor) -> bool:
    return tensor.dtype.is_floating_point or tensor.dtype.is_complex


def _key(tensor: torch.Tensor) -> int:
    try:
        return int(tensor.untyped_storage()._cdata)
    except (NotImplementedError, RuntimeError):
        return 0


def _tensors(tree: Any) -> list[torch.Tensor]:
    if isinstance(tree, torch.Tensor):
        return [tree]
    if isinstance(tree, dict):
        tree = tuple(tree.values())
    if isinstance(tree, list | tuple):
        return [t for value in tree for t in _tensors(value)]
    return []
