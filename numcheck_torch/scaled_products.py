# SPDX-License-Identifier: Apache-2.0
"""Products of scaled float8 operands, once these are held in a wider format.

The kernel takes float8 alone; its scales keep their meaning in any format.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

    import torch

__all__ = ["wide_product"]

_NAME: Final = "aten._scaled_mm.default"


def wide_product(name: str, given: Iterable[tuple[str, Any]]) -> torch.Tensor | None:
    """Return a scaled product computed in its operands' own, wider format.

    Args:
        name: of the operator.
        given: its arguments with their names.

    Returns:
        None for another operator, for float8 operands, and for scales by blocks.

    Example:
        >>> import torch
        >>> one, two = torch.ones(()), torch.full((), 2.0)
        >>> eye = torch.eye(2)
        >>> given = {"self": eye, "mat2": eye, "scale_a": one, "scale_b": two}
        >>> wide_product("aten._scaled_mm.default", given.items()).diag()
        tensor([2., 2.])
    """
    if name != _NAME:
        return None
    named = dict(given)
    if named.get("scale_result") is not None:
        return None
    left, right = named["self"], named["mat2"]
    scales = named["scale_a"], named["scale_b"]
    if left.dtype.itemsize == 1 or not all(map(_is_plain, scales, (left, right))):
        return None
    product: torch.Tensor = (left * scales[0].to(left)) @ (right * scales[1].to(right))
    bias, dtype = named.get("bias"), named.get("out_dtype")
    if bias is not None:
        product = product + bias
    return product if dtype is None else product.to(dtype)


def _is_plain(scale: torch.Tensor, operand: torch.Tensor) -> bool:
    """Whether there is one scale in all, or one for each row or column."""
    if scale.numel() == 1:
        return True
    if scale.dim() != operand.dim():
        return False
    pairs = zip(scale.shape, operand.shape, strict=True)
    return all(have in (1, whole) for have, whole in pairs)
