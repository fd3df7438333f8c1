# SPDX-License-Identifier: Apache-2.0
"""One entry of a ``dump.json``: its name taken apart, its tensors in order."""

from __future__ import annotations

import dataclasses
import re
from typing import TYPE_CHECKING, Any, Final, Literal

from numcheck.record.foreign.msprobe_tensor import Tensor, flattened

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numcheck.record.foreign.msprobe_tensor import Number

__all__ = ["Direction", "Entry", "Name", "parse_entry", "parse_name"]

Direction = Literal["forward", "backward", "parameters_grad"]
_API: Final = re.compile(
    r"(?P<prefix>[A-Za-z]+)\.(?P<call>.+)\.(?P<number>\d+)\.(?P<way>forward|backward)$"
)
_MODULE: Final = re.compile(
    r"(?P<prefix>Module|Cell)\.(?:(?P<path>.+)\.)?(?P<call>[^.]+)"
    r"\.(?P<way>forward|backward|parameters_grad)(?:\.(?P<number>\d+))?$"
)


@dataclasses.dataclass(frozen=True, slots=True)
class Name:
    """The name of an entry.

    Attributes:
        prefix: ``Functional``, ``Torch``, ``Tensor``, ``NPU``, ``Module``…
        call: name of the function, or class of the module.
        path: path of the module; empty for a function.
        number: how many calls of that name came before.
        way: forward, backward, or the gradients of a module's parameters.
    """

    prefix: str
    call: str
    path: str
    number: str
    way: Direction

    @property
    def is_module(self) -> bool:
        """Whether it names a module's call, not a function's."""
        return self.prefix in ("Module", "Cell")

    @property
    def op(self) -> str:
        """The operator as the dump writes it, without its call's number."""
        return f"{self.prefix}.{self.call}"

    def turned(self, way: Direction) -> str:
        """Return the name that the same call has in the other direction."""
        if self.is_module:
            head = ".".join(p for p in (self.prefix, self.path, self.call) if p)
            return f"{head}.{way}.{self.number}"
        return f"{self.prefix}.{self.call}.{self.number}.{way}"


def parse_name(text: str) -> Name | None:
    """Return an entry's name taken apart; None when it is of no known shape.

    Example:
        >>> parse_name("Module.layers.0.mlp.Linear.backward.1").path
        'layers.0.mlp'
        >>> parse_name("Tensor.__mul__.0.forward").op
        'Tensor.__mul__'
    """
    match = _MODULE.match(text) or _API.match(text)
    if match is None:
        return None
    found = match.groupdict()
    way: Any = found["way"]
    path, number = found.get("path") or "", found["number"] or "0"
    return Name(found["prefix"], found["call"], path, number, way)


@dataclasses.dataclass(frozen=True, slots=True)
class Entry:
    """One call in one direction.

    Attributes:
        key: the entry's name as the dump writes it.
        name: the same, taken apart.
        inputs: what it was given, in order: (name, value). Backward: the gradients of
            its results.
        outputs: what it gave. Backward: the gradients of its inputs.
        parameters: a module's parameters, or their gradients.
    """

    key: str
    name: Name
    inputs: tuple[tuple[str, Tensor | Number | None], ...]
    outputs: tuple[Tensor | Number | None, ...]
    parameters: Mapping[str, Tensor]

    @property
    def tensors(self) -> tuple[tuple[int, Tensor], ...]:
        """The tensors among the inputs, with their places."""
        values = (value for _, value in self.inputs)
        return tuple((i, v) for i, v in enumerate(values) if isinstance(v, Tensor))

    @property
    def results(self) -> tuple[tuple[int, Tensor], ...]:
        """The tensors among the outputs, with their places."""
        values = enumerate(self.outputs)
        return tuple((i, v) for i, v in values if isinstance(v, Tensor))


def parse_entry(key: str, body: Mapping[str, Any]) -> Entry | None:
    """Return an entry of a dump; None when its name is of no known shape.

    Raises:
        KeyError, TypeError, ValueError, AttributeError: its body is damaged.
    """
    name = parse_name(key)
    if name is None:
        return None
    if name.way == "parameters_grad":
        return Entry(key, name, (), (), _named(body))
    given = body.get("input_args", body.get("input", []))
    inputs = [("", value) for value in flattened(given)]
    for keyword, value in (body.get("input_kwargs") or {}).items():
        inputs += [(keyword, v) for v in flattened(value)]
    outputs = tuple(flattened(body.get("output", [])))
    parameters = _named(body.get("parameters") or {})
    return Entry(key, name, tuple(inputs), outputs, parameters)


def _named(body: Mapping[str, Any]) -> dict[str, Tensor]:
    found = {}
    for name, value in body.items():
        tensors = [t for t in flattened(value) if isinstance(t, Tensor)]
        if tensors:
            found[name] = tensors[0]
    return found
