# SPDX-License-Identifier: Apache-2.0
"""Two questions to a device: one operator alone on the CPU, and all of them one by one.

The first is the device makers' own procedure: the operator that broke, with the very
operands it had, run again where it cannot be the kernel's fault.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

from numcheck.diagnose.laboratory import CannotRunError
from numcheck_torch.operators import describe

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch._ops import OpOverload

    from numcheck.record.site import Site
    from numcheck.record.trace import Trace

__all__ = ["OnCpu", "OneByOne"]


class OnCpu(TorchDispatchMode):
    """Runs one chosen call of an operator a second time, on the CPU.

    Args:
        trace: the recorded step.
        site: one of its sites; the operator that made it is chosen.

    Attributes:
        result: the output that the site stands for; None until it was run.
    """

    def __init__(self, trace: Trace, site: Site) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.result: torch.Tensor | None = None
        self._op = site.op
        self._output = site.output
        self._before = sum(
            s.op == site.op and s.output == site.output and s.kind == "operator"
            for s in trace.sites[: site.index]
        )

    def __torch_dispatch__(
        self,
        func: OpOverload,
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        given = kwargs or {}
        if describe(func).name != self._op or self.result is not None:
            return func(*args, **given)
        if self._before:
            self._before -= 1
            return func(*args, **given)
        here = tree_map(_on_cpu, (args, given))
        found = func(*args, **given)
        outputs = [t for t in tree_leaves(_again(func, here)) if _is_tensor(t)]
        if self._output < len(outputs):
            self.result = outputs[self._output]
        return found


class OneByOne(TorchDispatchMode):
    """Waits for the device after each operator.

    Args:
        device: the device to wait for.
    """

    def __init__(self, device: torch.device) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._module = torch.get_device_module(device)

    def __torch_dispatch__(
        self,
        func: OpOverload,
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        found = func(*args, **(kwargs or {}))
        self._module.synchronize()
        return found


def _again(func: OpOverload, here: tuple[tuple[Any, ...], dict[str, Any]]) -> Any:
    try:
        return func(*here[0], **here[1])
    except (RuntimeError, NotImplementedError, TypeError) as error:
        msg = f"{func} has no kernel on the CPU: {str(error).splitlines()[0]}"
        raise CannotRunError(msg) from error


def _on_cpu(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        # A copy even there: the operator may write to its arguments.
        return value.detach().to("cpu", copy=True)
    is_device = isinstance(value, torch.device)
    return torch.device("cpu") if is_device else value


def _is_tensor(value: object) -> bool:
    return isinstance(value, torch.Tensor)
