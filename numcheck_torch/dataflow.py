# SPDX-License-Identifier: Apache-2.0
"""Which site made the value that a tensor holds now.

Autograd hands the same memory around under ever new tensor objects, so a value goes
by its memory: the storage, and the region (shape, strides, offset, dtype) it covers.
A write through one region makes every other region of that storage stale: its next
reader gets a site of its own, put together from the old value and the writes since.

What was set is written down and looked through when somebody asks: a step that goes as
the last one went asks for hardly anything.

Weak references keep the address of a dead storage from being given to a new one.
They are PyTorch's own objects, for a `__del__` of ours that the garbage collector calls
inside a compiled program would be taken for a part of it.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from torch.multiprocessing.reductions import StorageWeakRef

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    import torch

    from numcheck.record.site import Role

__all__ = ["Memory", "Stale"]


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
        self.regions: dict[int, tuple[int, int]] = {}
        self.writes: list[tuple[int, int]] | None = None


class Memory:
    """Maps tensors to the sites that made their values."""

    def __init__(self) -> None:
        self._holders: dict[int, _Holder] = {}
        self._names: dict[int, list[tuple[int, str, Role]]] = {}
        self._pinned: dict[int, StorageWeakRef] = {}
        self._sizes: dict[int, int] = {}
        self._kept: list[torch.Tensor] = []
        self._unnamed: list[Callable[[], Iterable[tuple[torch.Tensor, str, Role]]]] = []
        self._unread: list[int] = []

    def find(self, tensor: torch.Tensor) -> int | Stale | None:
        """Return the site of a tensor's value; None when its storage is unknown."""
        self._look_through()
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
        try:
            storage = tensor.untyped_storage()
            key = storage._cdata
        except (NotImplementedError, RuntimeError):
            key = self._pin(tensor)
        else:
            if key not in self._pinned:
                self._pinned[key] = StorageWeakRef(storage)
                self._sizes[key] = storage.nbytes()
        length = tensor.numel() * tensor.element_size() if is_write else -1
        # Numbers side by side: tuples by the thousand keep the garbage collector busy.
        self._unread += (key, _region(tensor), site, length)

    def _look_through(self) -> None:
        """Bring the holders up to what was set."""
        for key, region, site, written in zip(*[iter(self._unread)] * 4, strict=True):
            holder = self._holders.get(key)
            if holder is None:
                holder = self._holders[key] = _Holder(self._sizes[key])
            if written >= 0:
                holder.clock += 1
                if written >= holder.size:
                    holder.regions.clear()
                    holder.writes = []
                elif holder.writes is None:
                    holder.writes = []
                holder.writes.append((site, holder.clock))
            holder.regions[region] = (site, holder.clock)
        self._unread.clear()

    def forget(self, tensor: torch.Tensor) -> None:
        """Unlearn everything about a tensor's storage, but its name."""
        self._look_through()
        self._holders.pop(_key(tensor), None)

    def disturb(self, tensor: torch.Tensor, site: int) -> None:
        """Note that `site` goes on writing to the tensor behind the program's back."""
        self._look_through()
        holder = self._holder(tensor)
        holder.clock += 1
        holder.writes = [*(holder.writes or ()), (site, holder.clock)]

    def expect(self, tensor: torch.Tensor, op: str, role: Role) -> None:
        """Name a value whose site is made only when something reads it."""
        key = self._pin(tensor)
        self._names.setdefault(key, []).append((_region(tensor), op, role))

    def expect_later(
        self, named: Callable[[], Iterable[tuple[torch.Tensor, str, Role]]]
    ) -> None:
        """Name values by what a function returns, asked when a name is needed."""
        self._unnamed.append(named)

    def expected(self, tensor: torch.Tensor) -> tuple[str, Role] | None:
        """Return the name given to a value, or to another part of its storage."""
        for named in self._unnamed:
            for value, op, role in named():
                self.expect(value, op, role)
        self._unnamed.clear()
        names = self._names.get(_key(tensor))
        if not names:
            return None
        region = _region(tensor)
        of_region = [n for n in names if n[0] == region] or names
        return of_region[0][1:]

    def _holder(self, tensor: torch.Tensor) -> _Holder:
        key = self._pin(tensor)
        holder = self._holders.get(key)
        if holder is None:
            holder = self._holders[key] = _Holder(self._sizes[key])
        return holder

    def _pin(self, tensor: torch.Tensor) -> int:
        """Keep the storage's address from being used again, and return it."""
        key = _key(tensor)
        if key not in self._sizes:
            try:
                storage = tensor.untyped_storage()
            except (NotImplementedError, RuntimeError):
                self._kept.append(tensor)
                self._sizes[key] = 0
            else:
                self._pinned[key] = StorageWeakRef(storage)
                self._sizes[key] = storage.nbytes()
        return key


def _key(tensor: torch.Tensor) -> int:
    try:
        return int(tensor.untyped_storage()._cdata)
    except (NotImplementedError, RuntimeError):
        return id(tensor)  # sparse and other tensors without a storage


def _region(tensor: torch.Tensor) -> int:
    """Return a number that tells the regions of one storage apart."""
    try:
        return hash(
            (tensor.shape, tensor.stride(), tensor.storage_offset(), tensor.dtype)
        )
    except (NotImplementedError, RuntimeError):
        return hash((tensor.shape, tensor.dtype))
