# SPDX-License-Identifier: Apache-2.0
"""Runs a program with its lower-precision formats lifted to a wider one.

The lift sits below autocast and below the program's own casts: whatever asks for
float16, bfloat16 or float8 gets the wider format instead, whether by ``.half()``, a
``dtype=`` argument, a factory function or autocast. Lifting every dtype to itself goes
the same way and must give the bit-equal program; where it does not, a lift proves
nothing.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any, Final

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map_only

from numcheck.diagnose.laboratory import CannotRunError
from numcheck.record.notice import notice
from numcheck_torch.dtypes import LOW_PRECISION
from numcheck_torch.higher_order import run_inside
from numcheck_torch.operators import describe
from numcheck_torch.scaled_products import wide_product

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from torch import nn
    from torch._ops import OpOverload

__all__ = ["Lift", "lifted_dtypes", "lifted_parameters"]

_BIT_VIEWS: Final = frozenset({"aten.view.dtype"})


def lifted_dtypes(dtype: torch.dtype | None) -> dict[torch.dtype, torch.dtype]:
    """Return what each dtype becomes under a lift to `dtype`; None lifts to itself.

    bfloat16 is no wider than float16, but has float32's range: it takes its place.

    Example:
        >>> lifted_dtypes(torch.float64)[torch.float32]
        torch.float64
    """
    if dtype == torch.bfloat16:
        return {d: dtype for d in LOW_PRECISION if d != dtype}
    low = set(LOW_PRECISION)
    if dtype == torch.float64:
        low.add(torch.float32)
    return {d: dtype or d for d in low}


class Lift(TorchDispatchMode):
    """Rewrites lower-precision dtypes to a wider one, as a context manager.

    Args:
        dtype: what float16 and bfloat16 become, and for float64 also float32; None
            lifts each to itself.

    Example:
        >>> with Lift(torch.float32):
        ...     x = torch.tensor(70000.0).half()
        >>> x.dtype, x.item()
        (torch.float32, 70000.0)
    """

    supports_higher_order_operators = True

    def __init__(self, dtype: torch.dtype | None) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._to = lifted_dtypes(dtype)
        self._wider = {wide for low, wide in self._to.items() if wide != low}

    def __torch_dispatch__(
        self,
        func: OpOverload,
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        """Run one operator on lifted arguments."""
        operator = describe(func)
        keywords = kwargs or {}
        written = operator.writes(args, keywords)
        if operator.name in _BIT_VIEWS:
            self._refuse_bits(args)

        def lift(value: torch.Tensor) -> torch.Tensor:
            if value.dtype not in self._to or any(value is w for w in written):
                return value
            # A view stays a view of the program's own memory; lifting it would
            # detach later writes from their readers.
            return value if operator.is_view else value.to(self._to[value.dtype])

        args = self._rewrite(args, lift)
        keywords = self._rewrite(keywords, lift)
        product = wide_product(operator.name, operator.operands(args, keywords))
        return run_inside(self, func, args, keywords) if product is None else product

    def _rewrite(self, tree: Any, lift: Callable[[torch.Tensor], torch.Tensor]) -> Any:
        tree = tree_map_only(torch.Tensor, lift, tree)
        return tree_map_only(torch.dtype, lambda d: self._to.get(d, d), tree)

    def _refuse_bits(self, args: tuple[Any, ...]) -> None:
        """A program that reads bits is another program in another format.

        Raises:
            CannotRunError: one of the two dtypes is to be lifted to a wider one.
        """
        source, target = args[0].dtype, args[1]
        if any(self._to.get(d, d) != d for d in (source, target)):
            raise CannotRunError(
                notice("refusal.views_as", source=source, target=target)
            )
        # A value of the wider format may have been lifted: then its bits are others.
        if source in self._wider and source.itemsize != target.itemsize:
            raise CannotRunError(notice("refusal.views_bits", target=target))


@contextlib.contextmanager
def lifted_parameters(
    module: nn.Module, dtype: torch.dtype
) -> Iterator[Mapping[int, torch.Tensor]]:
    """Run a block with a module's parameters and buffers in a wider format.

    Parameters have stand-ins meanwhile, with the same hooks: a parameter that changed
    its own dtype would lose its place in the autograd graph, and with it whatever
    hangs there (the reducers of distributed wrappers). Buffers get their old memory
    back, so that all come out bit for bit as they were.

    Args:
        module: its lower-precision parameters and buffers are replaced.
        dtype: the wider format.

    Yields:
        The stand-ins, by the identity of the parameter.

    Example:
        >>> layer = torch.nn.Linear(2, 2).half()
        >>> with lifted_parameters(layer, torch.float32):
        ...     layer.weight.dtype
        torch.float32
        >>> layer.weight.dtype
        torch.float16
    """
    to = lifted_dtypes(dtype)
    own = [p for p in module.parameters() if p.dtype in to]
    standing = {id(p): _stand_in(p, dtype) for p in own}
    buffers = [(b, b.data) for b in module.buffers() if b.dtype in to]
    places = [place for m in module.modules() for place in _places(m, standing)]
    try:
        for holder, key, parameter in places:
            holder[key] = standing[id(parameter)]
        for buffer, data in buffers:
            buffer.data = data.to(dtype)
        yield standing
    finally:
        for holder, key, parameter in places:
            holder[key] = parameter
        for buffer, data in buffers:
            buffer.data = data


def _stand_in(parameter: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    lifted = torch.nn.Parameter(parameter.data.to(dtype), parameter.requires_grad)
    lifted._backward_hooks = parameter._backward_hooks
    return lifted


def _places(
    module: nn.Module, known: Mapping[int, torch.Tensor]
) -> Iterator[tuple[Any, Any, torch.Tensor]]:
    """Yield (container, key, parameter) for each place a module keeps one in.

    Beside its table of parameters it may keep lists of them, as recurrent layers do.
    """
    lists = [held for held in vars(module).values() if type(held) is list]
    tables: list[Any] = [(module._parameters, module._parameters.items())]
    tables += [(held, enumerate(held)) for held in lists]
    for holder, items in tables:
        yield from [(holder, key, held) for key, held in items if id(held) in known]
