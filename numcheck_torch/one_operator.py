# SPDX-License-Identifier: Apache-2.0
"""One operator alone, run again elsewhere; and all of them, one by one.

The first is the device makers' own procedure: the operator that broke, with the very
operands it had, run again where it cannot be the kernel's fault, or in a format that
has room for its result.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

from numcheck.diagnose.laboratory import CannotRunError
from numcheck.measure.summary import Summary
from numcheck.record.notice import notice
from numcheck_torch.dispatch import Mode
from numcheck_torch.higher_order import run_inside
from numcheck_torch.lift import lifted_dtypes
from numcheck_torch.operators import describe
from numcheck_torch.statistics import summarize

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from torch._ops import OpOverload

    from numcheck.record.site import Site
    from numcheck.record.trace import Trace

__all__ = ["Alone", "OneByOne", "on_cpu", "wider"]


class Alone(Mode):
    """Runs one chosen call of an operator a second time, on other operands.

    Args:
        trace: the recorded step.
        site: one of its sites; the operator that made it is chosen.
        change: makes the second run's (args, kwargs) out of copies of the first's.

    Attributes:
        result: the output that the site stands for; None until it was run.
        own: what the program's own run of it gave.
        operands: what the second run was given, as one; None where that is no float.
    """

    def __init__(self, trace: Trace, site: Site, change: Callable[[Any], Any]) -> None:
        super().__init__(self._take)
        if site.family == "collective":
            # A second run of it would find nobody on the other side.
            raise CannotRunError("refusal.speaks")
        self.result: torch.Tensor | None = None
        self.own: torch.Tensor | None = None
        self.operands: Summary | None = None
        self._change = change
        self._op = site.op
        self._output = site.output
        self._before = trace.runs_before(site)

    def _take(
        self, func: OpOverload, args: tuple[Any, ...], given: dict[str, Any]
    ) -> Any:
        if describe(func).name != self._op or self.result is not None:
            return run_inside(self, func, args, given)
        if self._before:
            self._before -= 1
            return run_inside(self, func, args, given)
        here = self._change((args, given))
        self.operands = _held(here)
        found = func(*args, **given)
        self.result = self._of(_again(func, here))
        self.own = self._of(found)
        return found

    def _of(self, returned: Any) -> torch.Tensor | None:
        """Return a copy of the output in question: it may be written to later."""
        outputs = [t for t in tree_leaves(returned) if _is_tensor(t)]
        if self._output >= len(outputs):
            return None
        chosen: torch.Tensor = outputs[self._output].detach().clone()
        return chosen

    def outcome(self, recorded: Summary | None) -> Summary:
        """Return what the second run gave.

        Args:
            recorded: what the site held; the program's own run must have given it.

        Raises:
            CannotRunError: the operator did not run again, or gave something else.
        """
        if self.result is None or self.own is None:
            raise CannotRunError(notice("refusal.operator_gone", op=self._op))
        if recorded is not None and not _agree(recorded, summarize(self.own)):
            raise CannotRunError(notice("refusal.operator_differs", op=self._op))
        return summarize(self.result)


class OneByOne(TorchDispatchMode):
    """Waits for the device after each operator.

    Args:
        device: the device to wait for.
    """

    supports_higher_order_operators = True

    def __init__(self, device: torch.device) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._module = torch.get_device_module(device)

    def __torch_dispatch__(
        self,
        func: OpOverload,
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        found = func(*args, **(kwargs or {}))
        self._module.synchronize()
        return found


def _held(arguments: Any) -> Summary | None:
    given = [t for t in tree_leaves(arguments) if _is_tensor(t)]
    floats = [summarize(t) for t in given if t.is_floating_point()]
    return functools.reduce(Summary.merge, floats) if floats else None


def on_cpu(arguments: Any) -> Any:
    """Return copies of an operator's arguments on the CPU."""
    return tree_map(_on_cpu, arguments)


def wider(dtype: torch.dtype) -> Callable[[Any], Any]:
    """Return what copies an operator's arguments with their dtypes lifted."""
    to = lifted_dtypes(dtype)

    def change(value: Any) -> Any:
        if isinstance(value, torch.dtype):
            return to.get(value, value)
        if not isinstance(value, torch.Tensor):
            return value
        return value.detach().to(to.get(value.dtype, value.dtype), copy=True)

    return lambda arguments: tree_map(change, arguments)


def _agree(a: Summary, b: Summary) -> bool:
    """Whether two summaries are of the same values, as far as both were measured."""
    return (a.n, a.is_finite, a.amax) == (b.n, b.is_finite, b.amax)


def _again(func: OpOverload, here: tuple[tuple[Any, ...], dict[str, Any]]) -> Any:
    try:
        return func(*here[0], **here[1])
    except (RuntimeError, NotImplementedError, TypeError) as error:
        first = (str(error).splitlines() or [""])[0]
        why = notice("refusal.operator_unrunnable", op=func, error=first)
        raise CannotRunError(why) from error


def _on_cpu(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        # A copy even there: the operator may write to its arguments.
        return value.detach().to("cpu", copy=True)
    is_device = isinstance(value, torch.device)
    return torch.device("cpu") if is_device else value


def _is_tensor(value: object) -> bool:
    return isinstance(value, torch.Tensor)
