# SPDX-License-Identifier: Apache-2.0
"""What is wrong with the mask given to an NPU's fused attention.

There True means hidden; PyTorch's ``scaled_dot_product_attention`` means visible. A
mask of floats, right in PyTorch, is read as true and false. And a row in which every
key is hidden has no value.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import torch

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["MASKS", "is_fused_attention", "mask_facts"]

MASKS: Final = ("atten_mask", "attn_mask", "attention_mask")
_TRIANGLE: Final = [2048, 2048]
# The sparse modes whose mask stands for longer ones, and its size; that of a common
# prefix has a rectangle below its triangle.
_COMPRESSED: Final = {
    **dict.fromkeys((2, 3, 4, 7, 8), _TRIANGLE),
    6: [3072, 2048],
}
_LAYOUTS: Final = {"BSH": 1, "BSND": 1, "BNSD": 2, "SBH": 0}


def is_fused_attention(name: str) -> bool:
    """Whether an operator of the ``npu`` namespace attends, forward."""
    return "attention" in name and "grad" not in name and "backward" not in name


def mask_facts(given: Mapping[str, Any]) -> tuple[tuple[str, str | float], ...]:
    """Return what is noteworthy about the mask of one call.

    Waits for the device, so ask it in a replay only.

    Args:
        given: the call's arguments by name.

    Returns:
        ``mask_dtype`` when it is not bool or uint8; ``mask_shape`` when it does not
        fit query and key; ``mask_hidden_rows`` when rows see no key, with
        ``mask_rows``; ``mask_upside_down`` when it hides what a causal mask shows.

    Example:
        >>> q = torch.zeros(1, 2, 3, 4)
        >>> keep = torch.ones(3, 3).tril().bool()
        >>> call = {"query": q, "key": q, "input_layout": "BNSD", "atten_mask": keep}
        >>> dict(mask_facts(call))["mask_hidden_rows"]
        1.0
    """
    mask = next((given[n] for n in MASKS if given.get(n) is not None), None)
    if not isinstance(mask, torch.Tensor):
        return ()
    facts: list[tuple[str, str | float]] = []
    if mask.dtype not in (torch.bool, torch.uint8):
        facts.append(("mask_dtype", str(mask.dtype).removeprefix("torch.")))
    compressed = _COMPRESSED.get(given.get("sparse_mode", 0))
    wanted = compressed or _scores(given)
    if wanted is not None and list(mask.shape[-2:]) != list(wanted):
        facts.append(("mask_shape", f"{list(mask.shape)} for {list(wanted)}"))
    elif compressed is None:
        facts += _hidden(mask)
    elif _is_upside_down(mask[..., :2048, :].detach().to("cpu", torch.bool)):
        facts.append(("mask_upside_down", 1.0))
    return tuple(facts)


def _scores(given: Mapping[str, Any]) -> Sequence[int] | None:
    """Return the sizes of query and key along the sequence; None where not known."""
    axis = _LAYOUTS.get(str(given.get("input_layout")))
    query, key = given.get("query"), given.get("key")
    if axis is None or not isinstance(query, torch.Tensor):
        return None
    if not isinstance(key, torch.Tensor):
        return None
    return query.shape[axis], key.shape[axis]


def _hidden(mask: torch.Tensor) -> list[tuple[str, str | float]]:
    hidden = mask.detach().to("cpu", torch.bool)
    blind = hidden.all(-1)
    facts: list[tuple[str, str | float]] = []
    if bool(blind.any()):
        facts.append(("mask_hidden_rows", float(blind.sum())))
        facts.append(("mask_rows", float(blind.numel())))
    if _is_upside_down(hidden):
        facts.append(("mask_upside_down", 1.0))
    return facts


def _is_upside_down(hidden: torch.Tensor) -> bool:
    """Whether a mask hides just what a causal one shows."""
    below = torch.ones(hidden.shape[-2:], dtype=torch.bool).tril()
    return hidden.shape[-1] == hidden.shape[-2] > 1 and bool((hidden == below).all())
