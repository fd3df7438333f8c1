# SPDX-License-Identifier: Apache-2.0
"""One step of one rank of an msprobe dump while its sites are put together."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from numcheck.record.foreign.ledger import Ledger
from numcheck.record.foreign.msprobe_entry import parse_name
from numcheck.record.foreign.msprobe_tensor import measured
from numcheck.record.site import Site

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from numcheck.record.foreign.ledger import Value
    from numcheck.record.foreign.msprobe_entry import Entry
    from numcheck.record.foreign.msprobe_tensor import Tensor
    from numcheck.record.site import Role, SourceLine
    from numcheck.record.trace import TraceBuilder

__all__ = ["Weaving"]


@dataclasses.dataclass(slots=True)
class Weaving:
    """What is known of a step so far.

    Attributes:
        builder: the trace under construction.
        entries: the dump's entries by key, in the order they were written.
        construct: for each call, the call of the module it lies in.
        lines: for each call, the user's line.
        tensors: folder with the values of a tensor dump.
        notes: what could not be read.
        values: where forward tensors came from.
        made: for each forward call, the sites of its results.
        read: for each forward call, the sites it read, in operand order.
        readers: for each site, the calls that read it.
        slopes: for each forward call, the gradients its backward run gave.
        given: for each forward call, the gradients its backward run was given.
        gradients: gradients of parameters.
        gradient_of: the gradient of each parameter, by its name.
        sources: site of each value the step was given.
        names: name of each source that is a parameter.
        inside: for each module's call, the recorded forward calls within it.
    """

    builder: TraceBuilder
    entries: Mapping[str, Entry]
    construct: Mapping[str, str | None]
    lines: Mapping[str, SourceLine]
    tensors: Path
    notes: list[str]
    values: Ledger = dataclasses.field(default_factory=Ledger)
    made: dict[str, list[int]] = dataclasses.field(default_factory=dict)
    read: dict[str, list[int]] = dataclasses.field(default_factory=dict)
    readers: dict[int, list[str]] = dataclasses.field(default_factory=dict)
    slopes: dict[str, list[Value]] = dataclasses.field(default_factory=dict)
    given: dict[str, list[int]] = dataclasses.field(default_factory=dict)
    gradients: Ledger = dataclasses.field(default_factory=Ledger)
    gradient_of: dict[str, Value] = dataclasses.field(default_factory=dict)
    sources: dict[object, int] = dataclasses.field(default_factory=dict)
    names: dict[int, str] = dataclasses.field(default_factory=dict)
    inside: dict[str, list[str]] = dataclasses.field(default_factory=dict)

    def __post_init__(self) -> None:
        """Turn the tree of modules round, so that it is walked once only."""
        for key, entry in self.entries.items():
            if entry.name.way == "forward":
                for outer in self.enclosing(key):
                    self.inside.setdefault(outer, []).append(key)

    def enclosing(self, key: str) -> Iterator[str]:
        """Yield the module calls around a call, innermost first."""
        seen = {key}
        outer = self.construct.get(key)
        while outer and outer not in seen:
            seen.add(outer)
            yield outer
            outer = self.construct.get(outer)

    def place(self, entry: Entry) -> tuple[str, str]:
        """Return path and class of the module that a call lies in, or is."""
        if entry.name.is_module:
            return entry.name.path, entry.name.call
        for outer in self.enclosing(entry.key):
            name = parse_name(outer)
            if name is not None and name.is_module:
                return name.path, name.call
        return "", ""

    def add(self, site: Site, tensor: Tensor) -> int:
        """Append the site at which a tensor lies, with what the dump knows of it."""
        summary = measured(tensor, self.tensors, self.notes)
        known = summary if tensor.is_known or tensor.file else None
        described = dataclasses.replace(site, dtype=tensor.dtype, shape=tensor.shape)
        return self.builder.add(described, known)

    def source(self, tensor: Tensor, role: Role, name: str) -> int:
        """Return the site of a value the step was given; one for each value."""
        known = self.sources.get((role, tensor.key))
        if known is not None:
            return known
        site = Site(0, f"{role}:{name}", "data", "source", role, "move")
        index = self.add(site, tensor)
        self.sources[role, tensor.key] = index
        if role == "parameter":
            self.names[index] = name
        return index

    def note_read(self, key: str, sites: list[int]) -> None:
        """Remember that a call read the values of `sites`."""
        self.read[key] = sites
        for site in sites:
            self.readers.setdefault(site, []).append(key)

    def consumers(self, key: str) -> list[str]:
        """Return the recorded calls that read a call's results, however indirectly."""
        found: dict[str, None] = {}
        queue = list(self.made.get(key, ()))
        while queue:
            for reader in self.readers.get(queue.pop(), ()):
                if reader in self.entries:
                    found[reader] = None
                else:
                    queue.extend(self.made.get(reader, ()))
        return list(found)
