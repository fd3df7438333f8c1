# SPDX-License-Identifier: Apache-2.0
"""One process of several that train models; started by the tests, not collected.

Prints a line of JSON for each scenario it was given: what this rank's training came to.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import hashlib
import json
import sys
from typing import TYPE_CHECKING, Any

import torch
from torch import distributed
from torch.distributed.optim import ZeroRedundancyOptimizer

from numcheck.errors import NonFiniteError
from numcheck_torch.bench import Bench
from numcheck_torch.distributed import company, gathered, patience
from tests.torch.distributed import networks

if TYPE_CHECKING:
    from collections.abc import Iterator

STEPS = 4
BAD_STEP = 2


def train(model: Any, given: dict[str, Any]) -> None:
    optimizer: Any = torch.optim.AdamW(model.parameters(), lr=0.01)
    if given.get("model") == "redundant":
        kind = torch.optim.AdamW
        optimizer = ZeroRedundancyOptimizer(model.parameters(), kind, lr=0.01)
    # Ranks of a tensor-parallel model see the same samples, others see their own.
    own = distributed.get_rank()
    data = torch.Generator().manual_seed(0 if given.get("model") == "parallel" else own)
    bad_ranks = given.get("bad", [])
    for step in range(STEPS):
        fault = given.get("fault") if step == BAD_STEP and own in bad_ranks else None
        optimizer.zero_grad()
        for part in range(given.get("parts", 1)):
            last = part == given.get("parts", 1) - 1
            if hasattr(model, "set_requires_gradient_sync"):
                model.set_requires_gradient_sync(last)
            batch = torch.randn(8, 4, generator=data)
            loss = loss_of(model, batch, fault if part == 0 else None)
            if given.get("skips") and not all_finite(loss):
                break
            loss.backward()
        else:
            if fault == "optimizer":
                for group in optimizer.param_groups:
                    group.update(betas=(0.9, 0.0), eps=0.0)
            optimizer.step()


def loss_of(model: Any, batch: torch.Tensor, fault: str | None) -> torch.Tensor:
    if fault == "forward":
        batch[3] = torch.inf
    loss: torch.Tensor = model(batch).float()
    if fault == "loss":
        return torch.log(-loss.square().mean())
    loss = loss.square().mean()
    if fault == "backward":
        return loss + (loss - loss.detach()).abs().sqrt()
    if fault == "infinite":
        # Infinite with finite gradients.
        return loss + torch.inf
    if fault == "optimizer":
        return loss * 0
    # Finite gradients that float16 cannot hold.
    return loss * 1e8 if fault == "large" else loss


def all_finite(loss: torch.Tensor) -> bool:
    word = torch.tensor(float(torch.isfinite(loss)))
    distributed.all_reduce(word, distributed.ReduceOp.MIN)
    return bool(word)


@contextlib.contextmanager
def hindered(given: dict[str, Any]) -> Iterator[None]:
    """Stand in for a machine without memory, and for ranks that do not come along."""
    before = gathered._free_bytes, company.Company._chosen, Bench.assist
    if given.get("hindrance") == "memory":
        gathered._free_bytes = _nothing
    if given.get("hindrance") == "calls":
        company.Company._chosen = lambda self, own: (  # type: ignore[method-assign]
            before[1](self, own)[0],
            "refusal.ranks_differ",
        )
    if given.get("hindrance") == "absence":
        Bench.assist = _stay_away  # type: ignore[method-assign]
        patience._PATIENCE = dt.timedelta(seconds=1)  # type: ignore[misc]
    try:
        yield
    finally:
        gathered._free_bytes = before[0]
        company.Company._chosen = before[1]  # type: ignore[method-assign]
        Bench.assist = before[2]  # type: ignore[method-assign]


def _nothing(device: torch.device) -> int:
    return 0


def _stay_away(self: Bench, request: company.Request) -> None:
    raise MemoryError


def digest(model: torch.nn.Module) -> str:
    parts = [getattr(p, "_local_tensor", p).detach() for p in model.parameters()]
    parts += list(model.buffers())
    values = [p.contiguous().numpy().tobytes() for p in parts]
    return hashlib.sha256(b"".join(values)).hexdigest()


def result_of(given: dict[str, Any]) -> dict[str, Any]:
    model, monitor = networks.made(given.get("model", "plain"), given.get("options"))
    said: dict[str, Any] = {"raised": None}
    try:
        train(model, given)
    except NonFiniteError as error:
        found = error.finding
        said["raised"] = [found.step, found.rank, found.site.op, found.site.phase]
        said["cause"] = None if found.cause is None else found.cause.cls
    said["digest"] = digest(model)
    said["random"] = torch.get_rng_state().sum().item()
    if monitor is not None:
        monitor.close()
        said["findings"] = [
            [f.step, f.rank, f.severity, f.site.op] for f in monitor.findings
        ]
        names = ("note", "fault")
        said["events"] = [str(e.value) for e in monitor.events if e.name in names]
        said["skipped"] = [e.step for e in monitor.events if e.name == "skipped"]
        ran = [i.experiments for i in monitor.incidents]
        said["experiments"] = {n: e.result for each in ran for n, e in each.items()}
    return said


def main() -> None:
    scenarios: dict[str, Any] = json.load(sys.stdin)
    distributed.init_process_group("gloo", timeout=dt.timedelta(seconds=60))
    for name, given in scenarios.items():
        torch.manual_seed(0)
        with hindered(given):
            said = result_of(given)
        print(json.dumps({"name": name, **said}), flush=True)  # noqa: T201 - for the test
    # A group that lost a rank cannot say goodbye.
    if not any(given.get("hindrance") == "absence" for given in scenarios.values()):
        distributed.destroy_process_group()


if __name__ == "__main__":
    main()
    sys.exit(0)
