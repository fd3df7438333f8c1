# SPDX-License-Identifier: Apache-2.0
"""The dispatch modes through which a recorder is called for every operator."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from torch.utils._python_dispatch import TorchDispatchMode

from numcheck_torch.kinds import PLAIN

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from torch._ops import OpOverload

__all__ = ["LiveMode", "Mode"]

_VALUELESS: Final = frozenset({"FakeTensor", "FunctionalTensor"})


class Mode(TorchDispatchMode):
    """Calls for every operator on plain tensors.

    Args:
        record: runs the operator, given it and its arguments, and returns its result.
    """

    def __init__(self, record: Callable[..., Any]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._record = record

    def __torch_dispatch__(
        self,
        func: OpOverload,
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        if not PLAIN.issuperset(types):
            # Tensors without values belong to somebody who plans or traces.
            if any(t.__name__ in _VALUELESS for t in types):
                return func(*args, **(kwargs or {}))
            # Wrapper subclasses (DTensor…) unwrap themselves first; their local
            # operators come here again.
            return NotImplemented
        return self._record(func, args, kwargs or {})


class LiveMode(Mode):
    """Lets compiled code run compiled; other modes make it run operator by operator."""

    @classmethod
    def ignore_compile_internals(cls) -> bool:
        """Return that compiled code need not be left for this mode."""
        return True
