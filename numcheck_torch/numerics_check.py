# SPDX-License-Identifier: Apache-2.0
"""The check a user inserts by hand."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

import torch

from numcheck.errors import ArgumentTypeError, NonFiniteError
from numcheck_torch.boundary import BOUNDARY
from numcheck_torch.check_operator import checked_copy, checked_under_transforms
from numcheck_torch.dtypes import is_measurable
from numcheck_torch.kinds import is_plain
from numcheck_torch.source import user_line
from numcheck_torch.value_check import ValueCheck, fail

if TYPE_CHECKING:
    from numcheck.record.site import SourceLine
    from numcheck_torch.value_check import When

__all__ = ["check_numerics"]


def check_numerics(x: torch.Tensor, name: str, *, sync: bool = True) -> torch.Tensor:
    """Return `x` unchanged, and report a NaN or Inf in it or in its gradient.

    Works in eager programs, under `torch.compile`, `torch.func` transforms and
    activation checkpoints. Use what is returned: in a compiled program a check whose
    result nobody reads is removed with it. Inside a watched step the monitor takes the
    report and nothing waits for the device.

    Args:
        x: a tensor of any shape. What is not floating-point passes unchecked.
        name: what to call it in the report.
        sync: read the answer at once, which waits for the device; False leaves it to
            the next check.

    Returns:
        `x` itself, or in a compiled program an equal tensor. A compiler that keeps
        intermediate values wider than their dtype rounds at the check.

    Raises:
        NonFiniteError: `x`, or a value whose check was left over, holds a NaN or an
            Inf. In a backward pass it comes out of ``backward()``: on an NPU at its
            end, when gradients are written already.
        ArgumentTypeError: `x` is not a tensor, or `name` is not a text.

    Example:
        >>> h = check_numerics(torch.tensor([1.0, 2.0]), "hidden")
        >>> h.tolist()
        [1.0, 2.0]
        >>> check_numerics(h / 0, "divided")
        Traceback (most recent call last):
        numcheck.errors.NonFiniteError: ...
    """
    _check_arguments(x, name)
    when: When = "now" if sync else "later"
    if not (x.is_floating_point() or x.is_complex()):
        return x
    if torch.compiler.is_compiling() or not _is_at_hand(x):
        copy: torch.Tensor = checked_copy(x, name, "forward", when)
        return copy
    if torch._C._functorch.peek_interpreter_stack() is not None:
        return checked_under_transforms(x, name, when)
    return _checked(x, name, when) if is_measurable(x.dtype) else x


def _checked(x: torch.Tensor, name: str, when: When) -> torch.Tensor:
    """Check a value now and hang the check of its gradient on it."""
    if not BOUNDARY.is_muted and (findings := BOUNDARY.collect()):
        fail(findings)
    check = functools.partial(_look, name=name, when=when, source=user_line(1))
    # A hook on a leaf would stay for good and look at every later gradient too.
    if x.requires_grad and torch.is_grad_enabled() and x.is_leaf:
        x = x.view_as(x)
    if (mailbox := BOUNDARY.mailbox) is not None:
        mailbox.follow(x, check)
    check(x)
    return x


def _look(x: torch.Tensor, name: str, when: When, source: SourceLine | None) -> None:
    ValueCheck(name, "forward", when, source).look(_local(x))
    if x.requires_grad and torch.is_grad_enabled() and not x.is_leaf:
        backward = ValueCheck(name, "backward", when, source)
        x.register_hook(lambda gradient: _look_back(backward, _local(gradient)))


def _look_back(check: ValueCheck, gradient: torch.Tensor) -> None:
    """Check a gradient where an exception can leave the thread it is computed in.

    PyTorch unwinds a hook that raised before it takes the exception from Python. The
    guard of a device that is not its own may be written in Python, and then ends the
    process there. A callback at the end of the backward pass raises safely.
    """
    try:
        check.look(gradient)
    except NonFiniteError as error:
        if gradient.device.type != torch._C._get_privateuse1_backend_name():
            raise
        engine = torch.autograd.Variable._execution_engine
        engine.queue_callback(functools.partial(_fail_with, error))


def _fail_with(error: NonFiniteError) -> None:
    raise error


def _check_arguments(x: object, name: object) -> None:
    if not isinstance(x, torch.Tensor):
        raise ArgumentTypeError(f"x must be a tensor, got {type(x).__name__}")
    if not isinstance(name, str):
        raise ArgumentTypeError(f"name must be a text, got {type(name).__name__}")


def _is_at_hand(x: torch.Tensor) -> bool:
    """Whether it holds values: plain tensors, and distributed ones by their part."""
    return is_plain(type(x)) or hasattr(x, "_local_tensor")


def _local(x: torch.Tensor) -> torch.Tensor:
    part: torch.Tensor = getattr(x, "_local_tensor", x)
    return part
