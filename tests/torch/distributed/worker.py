# SPDX-License-Identifier: Apache-2.0
"""One process of several that train one model; started by the tests, not collected.

Prints one line of JSON: what this rank's training came to.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from typing import Any

import torch
from torch import distributed, nn
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
from torch.nn.parallel import DistributedDataParallel

import numcheck_torch
from numcheck.errors import NonFiniteError

STEPS = 4


def network(kind: str) -> nn.Module:
    torch.manual_seed(0)
    middle: nn.Module = nn.Dropout(0.25)
    if kind == "norm":
        middle = nn.BatchNorm1d(8)
    return nn.Sequential(nn.Linear(4, 8), middle, nn.Linear(8, 4))


def wrapped(order: str, options: dict[str, Any], kind: str) -> tuple[nn.Module, Any]:
    """Returns the model as the program calls it, and its monitor."""
    model = network(kind)
    if order == "outside":
        outer = numcheck_torch.instrument(DistributedDataParallel(model), **options)
        return outer, outer.numcheck
    if order == "inside":
        inner = numcheck_torch.instrument(model, **options)
        return DistributedDataParallel(inner), inner.numcheck
    if order == "compressed":
        outer = DistributedDataParallel(model)
        outer.register_comm_hook(None, default_hooks.fp16_compress_hook)
        outer = numcheck_torch.instrument(outer, **options)
        return outer, outer.numcheck
    if order == "sharded":
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import fully_shard

        mesh = init_device_mesh("cpu", (distributed.get_world_size(),))
        for layer in (model[0], model[2]):  # type: ignore[index]
            fully_shard(layer, mesh=mesh)
        fully_shard(model, mesh=mesh)
        if options:
            model = numcheck_torch.instrument(model, **options)
        return model, getattr(model, "numcheck", None)
    return DistributedDataParallel(model), None


def train(model: nn.Module, bad_rank: int, fault: str) -> None:
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    rank = distributed.get_rank()
    data = torch.Generator().manual_seed(rank)
    for step in range(STEPS):
        optimizer.zero_grad()
        loss = model(torch.randn(8, 4, generator=data)).square().mean()
        if step == 2 and rank == bad_rank:
            # Finite with NaN gradients, or infinite with finite gradients.
            loss = loss + ((loss - loss).sqrt() if fault == "nan" else torch.inf)
        if step == 2 and fault == "large":
            # On every rank finite gradients that float16 cannot hold.
            loss = loss * 1e8
        loss.backward()
        optimizer.step()


def digest(model: nn.Module) -> str:
    parts = [getattr(p, "_local_tensor", p).detach() for p in model.parameters()]
    return hashlib.sha256(b"".join(p.numpy().tobytes() for p in parts)).hexdigest()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--order", required=True)
    parser.add_argument("--bad-rank", type=int, default=-1)
    parser.add_argument("--fault", default="nan")
    parser.add_argument("--kind", default="plain")
    parser.add_argument("--options", type=json.loads, default={})
    given = parser.parse_args()
    distributed.init_process_group("gloo")
    said: dict[str, Any] = {"rank": distributed.get_rank(), "raised": None}
    model, monitor = wrapped(given.order, given.options, given.kind)
    try:
        train(model, given.bad_rank, given.fault)
    except NonFiniteError as error:
        found = error.finding
        said["raised"] = [found.step, found.rank, found.site.op]
    said["digest"] = digest(model)
    if monitor is not None:
        monitor.close()
        said["findings"] = [
            [f.step, f.rank, f.severity, f.site.op] for f in monitor.findings
        ]
        said["events"] = [
            str(e.value) for e in monitor.events if e.name in ("note", "fault")
        ]
        said["skipped"] = [e.step for e in monitor.events if e.name == "skipped"]
        said["world_size"] = monitor._meta["world_size"]
    print(json.dumps(said), flush=True)  # noqa: T201 - the test reads it
    distributed.destroy_process_group()


if __name__ == "__main__":
    main()
    sys.exit(0)
