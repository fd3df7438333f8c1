# SPDX-License-Identifier: Apache-2.0
"""Several processes that train one model: who they are, and how they stop together."""

from __future__ import annotations

from numcheck_torch.distributed.companions import Companions
from numcheck_torch.distributed.company import Company, Request
from numcheck_torch.distributed.meeting import Ranks, together
from numcheck_torch.distributed.place import (
    in_turn,
    of_rank,
    rank_of_process,
    world_size,
)
from numcheck_torch.distributed.sharding import why_not_replayed

__all__ = [
    "Companions",
    "Company",
    "Ranks",
    "Request",
    "in_turn",
    "of_rank",
    "rank_of_process",
    "together",
    "why_not_replayed",
    "world_size",
]
