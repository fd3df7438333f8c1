# SPDX-License-Identifier: Apache-2.0
"""What each value of a step is to the user: loss, gradient, state, parameter, input.

Read off the program: a new parameter reaches the old one directly, a gradient only
through differentiated operators, and the loss comes before anything transposed.
"""

from __future__ import annotations

import dataclasses
import re
from typing import TYPE_CHECKING, Any, Literal

import jax.numpy as jnp

from numcheck_jax.dependence import origins
from numcheck_jax.naming import plain_path
from numcheck_jax.pairing import candidates

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numcheck_jax.capture import Call
    from numcheck_jax.dependence import Origin
    from numcheck_jax.results import Key
    from numcheck_jax.tracing import Program

__all__ = ["KeptRole", "Roles", "SourceRole", "assign", "name_role"]

KeptRole = Literal["loss", "gradient", "parameter", "state", "output"]
SourceRole = Literal["input", "target", "parameter", "state"]

_PARAMETERS = re.compile(
    r"(p|w|theta|model|variables)\b|.*\b(params?|parameters?|weights?)\b",
    re.IGNORECASE,
)
_TARGETS = re.compile(r"(labels?|targets?|tgt|y|y_true)\b", re.IGNORECASE)
_LOSS = re.compile(r"loss|nll|cost|objective", re.IGNORECASE)


@dataclasses.dataclass(frozen=True, slots=True)
class Roles:
    """The roles in one program.

    Attributes:
        kept: role of each value handed back.
        was: for a state, parameter or gradient, the position of the leaf it belongs to.
        sources: role of each argument leaf that is an array, by position.
        presumed: of these, what is a state or parameter by nothing but a value handed
            back that looks like its successor.
    """

    kept: Mapping[Key, KeptRole]
    was: Mapping[Key, int]
    sources: Mapping[int, SourceRole]
    presumed: frozenset[int] = frozenset()

    def losses(self, outputs: Sequence[Key]) -> list[int] | None:
        """Return the positions of the losses among outputs; None without any."""
        found = [i for i, key in enumerate(outputs) if self.kept[key] == "loss"]
        return found or None

    def name(self, key: Key, call: Call, text: str) -> str:
        """Return the name of a kept value: ``loss``, ``gradient:params['w']``.

        Args:
            key: its place.
            call: the call it came from.
            text: its path in what the function returned.
        """
        role = self.kept[key]
        if role == "loss":
            return "loss"
        owner = self.was.get(key)
        label = f"{role}:{text}" if text else role
        twins = [k for k, o in self.was.items() if o == owner and self.kept[k] == role]
        if owner is None or len(twins) > 1:
            return label
        return f"{role}:{call.names[owner]}"


def name_role(name: str) -> KeptRole:
    """Return the role that a returned value's name alone suggests.

    >>> name_role("[1]['train_loss']"), name_role("[0]['w']")
    ('loss', 'output')
    """
    return "loss" if _LOSS.search(name) else "output"


def assign(call: Call, program: Program, loss: Key | None = None) -> Roles:
    """Return the roles in a traced call.

    Args:
        call: the call.
        program: its program.
        loss: where the user says the loss stands; found by itself when None.
    """
    avals = dict(zip(program.outputs, program.closed.out_avals, strict=True))
    found = dict(zip(program.outputs, origins(program.closed), strict=True))
    bits = {position: 1 << i for i, position in enumerate(program.inputs)}
    pairs = candidates(call, program.shape, avals)
    was: dict[Key, int] = {}
    kept: dict[Key, KeptRole] = {}
    for key, origin in found.items():
        is_root = key.kind == "out" and not program.shape.paths[key.position]
        scalar_root = is_root and avals[key].shape == ()
        direct = () if scalar_root else pairs[key]
        kept[key], owner = _kept_role(key, origin, direct, bits)
        twin = _twin(call, program, key, direct) if kept[key] == "output" else None
        if twin is not None:
            kept[key], owner = "state", twin
        if owner is not None:
            was[key] = owner
    was |= _owners_of_gradients(call, program, kept, avals, found, bits)
    loss = loss or _find_loss(call, program, kept, found, avals)
    if loss is not None:
        kept[loss] = "loss"
        was.pop(loss, None)
    sources, presumed = _sources(call, kept, was, found, bits)
    for key, owner in was.items():
        if kept[key] == "state" and sources.get(owner) == "parameter":
            kept[key] = "parameter"
    return Roles(kept, was, sources, presumed)


def _kept_role(
    key: Key, origin: Origin, pairs: tuple[int, ...], bits: Mapping[int, int]
) -> tuple[KeptRole, int | None]:
    if key.kind == "after":
        return "state", key.position
    for i in pairs:
        if origin.direct & bits.get(i, 0):
            return "state", i
    return ("gradient" if origin.is_backward else "output"), None


def _twin(call: Call, program: Program, key: Key, pairs: tuple[int, ...]) -> int | None:
    """Return the leaf at the very same named place, as when a state is overwritten."""
    path = plain_path(program.shape.paths[key.position])
    if not pairs or not any(isinstance(k, str) for k in path):
        return None
    return pairs[0] if plain_path(call.paths[pairs[0]][1:]) == path else None


def _owners_of_gradients(
    call: Call,
    program: Program,
    kept: Mapping[Key, KeptRole],
    avals: Mapping[Key, Any],
    found: Mapping[Key, Origin],
    bits: Mapping[int, int],
) -> dict[Key, int]:
    """Return the argument leaf that each gradient is taken with respect to."""
    gradients = {k: avals[k] for k, role in kept.items() if role == "gradient"}
    paths = [program.shape.paths[k.position] for k in gradients]
    pairs = candidates(call, program.shape, gradients, _shared_head(paths))
    owners: dict[Key, int] = {}
    # A gradient need not depend on its own parameter, but the loss does.
    primal = _differentiated(found)
    for key, leaves in pairs.items():
        owner = next((i for i in leaves if primal & bits.get(i, 0)), None)
        if owner is not None:
            owners[key] = owner
    return owners


def _differentiated(found: Mapping[Key, Origin]) -> int:
    """Return the inputs that anything differentiated depends on, as a bit mask."""
    inputs = 0
    for origin in found.values():
        inputs |= origin.primal
    return inputs


def _shared_head(paths: list[tuple[Any, ...]]) -> int:
    """Return how many leading keys all paths have in common."""
    if not paths:
        return 0
    for depth, keys in enumerate(zip(*paths, strict=False)):
        if len(set(keys)) > 1:
            return depth
    return min(map(len, paths))


def _find_loss(
    call: Call,
    program: Program,
    kept: Mapping[Key, KeptRole],
    found: Mapping[Key, Origin],
    avals: Mapping[Key, Any],
) -> Key | None:
    """Return the float scalar that was not differentiated backwards; by name first."""
    scalars = [
        key
        for key, role in kept.items()
        if role == "output"
        and avals[key].shape == ()
        and jnp.issubdtype(avals[key].dtype, jnp.floating)
        and not found[key].is_backward
    ]
    named = [k for k in scalars if _LOSS.search(program.shape.name(k, call))]
    return next(iter(named or scalars), None)


def _sources(
    call: Call,
    kept: Mapping[Key, KeptRole],
    was: Mapping[Key, int],
    found: Mapping[Key, Origin],
    bits: Mapping[int, int],
) -> tuple[dict[int, SourceRole], frozenset[int]]:
    """Return the role of each argument leaf, and the leaves that could be no state."""
    with_gradient = {i for k, i in was.items() if kept[k] == "gradient"}
    carried = {i for k, i in was.items() if kept[k] == "state"}
    differentiated = _differentiated(found)
    roles: dict[int, SourceRole] = {}
    presumed: set[int] = set()
    for i, bit in bits.items():
        if i in with_gradient or _PARAMETERS.match(call.names[i]):
            roles[i] = "parameter"
        elif i in carried:
            roles[i] = "parameter" if differentiated & bit else "state"
            presumed.add(i)
        else:
            roles[i] = "target" if _TARGETS.match(call.names[i]) else "input"
    return roles, frozenset(presumed)
