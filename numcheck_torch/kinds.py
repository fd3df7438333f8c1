# SPDX-License-Identifier: Apache-2.0
"""Which tensors are what they look like."""

from __future__ import annotations

import functools
from typing import Final

import torch
from torch.nn.parameter import UninitializedBuffer, UninitializedParameter

from numcheck_torch import modes

__all__ = ["PLAIN", "bytes_of", "is_plain"]

PLAIN: Final = frozenset({torch.Tensor, torch.nn.Parameter, torch.nn.Buffer})
"""Types whose values are those of their own memory. Other subclasses answer for
themselves: shards, quantised tensors, what traces a program."""
_WITHOUT_VALUES: Final = (UninitializedBuffer, UninitializedParameter)
_NOT_ITS_OWN: Final = torch._C._disabled_torch_dispatch_impl


@functools.cache
def is_plain(kind: type) -> bool:
    """Whether values of a type are those of their own memory.

    So they are for subclasses that only carry a name or a method more, as images and
    boxes do; one that runs operators by itself answers for itself.

    Example:
        >>> class Image(torch.Tensor):
        ...     "A picture."
        >>> is_plain(torch.Tensor), is_plain(Image), is_plain(int)
        (True, True, False)
    """
    if kind in PLAIN:
        return True
    if not issubclass(kind, torch.Tensor) or issubclass(kind, _WITHOUT_VALUES):
        return False
    return kind.__torch_dispatch__ is _NOT_ITS_OWN


def bytes_of(tensor: torch.Tensor) -> int:
    """Return the size of what a tensor stores, which sparse ones do not tell.

    Example:
        >>> bytes_of(torch.zeros(3)), bytes_of(torch.eye(3).to_sparse())
        (12, 60)
    """
    if tensor.layout is not torch.sparse_coo:
        return tensor.nbytes
    return modes.unseen(tensor._values).nbytes + modes.unseen(tensor._indices).nbytes
