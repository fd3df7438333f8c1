# SPDX-License-Identifier: Apache-2.0
"""A process group of our own, beside the program's, for words about the step."""

from __future__ import annotations

import datetime as dt
import itertools
import weakref
from typing import TYPE_CHECKING, Any

import torch
from torch import distributed

from numcheck_torch import modes

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["Companions"]

_PATIENCE = dt.timedelta(seconds=60)
_numbers = itertools.count()


class Companions:
    """The ranks that train one model, all of them watched.

    Args:
        group: of these ranks, on the host: the program's own collectives are not
            disturbed, whatever device they run on. Held weakly, so that it goes when
            the program destroys its groups, and its threads with it.
    """

    def __init__(self, group: Any) -> None:
        self._reference = weakref.ref(group)
        self.rank = distributed.get_rank()

    @classmethod
    def gathered(cls, ranks: Sequence[int]) -> Companions | None:
        """Return the companions, once all are here; None when some are not watched.

        Making a process group waits for all its members, so who is watched is asked
        first, and all of them come to the same answer.
        """
        store = distributed.distributed_c10d._get_default_store()
        name = f"numcheck/companions/{next(_numbers)}/{'-'.join(map(str, ranks))}"
        store.set(f"{name}/{distributed.get_rank()}", "here")
        try:
            store.wait([f"{name}/{rank}" for rank in ranks], _PATIENCE)
            answer = "together"
        except distributed.DistStoreError:
            answer = "alone"
        if store.compare_set(f"{name}/answer", "", answer) != b"together":
            return None
        group = distributed.new_group(
            list(ranks), backend="gloo", use_local_synchronization=True
        )
        return cls(group)

    @property
    def is_gone(self) -> bool:
        """Whether the program destroyed its process groups."""
        return self._reference() is None or not distributed.is_initialized()

    def highest(self, number: int) -> int:
        """Return the highest of all ranks' numbers."""
        with modes.none():
            word = torch.tensor([number], dtype=torch.int32)
            highest = distributed.ReduceOp.MAX
            distributed.all_reduce(word, highest, group=self._reference())
            return int(word)

    def words(self, own: Any) -> list[Any]:
        """Return what every rank has to say, by rank."""
        group = self._reference()
        heard: list[Any] = [None] * distributed.get_world_size(group)
        with modes.none():
            distributed.all_gather_object(heard, own, group=group)
        return heard
