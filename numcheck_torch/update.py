# SPDX-License-Identifier: Apache-2.0
"""An optimizer's update carried out on copies, one parameter at a time.

One at a time keeps the memory for copies to the largest parameter and its state, and
is the same arithmetic for every optimizer that treats parameters alike.
"""

from __future__ import annotations

import collections
import copy
import inspect
import math
from typing import TYPE_CHECKING, Any

import torch

from numcheck_torch.optimizers import parameters_of
from numcheck_torch.state import local
from numcheck_torch.trees import map_tensors, named_tensors

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numcheck_torch.recorder import Recorder

__all__ = ["clipped", "finite", "rehearse"]

_ELEMENTWISE = {
    torch.optim.ASGD,
    torch.optim.Adadelta,
    torch.optim.Adagrad,
    torch.optim.Adam,
    torch.optim.AdamW,
    torch.optim.Adamax,
    torch.optim.NAdam,
    torch.optim.RAdam,
    torch.optim.RMSprop,
    torch.optim.Rprop,
    torch.optim.SGD,
}
"""Optimizers that update a shard as they update the whole."""
_HOOKS = ("_optimizer_step_pre_hooks", "_optimizer_step_post_hooks")
# Schedulers put a counting `step`, bound to the original, on the instance.
_REPLACED = {"state", "param_groups", "step", "found_inf", "grad_scale", *_HOOKS}
_MOST_COPIED = 1 << 24
"""Elements that are copied for the sake of one parameter."""


def rehearse(
    optimizer: torch.optim.Optimizer,
    names: Mapping[int, str],
    gradients: Mapping[str, torch.Tensor],
    recorder: Recorder,
    *,
    repaired: bool = False,
    instead: Mapping[str, torch.Tensor] | None = None,
) -> None:
    """Record the update that `optimizer` is about to make, without making it.

    Args:
        optimizer: untouched.
        names: of the parameters it updates, by identity.
        gradients: gradient of each parameter, by name.
        recorder: already entered; gets sources, operators and kept values.
        repaired: take zero for what is NaN or Inf in the optimizer's state.
        instead: values that stand in for parameters, by name.
    """
    if _needs_closure(optimizer):
        return
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            name = names.get(id(parameter))
            if name is not None and name in gradients:
                if (
                    hasattr(parameter, "device_mesh")
                    and type(optimizer) not in _ELEMENTWISE
                ):
                    continue
                state = map_tensors(
                    optimizer.state.get(parameter, {}),
                    _repaired if repaired else _copied,
                )
                own = (instead or {}).get(name, parameter.detach())
                _one(optimizer, group, parameter, own, state, name, gradients, recorder)


def clipped(
    gradients: Mapping[str, torch.Tensor], limit: float
) -> dict[str, torch.Tensor]:
    """Return gradients scaled down to a global norm.

    The norm is taken in float64, where that of finite gradients cannot overflow.

    Example:
        >>> clipped({"w": torch.tensor([3.0, 4.0])}, 1.0)["w"]
        tensor([0.6000, 0.8000])
    """
    norms = [g.detach().cpu().double().norm().item() for g in gradients.values()]
    factor = min(1.0, limit / (math.hypot(*norms) or 1.0))
    return {name: gradient * factor for name, gradient in gradients.items()}


def finite(tensor: torch.Tensor) -> torch.Tensor:
    """Return a copy with zero for what is NaN or Inf.

    Example:
        >>> finite(torch.tensor([1.0, float("nan")]))
        tensor([1., 0.])
    """
    if not tensor.is_floating_point():
        return tensor.clone()
    return torch.nan_to_num(tensor.detach(), nan=0.0, posinf=0.0, neginf=0.0)


def _copied(tensor: torch.Tensor) -> torch.Tensor:
    return local(tensor).clone()


def _repaired(tensor: torch.Tensor) -> torch.Tensor:
    return finite(local(tensor))


def _needs_closure(optimizer: torch.optim.Optimizer) -> bool:
    closure = inspect.signature(type(optimizer).step).parameters.get("closure")
    return closure is not None and closure.default is inspect.Parameter.empty


def _one(
    optimizer: torch.optim.Optimizer,
    group: dict[str, Any],
    parameter: torch.Tensor,
    value: torch.Tensor,
    state: Any,
    name: str,
    gradients: Mapping[str, torch.Tensor],
    recorder: Recorder,
) -> None:
    own = local(value).clone().requires_grad_(parameter.requires_grad)
    gradient = gradients[name]
    # Sparse ones stay so: some optimizers take no others.
    gradient = gradient if gradient.is_sparse else local(gradient)
    # Autograd hands out what the forward's precision gave, an optimizer gets its own.
    own.grad = gradient.to(own.dtype)
    recorder.source(own, f"parameter:{name}", "parameter")
    for key, tensor in named_tensors(state):
        recorder.source(tensor, f"state:{key}:{name}", "state")
    attributes = _copied_attributes(optimizer, parameter, own)
    if attributes is None:
        return
    double = _double(
        optimizer, attributes, {**group, "params": [own]}, {own: dict(state)}
    )
    with recorder.phase("optimizer"):
        double.step()
    recorder.keep(own, f"parameter:{name}", "parameter")
    for key, tensor in named_tensors(dict(double.state[own])):
        if tensor.is_floating_point() and tensor.dim() > 0:
            recorder.keep(tensor, f"state:{key}:{name}", "state")


def _copied_attributes(
    optimizer: torch.optim.Optimizer, parameter: torch.Tensor, double: torch.Tensor
) -> dict[str, Any] | None:
    """Return an optimizer's attributes for one that updates a copied parameter.

    What an optimizer of the user's own keeps beside its state, such as a list of its
    parameters or averages of them, is copied, too: its step writes there. None where
    that cannot be done, or not once for each parameter.
    """
    found = {k: v for k, v in vars(optimizer).items() if k not in _REPLACED}
    if type(optimizer) in _ELEMENTWISE:
        return found
    # No other parameter is updated here.
    known = {id(p): torch.empty(0) for p in parameters_of(optimizer)}
    known[id(parameter)] = double
    held = (t for _, t in named_tensors(found) if id(t) not in known)
    if sum(t.numel() for t in held) > _MOST_COPIED:
        return None
    try:
        return copy.deepcopy(found, known)
    except Exception:  # noqa: BLE001 - whatever a user's objects raise when copied
        return None


def _double(
    optimizer: torch.optim.Optimizer,
    attributes: dict[str, Any],
    group: dict[str, Any],
    state: dict[torch.Tensor, Any],
) -> torch.optim.Optimizer:
    """Return an optimizer of the same kind over other parameters."""
    double: torch.optim.Optimizer = object.__new__(type(optimizer))
    double.__dict__.update(attributes)
    double.__dict__.update({hooks: collections.OrderedDict() for hooks in _HOOKS})
    double.param_groups = [group]
    double.state = collections.defaultdict(dict, state)
    return double
