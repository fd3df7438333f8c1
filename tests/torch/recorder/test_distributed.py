# SPDX-License-Identifier: Apache-2.0
"""Distributed tensors are recorded by their local parts, collectives after the wait."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed._functional_collectives import all_reduce
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import Shard, distribute_tensor, init_device_mesh
from torch.testing._internal.distributed.fake_pg import FakeStore

from numcheck.record import TraceBuilder
from numcheck_torch.recorder import Recorder

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning:torch")


@pytest.fixture
def mesh() -> Iterator[Any]:
    """Two ranks of which only this one exists; collectives move nothing."""
    dist.init_process_group("fake", rank=0, world_size=2, store=FakeStore())
    yield init_device_mesh("cpu", (2,))
    dist.destroy_process_group()


def test_a_sharded_tensor_is_recorded_by_its_local_part(mesh: Any) -> None:
    x = distribute_tensor(torch.ones(4, 3), mesh, [Shard(0)])
    builder = TraceBuilder(0)
    with Recorder(builder) as recorder:
        recorder.source(x, "input:x", "input")
        y = (x * 2).exp()
        kept = recorder.keep(y, "output:y", "output")
    recorder.finish()
    operators = [s for s in builder.sites if s.kind == "operator"]
    assert [(s.op, s.shape) for s in operators] == [
        ("aten.mul.Tensor", (2, 3)),
        ("aten.exp.default", (2, 3)),
    ]
    assert operators[0].parents == (0,)
    assert builder.sites[kept].parents == (operators[1].index,)
    assert builder.summaries[kept].n == 6


@pytest.mark.parametrize("measure", ["full", "extremes"])
@pytest.mark.parametrize("shadow", [None, "float32"])
def test_a_fully_sharded_step_leads_from_its_gradients_to_its_parameters(
    mesh: Any, measure: Any, shadow: Any
) -> None:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2)).bfloat16()
    fully_shard(net, mesh=mesh)
    optimizer = torch.optim.AdamW(net.parameters())
    builder = TraceBuilder(0)
    recorder = Recorder(builder, modules=net, measure=measure, shadow=shadow)
    with recorder:
        net(torch.randn(3, 4).bfloat16()).square().sum().backward()
        gradient: Any = next(iter(net.parameters())).grad
        kept = recorder.keep(gradient, "gradient:0.weight", "gradient")
        with recorder.phase("optimizer"):
            optimizer.step()
    recorder.finish()
    seen, waiting = set(), [kept]
    while waiting:
        site = builder.sites[waiting.pop()]
        if site.index not in seen:
            seen.add(site.index)
            waiting.extend(site.parents)
    assert "parameter:2.weight" in {builder.sites[i].op for i in seen}
    assert {"collective"} <= {s.family for s in builder.sites}


def test_a_collective_in_place_is_measured_by_its_next_reader(mesh: Any) -> None:
    builder = TraceBuilder(0)
    with Recorder(builder) as recorder:
        x = torch.ones(3)
        work = dist.all_reduce(x, async_op=True)
        assert work is not None
        work.wait()
        y = x + 1
        recorder.keep(y, "output:y", "output")
    recorder.finish()
    under_way, arrived = [s for s in builder.sites if s.family == "collective"]
    assert under_way.index not in builder.summaries
    (add,) = [s for s in builder.sites if s.op == "aten.add.Tensor"]
    assert add.parents == (arrived.index,)
    assert arrived.parents == (under_way.index,)
    assert arrived.op == "c10d.allreduce_.default"
    assert builder.summaries[arrived.index].n == 3


def test_a_functional_collective_is_measured_at_its_wait(mesh: Any) -> None:
    builder = TraceBuilder(0)
    with Recorder(builder) as recorder:
        y = all_reduce(torch.ones(3), "sum", mesh.get_group()) * 2
        recorder.keep(y, "output:y", "output")
    recorder.finish()
    collectives = [s for s in builder.sites if s.family == "collective"]
    measured = [s.op for s in collectives if s.index in builder.summaries]
    assert measured == ["_c10d_functional.wait_tensor.default"]
