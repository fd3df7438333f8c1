# SPDX-License-Identifier: Apache-2.0
"""Where a node of a compiled graph comes from in the user's program."""

from __future__ import annotations

import dataclasses
import re
from typing import TYPE_CHECKING, Any, Final

from numcheck.record.site import Site, SourceLine
from numcheck_torch.source import is_users

if TYPE_CHECKING:
    import torch

    from numcheck.record.site import Phase
    from numcheck_torch.compile.again import Computed

__all__ = ["JointGraph", "Place"]

_ROOT: Final = re.compile(r"^L\['\w+'\]\.?")
# How older versions of PyTorch write the path of a module in a container.
_HELD: Final = re.compile(r"\._modules\['(\w+)'\]")
_FRAME: Final = re.compile(r'File "(.+)", line (\d+), in (\S+)\n\s*(.*)')


@dataclasses.dataclass(frozen=True, slots=True)
class Place:
    """A module of the user's.

    Attributes:
        scope: its path in the watched module.
        scope_type: its class name.
    """

    scope: str
    scope_type: str


class JointGraph:
    """What the forward and the backward graph of one compilation have in common.

    Args:
        root: the compiled module.
        is_inductors: whether Inductor compiles them.

    Attributes:
        forward: what the backward graph may compute again.
        is_inductors: as given.
    """

    def __init__(self, root: Place, *, is_inductors: bool = False) -> None:
        self.is_inductors = is_inductors
        self._root = root
        self.forward: Computed | None = None
        # Autograd numbers nodes; the backward graph keeps the forward's numbers.
        self._forward_ops: dict[int, str] = {}

    def place(self, node: torch.fx.Node, phase: Phase) -> Site:
        """Return a site with a node's place, its values still open."""
        meta, op = node.meta, str(node.target)
        number = int(meta.get("seq_nr") or -1)
        modules = meta.get("nn_module_stack") or {}
        detail: tuple[tuple[str, str | float], ...] = ()
        if phase == "forward":
            self._forward_ops.setdefault(number, op)
        elif "fwd_nn_module_stack" in meta:
            modules = meta["fwd_nn_module_stack"] or {}
            if number in self._forward_ops:
                detail = (("forward_op", self._forward_ops[number]),)
        elif self._forward_ops.get(number) == op:
            phase = "recompute"
        at = self._module(modules)
        return Site(
            index=-1,
            op=op,
            phase=phase,
            scope=at.scope,
            scope_type=at.scope_type,
            source=_line(meta.get("stack_trace")),
            detail=detail,
        )

    def _module(self, modules: dict[str, Any]) -> Place:
        """Return the innermost module of a node's stack of modules."""
        if not modules:
            return self._root
        path, kind = next(reversed(modules.values()))
        inner = _ROOT.sub("", _HELD.sub(r".\1", path))
        scope = ".".join(part for part in (self._root.scope, inner) if part)
        return Place(scope, getattr(kind, "__name__", str(kind)))


def _line(trace: str | None) -> SourceLine | None:
    """Return the innermost line of the user's in a formatted traceback."""
    for file, number, function, text in reversed(_FRAME.findall(trace or "")):
        if is_users(file):
            return SourceLine(file, int(number), function, text.strip())
    return None
