# SPDX-License-Identifier: Apache-2.0
"""Updates that are compiled: the optimizer's hooks would become part of the program.

They are constant there, and the call of the compiled update is heard in their place.
"""

from __future__ import annotations

import dis
import inspect
import itertools
import types
from typing import TYPE_CHECKING, Any, Protocol, cast

import torch

from numcheck_torch.living import living
from numcheck_torch.reach import names_of, optimizers_of

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["heard", "updated_by"]


class _Listener(Protocol):
    def before_update(
        self, optimizer: torch.optim.Optimizer, args: Any, kwargs: Any
    ) -> Any: ...

    def after_update(self, optimizer: torch.optim.Optimizer) -> None: ...


def updated_by(function: object) -> tuple[torch.optim.Optimizer, ...]:
    """Return the optimizers that a function steps, when it does nothing but update.

    Example:
        >>> weight = torch.nn.Parameter(torch.zeros(1))
        >>> optimizer = torch.optim.SGD([weight], lr=0.1)
        >>> updated_by(optimizer.step) == updated_by(lambda: optimizer.step())
        True
        >>> updated_by(lambda: (weight.sum().backward(), optimizer.step()))
        ()
        >>> rate = torch.optim.lr_scheduler.ConstantLR(optimizer)
        >>> updated_by(lambda: rate.step())
        ()
        >>> updated_by(optimizer.step) == (optimizer,)  # Counted by the scheduler.
        True
    """
    owner = getattr(function, "__self__", None) or _bearer_of(function)
    if isinstance(owner, torch.optim.Optimizer):
        return (owner,)
    if not isinstance(function, types.FunctionType):
        return ()
    names = {*names_of(function.__code__)}
    if "step" not in names or "backward" in names or _steps_others(function):
        return ()
    return optimizers_of(function, (), {})


def _bearer_of(function: object) -> torch.optim.Optimizer | None:
    """Return the optimizer whose own `step` was replaced by a function.

    Schedulers do so, to count; only the optimizer's attribute tells whose it is.
    """
    if getattr(function, "__name__", "") != "step":
        return None
    found = living(torch.optim.Optimizer)
    return next((o for o in found if vars(o).get("step") is function), None)


def _steps_others(function: types.FunctionType) -> bool:
    """Whether all that a function steps is known, and no optimizer: a scheduler."""
    found = inspect.getclosurevars(function)
    known = {**found.builtins, **found.globals, **found.nonlocals}
    pairs = itertools.pairwise(dis.get_instructions(function))
    owners = [known.get(a.argval) for a, b in pairs if b.argval == "step"]
    kind = torch.optim.Optimizer
    return bool(owners) and not any(o is None or isinstance(o, kind) for o in owners)


def heard(
    update: Callable[..., Any],
    optimizers: tuple[torch.optim.Optimizer, ...],
    listener: Callable[[], _Listener | None],
) -> Callable[..., Any]:
    """Return a compiled update that tells a listener of each optimizer's step.

    Args:
        update: the compiled function.
        optimizers: those that step in it.
        listener: gives who hears; None once it is gone.
    """

    @torch.compiler.disable(recursive=False)  # type: ignore[untyped-decorator]
    def call(*args: Any, **kwargs: Any) -> Any:
        ear = listener()
        if ear is None:
            return update(*args, **kwargs)
        for optimizer in optimizers:
            ear.before_update(optimizer, (optimizer,), {})
        result = update(*args, **kwargs)
        for optimizer in optimizers:
            ear.after_update(optimizer)
        return result

    return cast("Callable[..., Any]", call)
