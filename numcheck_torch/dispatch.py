# SPDX-License-Identifier: Apache-2.0
"""Dispatch modes that are called for every operator, and must be so at little cost."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from numcheck_torch.kinds import PLAIN, is_plain
from numcheck_torch.versions import LeavesCompiled, untraced

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from torch._ops import OpOverload

__all__ = ["LiveMode", "Mode", "UntracedMode"]

_VALUELESS: Final = frozenset({"FakeTensor", "FunctionalTensor"})
_frames: Final = torch._C._dynamo.eval_frame
_can_leave_out: Final = hasattr(_frames, "set_code_exec_strategy")


class UntracedMode(TorchDispatchMode):
    """A mode whose own code `torch.compile` never looks at.

    PyTorch wraps every mode's method for that, at two more calls an operator. Marking
    its code has the same effect for free, where this version of PyTorch can.
    """

    supports_higher_order_operators = True

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)  # type: ignore[no-untyped-call]
        method = cls.__dict__.get("__torch_dispatch__")
        if _can_leave_out and method is not None:
            skip = _frames._FrameAction.SKIP
            strategy = _frames._FrameExecStrategy(skip, skip)
            _frames.set_code_exec_strategy(method.__code__, strategy)
        elif method is not None and not hasattr(
            TorchDispatchMode, "_should_skip_dynamo"
        ):
            cls.__torch_dispatch__ = untraced(method)  # type: ignore[method-assign]

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Ask for PyTorch's wrapper where code cannot be marked."""
        return not _can_leave_out


class Mode(UntracedMode):
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
        if not (PLAIN.issuperset(types) or all(map(is_plain, types))):
            # Tensors without values belong to somebody who plans or traces.
            if any(t.__name__ in _VALUELESS for t in types):
                return func(*args, **(kwargs or {}))
            # Wrapper subclasses (DTensor…) unwrap themselves first; their local
            # operators come here again.
            return NotImplemented
        return self._record(func, args, kwargs or {})


class LiveMode(LeavesCompiled, Mode):
    """Lets compiled code run compiled; other modes make it run operator by operator."""
