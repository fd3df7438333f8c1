# SPDX-License-Identifier: Apache-2.0
"""Models as programs with several processes make them, watched or not."""

from __future__ import annotations

from typing import Any

import torch
from torch import distributed, nn
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import (
    checkpoint_wrapper,
)
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import (
    FullyShardedDataParallel,
    MixedPrecisionPolicy,
    fully_shard,
)
from torch.distributed.nn import functional as collectives
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    RowwiseParallel,
    parallelize_module,
)
from torch.nn.parallel import DistributedDataParallel

import numcheck_torch

HALF = MixedPrecisionPolicy(param_dtype=torch.float16)
BRAIN = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
HALF_SUMS = MixedPrecisionPolicy(reduce_dtype=torch.float16)


class SyncNorm(nn.Module):
    """Normalises with the statistics of all ranks: SyncBatchNorm runs on no CPU."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        mean = collectives.all_reduce(x.mean(0)) / distributed.get_world_size()
        spread = (x - mean).square().mean(0)
        spread = collectives.all_reduce(spread) / distributed.get_world_size()
        centred: torch.Tensor = (x - mean) * torch.rsqrt(spread + 1e-5)
        return centred


def network(middle: nn.Module | None = None) -> nn.Sequential:
    middle = nn.Dropout(0.25) if middle is None else middle
    return nn.Sequential(nn.Linear(4, 8), middle, nn.Linear(8, 4))


def sharded(policy: MixedPrecisionPolicy | None = None) -> nn.Module:
    mesh = init_device_mesh("cpu", (distributed.get_world_size(),))
    model = network()
    how: dict[str, Any] = {"mesh": mesh}
    if policy is not None:
        how["mp_policy"] = policy
    if policy is BRAIN:
        model[2] = checkpoint_wrapper(model[2])
    for layer in (model[0], model[2]):
        fully_shard(layer, **how)
    fully_shard(model, **how)
    return model


def parallel() -> nn.Module:
    mesh = init_device_mesh("cpu", (distributed.get_world_size(),))
    plan = {"0": ColwiseParallel(), "2": RowwiseParallel()}
    return parallelize_module(network(nn.Tanh()), mesh, plan)


def flattened() -> nn.Module:
    return FullyShardedDataParallel(network(), device_id=torch.device("cpu"))


def compressed() -> nn.Module:
    model = DistributedDataParallel(network())
    model.register_comm_hook(None, default_hooks.fp16_compress_hook)
    return model


MADE = {
    "plain": lambda: DistributedDataParallel(network()),
    "redundant": lambda: DistributedDataParallel(network()),
    "norm": lambda: DistributedDataParallel(network(nn.BatchNorm1d(8))),
    "synchronised": lambda: DistributedDataParallel(network(SyncNorm())),
    "compressed": compressed,
    "sharded": sharded,
    "sharded half": lambda: sharded(HALF),
    "sharded brain": lambda: sharded(BRAIN),
    "sharded half sums": lambda: sharded(HALF_SUMS),
    "flattened": flattened,
    "parallel": parallel,
}


def made(name: str, options: dict[str, Any] | None) -> tuple[nn.Module, Any]:
    """Returns the model as the program calls it, and its monitor."""
    if name == "inside":
        inner = numcheck_torch.instrument(network(), **(options or {}))
        return DistributedDataParallel(inner), inner.numcheck
    model = MADE[name]()
    if options is None:
        return model, None
    model = numcheck_torch.instrument(model, **options)
    return model, model.numcheck
