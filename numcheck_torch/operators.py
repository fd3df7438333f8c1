# SPDX-License-Identifier: Apache-2.0
"""What an operator's schema says, worked out once for each overload."""

from __future__ import annotations

import dataclasses
import functools
import math
from typing import TYPE_CHECKING, Any, Final, Literal

import torch

from numcheck_torch.families import classify, is_overwriting
from numcheck_torch.higher_order import is_higher_order

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torch._ops import OpOverload

    from numcheck.record.site import Effect, Family

__all__ = ["NonFiniteLiteral", "Operator", "describe"]

NonFiniteLiteral = Literal["nan", "+inf", "-inf"]

# Bookkeeping that touches no values.
_SILENT_NAMESPACES: Final = frozenset(
    {"profiler", "debug_mode_ops", "prim", "record_function"}
)
# Kernels that update running statistics in training, which their schemas keep quiet.
_RUNNING: Final = ("running_mean", "running_var")
_HIDDEN_WRITES: Final = dict.fromkeys(
    (
        "native_batch_norm",
        "cudnn_batch_norm",
        "miopen_batch_norm",
        "batch_norm_update_stats",
        "batch_norm_gather_stats",
        "batch_norm_gather_stats_with_counts",
    ),
    _RUNNING,
)
# Arguments that collectives write to, which their schemas keep quiet as well.
_RECEIVED: Final = frozenset({"tensors", "output_tensors", "output_tensor", "output"})
# Scalars that stand where a tensor could.
_OPERANDS: Final = frozenset(
    {
        "self",
        "other",
        "exponent",
        "value",
        "fill_value",
        "scalar",
        "scalars",
        "min",
        "max",
        "weight",
    }
)

_POSITIONS: Final = tuple(f"argument{i}" for i in range(32))


@dataclasses.dataclass(frozen=True, slots=True)
class Operator:
    """The unchanging facts of one overload.

    Attributes:
        name: as PyTorch writes it, ``aten.add.Tensor``.
        family: framework-neutral kind.
        effect: what it does to values.
        written: positions and names of the arguments it writes to.
        discarded: names of the arguments whose old values it does not read.
        is_view: whether its output shares an argument's memory.
        is_foreach: whether it works on lists of tensors, element by element.
        is_random: whether it draws random numbers.
        is_silent: whether it has nothing to record.
        is_unfinished: whether its outputs must not be read yet when it returns: a
            collective goes on until it is waited for.
        is_calling: whether it calls functions it is given.
    """

    name: str
    family: Family
    effect: Effect
    written: tuple[tuple[int, str], ...]
    discarded: frozenset[str]
    is_view: bool
    is_foreach: bool
    is_random: bool
    is_silent: bool
    is_unfinished: bool
    arguments: tuple[str, ...]
    is_calling: bool = False

    def operands(
        self, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Iterator[tuple[str, Any]]:
        """Yield the arguments by name, in the schema's order."""
        for i, name in enumerate(self.arguments):
            if i < len(args):
                yield name, args[i]
            elif name in kwargs:
                yield name, kwargs[name]

    def writes(
        self, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> list[torch.Tensor]:
        """Return the tensors it writes to, lists flattened."""
        found: list[torch.Tensor] = []
        is_training = self._is_training(args, kwargs)
        for position, name in self.written:
            if name in _RUNNING and not is_training:
                continue
            value = args[position] if position < len(args) else kwargs.get(name)
            _collect(value, found)
        return found

    def _is_training(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        if "training" not in self.arguments:
            return True
        at = self.arguments.index("training")
        return bool(args[at] if at < len(args) else kwargs.get("training"))

    def scalars(
        self, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[tuple[str, str | float], ...]:
        """Return the plain arguments as facts: operands by position, others by name."""
        facts: list[tuple[str, str | float]] = []
        for position, (name, value) in enumerate(self.operands(args, kwargs)):
            if isinstance(value, int | float):
                key = f"operand{position}" if name in _OPERANDS else name
                facts.append(
                    (key, float(value) if isinstance(value, float) else int(value))
                )
            elif isinstance(value, str) or _is_integers(value):
                facts.append(
                    (name, value if isinstance(value, str) else repr(list(value)))
                )
        return tuple(facts)

    def literals(
        self, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[NonFiniteLiteral, ...]:
        """Return the non-finite numbers among its plain arguments."""
        return tuple(
            _literal(number)
            for _, value in self.operands(args, kwargs)
            for number in (value if isinstance(value, list | tuple) else (value,))
            if isinstance(number, float) and not math.isfinite(number)
        )


@functools.cache
def describe(overload: OpOverload) -> Operator:
    """Return what is known of an overload before it is called.

    Example:
        >>> describe(torch.ops.aten.add_.Tensor).written
        ((0, 'self'),)
    """
    if is_higher_order(overload):
        return _calling(str(overload))
    schema = overload._schema
    namespace, _, name = schema.name.partition("::")
    family, effect = classify(namespace, name)
    written = tuple(
        (i, a.name)
        for i, a in enumerate(schema.arguments)
        if (a.alias_info is not None and a.alias_info.is_write)
        or a.name in _HIDDEN_WRITES.get(name, ())
        or (namespace == "c10d" and a.name in _RECEIVED)
    )
    out = {a.name for a in schema.arguments if a.is_out}
    if namespace == "c10d":
        out |= _RECEIVED - {"tensors"}
    discarded = out | _unread(name, effect, written)
    return Operator(
        name=str(overload),
        family=family,
        effect=effect,
        written=written,
        discarded=frozenset(discarded),
        is_view=bool(overload.is_view)
        or name in ("_unsafe_view", "lift_fresh", "set_"),
        is_foreach=name.startswith(("_foreach_", "_fused_", "_amp_foreach_")),
        is_random=torch.Tag.nondeterministic_seeded in overload.tags,
        is_silent=namespace in _SILENT_NAMESPACES,
        is_unfinished=family == "collective" and name != "wait_tensor",
        arguments=tuple(a.name for a in schema.arguments),
    )


def _calling(name: str) -> Operator:
    """Return the facts of an operator without a schema."""
    family, effect = classify("", name)
    return Operator(
        name=f"higher_order.{name}",
        family="attention" if "attention" in name else family,
        effect=effect,
        written=(),
        discarded=frozenset(),
        is_view=False,
        is_foreach=False,
        is_random=False,
        is_silent=False,
        is_unfinished=False,
        arguments=_POSITIONS,
        is_calling=True,
    )


def _unread(
    name: str, effect: Effect, written: tuple[tuple[int, str], ...]
) -> set[str]:
    """Return the arguments whose values play no part: overwritten, or only a shape."""
    if written and is_overwriting(name):
        return {written[0][1]}
    shape_only = name.endswith("_like") or name.startswith("new_")
    return {"self"} if shape_only and effect in ("fill", "uninitialised") else set()


def _collect(value: Any, found: list[torch.Tensor]) -> None:
    if isinstance(value, torch.Tensor):
        found.append(value)
    elif isinstance(value, list | tuple):
        for inner in value:
            _collect(inner, found)


def _is_integers(value: object) -> bool:
    return isinstance(value, list | tuple) and all(type(v) is int for v in value)


def _literal(number: float) -> NonFiniteLiteral:
    if math.isnan(number):
        return "nan"
    return "+inf" if number > 0 else "-inf"
