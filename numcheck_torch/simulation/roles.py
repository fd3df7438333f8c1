# SPDX-License-Identifier: Apache-2.0
"""Which tensors of a step are gradients and which are weights, as far as it matters."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch.utils._pytree import tree_iter
from torch.utils.weak import WeakIdKeyDictionary

from numcheck_torch.engine import is_inside

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numcheck.simulation import Profile
    from numcheck_torch.operators import Operator

__all__ = ["Roles"]


class Roles:
    """Follows gradients and weights through a step, where the profile tells them apart.

    A gradient is what a backward pass starts from and what it computes from that. A
    weight is a leaf that wants a gradient, as it is or cast.

    Args:
        profile: the device's arithmetic.
    """

    def __init__(self, profile: Profile) -> None:
        rules = [rule.arithmetic for rule in profile.rules]
        self._tells_gradients = any(a.gradient for a in rules)
        self._tells_weights = any(a.right for a in rules)
        self._gradients: Any = WeakIdKeyDictionary()
        self._weights: set[int] = set()

    def restart(self) -> None:
        """Forget the weights of the last step; their memory may be another's now."""
        self._weights.clear()

    def seed(self, gradients: Iterable[torch.Tensor | None]) -> None:
        """Learn which gradients the backward pass starts from."""
        if self._tells_gradients:
            self._gradients.update({g: True for g in gradients if g is not None})

    def is_gradient(self, tensor: torch.Tensor) -> bool:
        """Whether a tensor is a gradient."""
        return tensor in self._gradients

    def is_weight(self, tensor: torch.Tensor) -> bool:
        """Whether a tensor is a weight or a view of one."""
        return _memory(tensor) in self._weights

    def before(self, args: tuple[Any, ...]) -> None:
        """Note the weights among an operator's arguments."""
        if self._tells_weights:
            self._weights.update(
                _memory(t) for t in _tensors(args) if t.is_leaf and t.requires_grad
            )

    def after(self, operator: Operator, args: tuple[Any, ...], result: Any) -> None:
        """Note what an operator made of gradients and of weights."""
        is_cast = self._tells_weights and operator.effect == "cast"
        if is_cast and any(map(self.is_weight, _tensors(args))):
            self._weights.update(map(_memory, _tensors(result)))
        is_followed = self._tells_gradients and is_inside()
        if is_followed and any(map(self.is_gradient, _tensors(args))):
            made = (t for t in _tensors(result) if t.is_floating_point())
            self._gradients.update(dict.fromkeys(made, True))


def _tensors(tree: Any) -> Iterator[torch.Tensor]:
    return (t for t in tree_iter(tree) if isinstance(t, torch.Tensor))


def _memory(tensor: torch.Tensor) -> int:
    memory: int = tensor.untyped_storage()._cdata
    return memory
