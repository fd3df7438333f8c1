# SPDX-License-Identifier: Apache-2.0
"""Which tensors are what they look like."""

from __future__ import annotations

from typing import Final

import torch

__all__ = ["PLAIN"]

PLAIN: Final = frozenset({torch.Tensor, torch.nn.Parameter, torch.nn.Buffer})
"""Types whose values are those of their own memory. Other subclasses answer for
themselves: shards, quantised tensors, what traces a program."""
