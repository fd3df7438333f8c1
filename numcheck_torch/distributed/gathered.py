# SPDX-License-Identifier: Apache-2.0
"""A fully sharded model (FSDP2) with all of its parameters at hand in every process.

They are gathered once, by all processes together. From then on its own hooks find
nothing to gather, and are told to average nothing, so that each process runs alone.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import torch

from numcheck.record.notice import notice
from numcheck_torch.distributed.sharding import has_unreduced, sharded_modules
from numcheck_torch.sentinel import local

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

__all__ = ["Gathered"]

_SPARE: Final = 2.0
"""Memory that must be free for each byte that is gathered: a replay measures too."""
_SETTINGS: Final = (
    "reduce_grads",
    "all_reduce_grads",
    "reshard_after_backward",
    "post_forward_mesh_info",
)
_GIB: Final = 2**30


class Gathered:
    """The parameters of a fully sharded model, whole.

    Args:
        model: made by ``fully_shard``; between steps.
    """

    def __init__(self, model: torch.nn.Module) -> None:
        self.names = {id(p): n for n, p in model.named_parameters()}
        self._modules = sharded_modules(model)
        states = {id(s): s for s in map(_state, self._modules)}
        self._states: list[Any] = list(states.values())
        self._groups = [g for s in self._states for g in s._fsdp_param_groups]
        self._were_whole = [g.is_unsharded for g in self._groups]
        self._held = [p for g in self._groups for p in g.fsdp_params]
        self._is_shown = False

    @staticmethod
    def why_not(model: torch.nn.Module) -> str:
        """Return why the parameters cannot be gathered now; empty when they can."""
        gathered = Gathered(model)
        held = gathered._held
        if any(map(has_unreduced, held)) or any(map(_is_busy, gathered._groups)):
            return "refusal.unreduced"
        need = sum(
            p._orig_size.numel() * (p.param_dtype or p.orig_dtype).itemsize
            for p in held
        )
        free = _free_bytes(gathered._groups[0].device) if held else 0
        if need * _SPARE > free:
            return notice(
                "refusal.too_large",
                need=f"{need * _SPARE / _GIB:.1f}",
                free=f"{free / _GIB:.1f}",
            )
        return ""

    def gather(self) -> None:
        """Gather; all processes call it at once."""
        self._unshard()
        self._show(is_whole=False)

    def _unshard(self) -> None:
        with torch.no_grad():
            for module in self._modules:
                module.unshard()

    def of_values(self, values: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        """Return the whole of other values of the parameters, gathered by all at once.

        Args:
            values: shards, by name; a parameter that is not among them is left out.
        """
        held = [(p, self.names.get(id(p.sharded_param), "")) for p in self._held]
        taken = [(p, n) for p, n in held if n in values]
        before = [p._sharded_param_data for p, _ in taken]
        self._reshard()
        try:
            for parameter, name in taken:
                other = local(values[name])
                padded = torch.zeros_like(parameter._sharded_param_data)
                padded[: other.numel()] = other.reshape(-1)
                parameter._sharded_param_data = padded
            self._unshard()
            return {n: p._unsharded_param.detach().clone() for p, n in taken}
        finally:
            for (parameter, _), data in zip(taken, before, strict=True):
                parameter._sharded_param_data = data
            self._reshard()
            self._unshard()
            self._show(is_whole=self._is_shown)

    def release(self) -> None:
        """Let go of what was gathered."""
        self._show(is_whole=True)
        self._reshard()

    def _reshard(self) -> None:
        whole = {
            id(g): was for g, was in zip(self._groups, self._were_whole, strict=True)
        }
        for module in self._modules:
            if not any(whole[id(g)] for g in _state(module)._fsdp_param_groups):
                module.reshard()

    @contextlib.contextmanager
    def shown(self) -> Iterator[None]:
        """Run a block in which the model's parameters are the whole ones."""
        if self._is_shown:
            yield
            return
        before = [_Progress(state) for state in self._states]
        kept = [[getattr(g, name) for name in _SETTINGS] for g in self._groups]
        automatic = [state._auto_reshard_after_forward for state in self._states]
        self._show(is_whole=True)
        self._is_shown = True
        try:
            for module in self._modules:
                module.set_requires_gradient_sync(False, recurse=False)
                module.set_reshard_after_backward(False, recurse=False)
                module.set_reshard_after_forward(False, recurse=False)
            yield
        finally:
            self._is_shown = False
            for progress in before:
                progress.restore()
            for group, values in zip(self._groups, kept, strict=True):
                for name, value in zip(_SETTINGS, values, strict=True):
                    setattr(group, name, value)
            for state, value in zip(self._states, automatic, strict=True):
                state._auto_reshard_after_forward = value
            self._show(is_whole=False)

    def share(self, gradients: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        """Return this process's shards of whole gradients."""
        found = {}
        for held in self._held:
            name = self.names.get(id(held.sharded_param))
            whole = None if name is None else gradients.get(name)
            if name is not None and type(whole) is torch.Tensor:
                found[name] = _shard(whole, held)
        return found

    def reduce_dtypes(self) -> dict[str, torch.dtype]:
        """Return what gradients are cast to before they are averaged, by name."""
        return {
            self.names[id(held.sharded_param)]: held.reduce_dtype
            for held in self._held
            if held.reduce_dtype is not None and id(held.sharded_param) in self.names
        }

    def _show(self, *, is_whole: bool) -> None:
        """Say which parameters the modules hold; nothing is allocated or freed."""
        for group, was_whole in zip(self._groups, self._were_whole, strict=True):
            for held in group.fsdp_params:
                is_seen = is_whole or was_whole
                held._setattr_on_modules(
                    held._unsharded_param if is_seen else held.sharded_param
                )


class _Progress:
    """How far a sharded model's own bookkeeping of a step is."""

    def __init__(self, state: Any) -> None:
        self._state = state
        self._training = state._training_state
        self._root = state._state_ctx.iter_forward_root
        self._queued = state._state_ctx.post_backward_final_callback_queued
        self._order = list(state._comm_ctx.post_forward_order)
        self._groups = [
            (g, g._training_state, list(g._post_forward_indices))
            for g in state._fsdp_param_groups
        ]
        self._running = set(getattr(state, "_modules_to_run_forward", ()))

    def restore(self) -> None:
        """Put it back, also after a run that was broken off."""
        state = self._state
        state._training_state = self._training
        state._state_ctx.iter_forward_root = self._root
        state._state_ctx.post_backward_final_callback_queued = self._queued
        state._comm_ctx.post_forward_order[:] = self._order
        for group, training, indices in self._groups:
            group._training_state = training
            group._post_forward_indices[:] = indices
        running = getattr(state, "_modules_to_run_forward", None)
        if running is not None:
            running.clear()
            running.update(self._running)


def _state(module: Any) -> Any:
    return module._get_fsdp_state()


def _is_busy(group: Any) -> bool:
    is_idle = group._training_state.name == "IDLE"
    return not is_idle or group._partial_reduce_output is not None


def _shard(whole: torch.Tensor, held: Any) -> torch.Tensor:
    """Return this process's part, cut as the parameter is."""
    dim = held.fsdp_placement.dim
    size = getattr(held.mesh_info, "shard_mesh_size", 1)
    rank = getattr(held.mesh_info, "shard_mesh_rank", 0)
    length = -(-whole.shape[dim] // size)
    start = min(rank * length, whole.shape[dim])
    return whole.narrow(dim, start, min(length, whole.shape[dim] - start))


def _free_bytes(device: torch.device) -> int:
    """Return the memory that one process may still take."""
    if device.type == "cpu":
        free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        with contextlib.suppress(OSError, StopIteration):
            # What only caches files can be taken as well.
            lines = Path("/proc/meminfo").read_text("ascii").splitlines()
            line = next(x for x in lines if x.startswith("MemAvailable:"))
            free = int(line.split()[1]) * 1024
        return free // int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
    module = torch.get_device_module(device)
    unused = module.memory_reserved(device) - module.memory_allocated(device)
    return int(module.mem_get_info(device)[0] + unused)
