# SPDX-License-Identifier: Apache-2.0
"""Sums of what modules return, where operators are followed by their extremes alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from numcheck_torch.autograd_nodes import is_in_engine
from numcheck_torch.calls import PLAIN
from numcheck_torch.trees import tensors

if TYPE_CHECKING:
    from numcheck_torch.site_log import SiteLog

__all__ = ["Layers"]


class Layers:
    """Hears of every module that returns; what runs again in a backward is left out.

    Args:
        log: knows the sites of the values, and sums them.
    """

    def __init__(self, log: SiteLog) -> None:
        self._log = log

    def left(self, scope: tuple[str, str], out: object) -> None:
        """Sum what a module returned; its site is that of the last operator."""
        if is_in_engine():
            return
        for tensor in tensors(out):
            if type(tensor) in PLAIN and tensor.is_floating_point():
                self._log.sum_up(tensor.detach())
