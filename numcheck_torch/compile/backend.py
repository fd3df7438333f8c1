# SPDX-License-Identifier: Apache-2.0
"""Wraps any backend at the place where it hands graphs to a compiler.

Backends differ in what they do with a graph; those that train all come through
AOTAutograd's `aot_module_simplified`. While a wrapped backend runs, that function
gets compilers that add the extremes to each graph first and take them off its results.
"""

from __future__ import annotations

import contextlib
import copy
import inspect
import sys
from typing import TYPE_CHECKING, Any, Final

import torch
import torch._functorch.aot_autograd
from torch._guards import TracingContext
from torch.utils._python_dispatch import _disable_current_modes

from numcheck.record.notice import notice
from numcheck_torch.compile.extra_output import add_extremes
from numcheck_torch.compile.place import JointGraph, Place
from numcheck_torch.compile.table import tabulate

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numcheck.record.site import Phase
    from numcheck_torch.compile.extra_output import Extra
    from numcheck_torch.compile.observer import Observer
    from numcheck_torch.compile.table import GraphTable

__all__ = ["observed_backend"]

_COMPILERS: Final[dict[str, Phase]] = {
    "fw_compiler": "forward",
    "bw_compiler": "backward",
    "inference_compiler": "forward",
}
Compiler = Any  # a callable from (graph, example inputs) to a callable


def observed_backend(
    backend: Callable[..., Any],
    observer: Observer,
    scope: str = "",
    scope_type: str = "",
) -> Callable[..., Any]:
    """Return a backend that compiles as `backend` does, extremes included.

    Args:
        backend: a callable as `torch.compile` takes it.
        observer: hears of every run of every graph.
        scope: path of the compiled module in the watched one.
        scope_type: its class name.
    """
    place = Place(scope, scope_type)
    is_inductor = getattr(backend, "compiler_name", None) == "inductor"

    def compiled(
        module: torch.fx.GraphModule, inputs: Sequence[Any], **options: Any
    ) -> Any:
        graphs = observer.graphs
        with _wrapped_compilers(observer, place, is_inductor=is_inductor):
            found = backend(module, inputs, **options)
        if observer.graphs == graphs:
            name = getattr(backend, "__name__", type(backend).__name__)
            observer.note(notice("notice.no_graph", backend=name))
        return found

    return compiled


@contextlib.contextmanager
def _wrapped_compilers(
    observer: Observer, place: Place, *, is_inductor: bool
) -> Iterator[None]:
    """Replace AOTAutograd's entry in every module that imported it, for a while."""
    original = torch._functorch.aot_autograd.aot_module_simplified

    signature = inspect.signature(original)

    def entry(*args: Any, **kwargs: Any) -> Any:
        call = signature.bind(*args, **kwargs)
        given = call.arguments
        joint = JointGraph(place, is_inductors=is_inductor)
        forward = given["fw_compiler"]
        for name, phase in _COMPILERS.items():
            compiler = given.get(name) or forward
            given[name] = _with_extremes(compiler, phase, joint, observer)
        return original(*call.args, **call.kwargs)

    holders = [
        m
        for m in list(sys.modules.values())
        if getattr(m, "__dict__", {}).get("aot_module_simplified") is original
    ]
    for holder in holders:
        holder.aot_module_simplified = entry  # type: ignore[attr-defined]
    try:
        yield
    finally:
        for holder in holders:
            holder.aot_module_simplified = original  # type: ignore[attr-defined]


def _with_extremes(
    compiler: Compiler, phase: Phase, joint: JointGraph, observer: Observer
) -> Compiler:
    def compiled(module: torch.fx.GraphModule, inputs: Any, **options: Any) -> Any:
        untouched = module.graph
        try:
            # A backward graph is compiled while the step runs, under the user's modes.
            with _disable_current_modes():
                untouched = copy.deepcopy(module.graph)
                table = tabulate(module, phase, joint)
                extras = add_extremes(module, table, is_inductors=joint.is_inductors)
            with observer.unrecorded():
                inner = compiler(module, inputs, **options)
            run = _observed(inner, table, extras, observer) if table.rows else inner
            _forget_strides(len(extras))
        except Exception as error:  # noqa: BLE001 - the user's program runs all the same
            module.graph, joint.forward = untouched, None
            with observer.unrecorded():
                plain = compiler(module, inputs, **options)
            observer.unwatched(phase, error)
            return plain
        observer.compiled(table)
        if extras and joint.is_inductors:
            observer.note("notice.fused_otherwise")
        return run

    return compiled


def _observed(
    inner: Callable[..., Any],
    table: GraphTable,
    extras: Sequence[Extra],
    observer: Observer,
) -> Callable[[list[Any]], list[Any]]:
    """Return what runs a compiled graph and keeps its extra outputs to itself."""
    is_boxed = getattr(inner, "_boxed_call", False)

    def run(args: list[Any]) -> list[Any]:
        # The compiled graph may drop its arguments; the observer needs them first.
        prepared = observer.before(table, args)
        with observer.unrecorded():
            results = list(inner(args) if is_boxed else inner(*args))
        own = len(results) - len(extras)
        found = results[own:]
        del results[own:]
        observer.after(table, extras, found, prepared, results)
        return results

    run._boxed_call = True  # type: ignore[attr-defined]
    return run


def _forget_strides(extras: int) -> None:
    """Take the extra outputs off what AOTAutograd knows of the graph's outputs.

    It takes saved activations from there by a slice that runs to the end.
    """
    context = TracingContext.try_get()
    if extras and context is not None and context.output_strides:
        del context.output_strides[-extras:]
