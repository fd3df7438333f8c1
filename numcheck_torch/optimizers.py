# SPDX-License-Identifier: Apache-2.0
"""Which optimizers train the watched parameters, and with which settings."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

import torch

from numcheck_torch.decay import decay_gain
from numcheck_torch.living import living

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from numcheck.diagnose.incident import Setting

__all__ = [
    "Fleet",
    "find_optimizers",
    "makers_of",
    "parameters_of",
    "settings_of",
    "trains",
]

_ASKED_AGAIN = 64
"""Times that an optimizer of another model is passed over before the parameters are
compared anew, which costs more than all else that a step of its takes."""
_OWN = frozenset({"state", "param_groups"})
"""Attributes of every optimizer, which hold numbers and tensors."""
_NUMBERS = ("lr", "momentum", "eps", "weight_decay", "alpha")


def parameters_of(optimizer: torch.optim.Optimizer) -> list[torch.Tensor]:
    """Return the parameters of every group."""
    return [p for group in optimizer.param_groups for p in group["params"]]


def trains(optimizer: torch.optim.Optimizer, parameters: Collection[int]) -> bool:
    """Whether the optimizer updates one of the parameters, given by identity."""
    return any(id(p) in parameters for p in parameters_of(optimizer))


def find_optimizers(parameters: Collection[int]) -> list[torch.optim.Optimizer]:
    """Return the living optimizers that update one of the parameters.

    Example:
        >>> w = torch.nn.Parameter(torch.zeros(2))
        >>> sgd = torch.optim.SGD([w], lr=0.1)
        >>> find_optimizers({id(w)}) == [sgd]
        True
    """
    found = living(torch.optim.Optimizer)
    real = [o for o in found if not is_wrapper(o) and hasattr(o, "param_groups")]
    return [o for o in real if trains(o, parameters)]


def makers_of(optimizer: torch.optim.Optimizer) -> list[torch.optim.Optimizer]:
    """Return the optimizers that make an optimizer's steps: those it holds, or itself.

    Wrappers, such as Accelerate's, Lightning's and the sharding one of PyTorch, pose as
    optimizers with the same groups, and step what they hold.

    Example:
        >>> sgd = torch.optim.SGD([torch.zeros(2)], lr=0.1)
        >>> makers_of(sgd) == [sgd]
        True
    """
    found: dict[int, torch.optim.Optimizer] = {}
    seen: set[int] = set()
    todo = [optimizer]
    while todo:
        one = todo.pop()
        if id(one) not in seen:
            seen.add(id(one))
            held = _held_by(one)
            todo += held
            if not held:
                found[id(one)] = one
    return [*found.values()] or [optimizer]


def is_wrapper(optimizer: torch.optim.Optimizer) -> bool:
    """Whether an optimizer leaves its steps to others."""
    return makers_of(optimizer) != [optimizer]


def _held_by(optimizer: torch.optim.Optimizer) -> list[torch.optim.Optimizer]:
    """Return the optimizers among the attributes, also in lists and dictionaries."""
    values: list[Any] = []
    for name, value in vars(optimizer).items():
        if name not in _OWN:
            values += _members(value)
    kind = torch.optim.Optimizer
    return [v for v in values if issubclass(type(v), kind) and v is not optimizer]


def _members(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return list(value.values())
    return list(value) if isinstance(value, list | tuple) else [value]


def settings_of(optimizer: torch.optim.Optimizer) -> dict[str, Setting]:
    """Return the optimizer's class and numbers, of its first group."""
    settings: dict[str, Setting] = {"optimizer": type(optimizer).__name__}
    group: dict[str, Any] = optimizer.param_groups[0] if optimizer.param_groups else {}
    for name in _NUMBERS:
        value = group.get(name)
        if isinstance(value, torch.Tensor):
            value = value.item() if value.numel() == 1 else None
        if isinstance(value, int | float) and not isinstance(value, bool):
            settings[name] = float(value)
    betas = group.get("betas")
    if isinstance(betas, tuple | list) and len(betas) == 2:
        settings["beta1"], settings["beta2"] = float(betas[0]), float(betas[1])
    gain = decay_gain(optimizer)
    if gain is not None:
        settings["decay_gain"] = gain
    return settings


def with_closure(
    args: tuple[Any, ...], kwargs: dict[str, Any], after: Callable[[], None]
) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
    """Return the arguments of a step with `after` called after its closure, if any.

    Args:
        args: the optimizer, then perhaps the closure.
        kwargs: perhaps the closure, by name.
        after: called each time the closure has computed its gradients.
    """

    def followed(closure: Callable[[], Any]) -> Callable[[], Any]:
        def evaluate() -> Any:
            loss = closure()
            after()
            return loss

        return evaluate

    if len(args) > 1 and callable(args[1]):
        return (args[0], followed(args[1]), *args[2:]), kwargs
    if callable(kwargs.get("closure")):
        return args, {**kwargs, "closure": followed(kwargs["closure"])}
    return None


class Fleet:
    """The optimizers of one module, and which of them made their step already.

    Args:
        given: the optimizers the user named; then no others count.

    Attributes:
        stepped: identities of those that made their step already.
    """

    def __init__(self, given: tuple[torch.optim.Optimizer, ...] = ()) -> None:
        self._is_given = bool(given)
        self._known = [weakref.ref(maker) for o in given for maker in makers_of(o)]
        # Of others: the optimizer, its groups, and how often not to ask again.
        self._foreign: dict[int, tuple[weakref.ref[Any], int, int]] = {}
        self.stepped: set[int] = set()

    @property
    def known(self) -> tuple[torch.optim.Optimizer, ...]:
        """The optimizers that are still alive."""
        found = [reference() for reference in self._known]
        return tuple(optimizer for optimizer in found if optimizer is not None)

    def look_around(self, model: torch.nn.Module) -> None:
        """Find the living optimizers of a module, unless they were given."""
        if not self._is_given:
            for optimizer in find_optimizers({id(p) for p in model.parameters()}):
                self._add(optimizer)

    def takes(self, optimizer: torch.optim.Optimizer, model: torch.nn.Module) -> bool:
        """Whether an optimizer that steps now is one of the module's."""
        if self.knows(optimizer):
            return True
        if self._is_given or self._is_foreign(optimizer):
            return False
        own = {id(p) for p in model.parameters()}
        if is_wrapper(optimizer) or not trains(optimizer, own):
            held, groups = weakref.ref(optimizer), len(optimizer.param_groups)
            self._foreign[id(optimizer)] = held, groups, _ASKED_AGAIN
            return False
        self._add(optimizer)
        return True

    def knows(self, optimizer: torch.optim.Optimizer) -> bool:
        """Whether an optimizer is known to be one of the module's."""
        for reference in self._known:  # noqa: SIM110 - a generator costs as much again
            if optimizer is reference():
                return True
        return False

    @property
    def is_empty(self) -> bool:
        """Whether none of them is alive."""
        for reference in self._known:  # noqa: SIM110 - as above
            if reference() is not None:
                return False
        return True

    @property
    def is_done(self) -> bool:
        """Whether all of them made their step."""
        if len(self.stepped) == len(self._known):
            return True
        return all(id(optimizer) in self.stepped for optimizer in self.known)

    @property
    def learning_rate(self) -> float | None:
        """The learning rate of the first group; None where it is not a number."""
        for reference in self._known:
            optimizer = reference()
            if optimizer is not None:
                groups = optimizer.param_groups
                rate = groups[0].get("lr") if groups else 0
                return float(rate) if isinstance(rate, (int, float)) else None
        return None

    def _is_foreign(self, optimizer: torch.optim.Optimizer) -> bool:
        """Whether it was found lately to train nothing of the module."""
        held, groups, left = self._foreign.pop(id(optimizer), (None, 0, 0))
        if held is None or held() is not optimizer or not left:
            return False
        if len(optimizer.param_groups) != groups:
            return False
        self._foreign[id(optimizer)] = held, groups, left - 1
        return True

    def _add(self, optimizer: torch.optim.Optimizer) -> None:
        if not any(optimizer is known for known in self.known):
            self._known.append(weakref.ref(optimizer))
