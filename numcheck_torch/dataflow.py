# SPDX-License-Identifier: Apache-2.0
"""Which site made the value that a tensor holds now.

Autograd hands the same memory around under ever new tensor objects, so a value goes
by its memory: the storage, and the region (shape, strides, offset, dtype) it covers.
A write through one region makes every other region of that storage stale: its next
reader gets a site of its own, put together from the old value and the writes since.

Weak references keep the address of a dead storage from being given to a new one.
They are PyTorch's own objects, for a `__del__` of ours that the garbage collector calls
inside a compiled program would be taken for a part of it.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from torch.multiprocessing.reductions import StorageWeakRef

if TYPE_CHECKING:
    import torch

    from numcheck.record.site import Role

__all__ = ["Memory", "Stale"]

Region = tuple[Any, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Stale:
    """A region changed by writes through others; `sites` hold its pieces."""

    sites: tuple[int, ...]


class _Holder:
    """What is known about one storage.

    Attributes:
        size: its bytes.
        clock: number of writes so far.
        regions: site of each region, and the clock when it was noted; the first is
            the one the storage was first seen through.
        writes: (site, clock) since the last write to all of it.
    """

    __slots__ = ("clock", "regions", "size", "writes")

    def __init__(self, size: int) -> None:
        self.size = size
        self.clock = 0
        self.regions: dict[Region, tuple[int, int]] = {}
        self.writes: list[tuple[int, int]] | None = None


class Memory:
    """Maps tensors to the sites that made their values."""

    def __init__(self) -> None:
        self._holders: dict[int, _Holder] = {}
        self._names: dict[int, list[tuple[Region, str, Role]]] = {}
        self._pinned: list[StorageWeakRef] = []
        self._kept: list[torch.Tensor] = []

    def find(self, tensor: torch.Tensor) -> int | Stale | None:
        """Return the site of a tensor's value; None when its storage is unknown."""
        holder = self._holders.get(_key(tensor))
        if holder is None or not holder.regions:
            return None
        found = holder.regions.get(_region(tensor))
        if found is not None and found[1] == holder.clock:
            return found[0]
        site, since = found or next(iter(holder.regions.values()))
        later = [w for w, clock in holder.writes or () if clock > since]
        return Stale(tuple(dict.fromkeys([site, *later])))

    def set(self, tensor: torch.Tensor, site: int, *, is_write: bool) -> None:
        """Note that `site` holds the tensor's value.

        Args:
            tensor: the value.
            site: its site.
            is_write: whether the memory was changed; a new value and a view of an old
                one change nothing that others hold.
        """
        holder = self._holder(tensor)
        region = _region(tensor)
        if is_write:
            holder.clock += 1
            if tensor.numel() * tensor.element_size() >= holder.size:
                holder.regions.clear()
                holder.writes = []
            elif holder.writes is None:
                holder.writes = []
            holder.writes.append((site, holder.clock))
        holder.regions[region] = (site, holder.clock)

    def disturb(self, tensor: torch.Tensor, site: int) -> None:
        """Note that `site` goes on writing to the tensor behind the program's back."""
        holder = self._holder(tensor)
        holder.clock += 1
        holder.writes = [*(holder.writes or ()), (site, holder.clock)]

    def expect(self, tensor: torch.Tensor, op: str, role: Role) -> None:
        """Name a value whose site is made only when something reads it."""
        self._holder(tensor)
        names = self._names.setdefault(_key(tensor), [])
        names.append((_region(tensor), op, role))

    def expected(self, tensor: torch.Tensor) -> tuple[str, Role] | None:
        """Return the name given to a value, or to another part of its storage."""
        names = self._names.get(_key(tensor))
        if not names:
            return None
        region = _region(tensor)
        named = [n for n in names if n[0] == region] or names
        return named[0][1:]

    def _holder(self, tensor: torch.Tensor) -> _Holder:
        key = _key(tensor)
        holder = self._holders.get(key)
        if holder is None:
            holder = self._holders[key] = _Holder(self._pin(tensor))
        return holder

    def _pin(self, tensor: torch.Tensor) -> int:
        """Keep the storage's address from being used again; return its size."""
        try:
            storage = tensor.untyped_storage()
        except (NotImplementedError, RuntimeError):
            self._kept.append(tensor)
            return 0
        self._pinned.append(StorageWeakRef(storage))
        return storage.nbytes()


def _key(tensor: torch.Tensor) -> int:
    try:
        return int(tensor.untyped_storage()._cdata)
    except (NotImplementedError, RuntimeError):
        return id(tensor)  # sparse and other tensors without a storage


def _region(tensor: torch.Tensor) -> Region:
    try:
        return tensor.shape, tensor.stride(), tensor.storage_offset(), tensor.dtype
    except (NotImplementedError, RuntimeError):
        return tensor.shape, tensor.dtype
