# SPDX-License-Identifier: Apache-2.0
"""From a call to the program behind it: one closed jaxpr over the call's arrays.

The function is traced through a closure that holds everything static, so that static
arguments, keywords, modules and hyper-parameters need no special care. A jitted
function answers from its own cache and does not run its Python again.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from numcheck.diagnose.laboratory import CannotRunError
from numcheck.record.notice import notice
from numcheck_jax import flax_nnx
from numcheck_jax.boundary import BOUNDARY
from numcheck_jax.eager_tracing import run_noted
from numcheck_jax.jitted import traced_leaves, without_options
from numcheck_jax.references import opened
from numcheck_jax.references import values as values_of
from numcheck_jax.results import result_of
from numcheck_jax.untouched import untouched

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from jax.extend.core import ClosedJaxpr

    from numcheck_jax.capture import Call
    from numcheck_jax.results import Key, Result

__all__ = ["Program", "program_of", "trace"]

_LOOKED_AT = (
    jax.errors.ConcretizationTypeError,
    jax.errors.TracerArrayConversionError,
    jax.errors.TracerIntegerConversionError,
)


@dataclasses.dataclass(frozen=True, slots=True)
class Program:
    """The program of one call.

    Attributes:
        closed: its jaxpr.
        inputs: for each input of the jaxpr, its position among the call's leaves.
        outputs: for each output of the jaxpr, where it stands in what the user gets.
        shape: what the user gets, without its values.
        one_branch: whether it stands for the branches of one call alone.
    """

    closed: ClosedJaxpr
    inputs: tuple[int, ...]
    outputs: tuple[Key, ...]
    shape: Result
    one_branch: bool = False


def program_of(call: Call) -> Program:
    """Trace the call's function on the call's own leaves.

    Raises:
        CannotRunError: the function cannot be traced, e.g. because it hands an array
            to another library.
    """
    return trace(call, call.leaves)


def trace(call: Call, leaves: Sequence[Any]) -> Program:
    """Trace the call's function on other leaves of the same structure.

    Raises:
        CannotRunError: as `program_of`.
    """
    if isinstance(call.function, jax.stages.Compiled):
        raise CannotRunError("refusal.compiled")
    for leaf in leaves:
        if isinstance(leaf, jax.Ref):
            raise CannotRunError("refusal.mutable_large")
    refusal: Exception | None = None
    for stage, dynamic in _ways(call, leaves):
        if stage is run_noted and not isinstance(refusal, _LOOKED_AT):
            break
        try:
            return _trace(call, leaves, dynamic, stage)
        except Exception as error:  # noqa: BLE001 - the user's function runs inside
            refusal = error
    raise CannotRunError(notice("refusal.untraceable", error=refusal)) from refusal


def _ways(
    call: Call, leaves: Sequence[Any]
) -> list[tuple[Callable[..., ClosedJaxpr], tuple[int, ...]]]:
    """Return how to trace and which leaves, the most faithful way first.

    A jitted function traces Python numbers that are not static; of another library's
    jit only floats are taken for traced, since its whole numbers may be static. A plain
    function may use numbers, and NumPy arrays, where no tracer can stand; and it may
    look at values, for which it has to be run.
    """
    arrays = [i for i, x in enumerate(leaves) if _is_array(x)]
    traced = traced_leaves(call)
    if traced is None:
        numbers = [i for i, x in enumerate(leaves) if isinstance(x, float | complex)]
    else:
        numbers = [i for i in sorted(traced) if _is_number(leaves[i])]
    device = [i for i in arrays if isinstance(leaves[i], jax.Array)]
    ways = [tuple(arrays), tuple(device)]
    if hasattr(call.function, "lower"):
        ways.insert(0, tuple(sorted({*arrays, *numbers})))
    staged = [(_staged, way) for way in dict.fromkeys(ways)]
    return [*staged, (run_noted, tuple(device))]


def _staged(function: Callable[..., Any], args: Sequence[Any]) -> ClosedJaxpr:
    return jax.make_jaxpr(function)(*args)


def _trace(
    call: Call,
    leaves: Sequence[Any],
    dynamic: tuple[int, ...],
    stage: Callable[..., ClosedJaxpr],
) -> Program:
    found: list[tuple[tuple[Key, ...], Result]] = []
    rebuild = flax_nnx.rebuilder(call.args, call.kwargs, call.paths, call.treedef)
    function = without_options(call.function)

    def closed_over(*values: Any) -> list[Any]:
        merged = list(leaves)
        for i, value in zip(dynamic, values, strict=True):
            merged[i] = value
        args, kwargs, current = rebuild(opened(call.given, merged))
        out = function(*args, **kwargs)
        after = values_of(call.given, current())
        result = result_of(out, merged, after)
        kept = [(k, x) for k, x in result.items() if _is_array(x) or _is_number(x)]
        found.append((tuple(k for k, _ in kept), result.without_values()))
        return [x for _, x in kept]

    owner = getattr(call.function, "__self__", None)
    statics = (x for x in leaves if not _is_array(x))
    with flax_nnx.scopes(), BOUNDARY.muted(), untouched((owner, *statics)):
        closed = stage(closed_over, [leaves[i] for i in dynamic])
    keys, shape = found[-1]
    return Program(closed, dynamic, keys, shape, one_branch=stage is run_noted)


def _is_array(leaf: object) -> bool:
    kinds = (jax.Array, np.ndarray, np.generic)
    return isinstance(leaf, kinds) and _has_jax_dtype(leaf)


def _has_jax_dtype(leaf: Any) -> bool:
    return getattr(leaf.dtype, "kind", "V") not in "OSUMm"


def _is_number(leaf: object) -> bool:
    return isinstance(leaf, bool | int | float | complex)
