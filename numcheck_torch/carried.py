# SPDX-License-Identifier: Apache-2.0
"""State that one step leaves and the next one finds: it is not looked at twice.

What an optimizer keeps is measured where it is written, at the end of a step. While
PyTorch counts no write to it since, the next step reads the very same elements.
All else is looked at again: programs change the ``.data`` of parameters and averages,
and fill batches through NumPy, which is not counted.
"""

from __future__ import annotations

import dataclasses
import weakref
from typing import TYPE_CHECKING

from numcheck.record.columns import of_extremes

if TYPE_CHECKING:
    import torch

    from numcheck.measure.summary import Summary
    from numcheck.record.site import Site
    from numcheck_torch.site_log import SiteLog

__all__ = ["Carried"]


@dataclasses.dataclass(frozen=True, slots=True)
class _Held:
    tensor: weakref.ref[torch.Tensor]
    version: int
    address: int
    summary: Summary

    def is_in(self, tensor: torch.Tensor) -> bool:
        return (
            self.tensor() is tensor
            and tensor._version == self.version
            and tensor.data_ptr() == self.address
        )


class Carried:
    """The state that steps alike hand on, by the site at which they read it.

    Args:
        log: knows which site holds a value when the step is over.
    """

    def __init__(self, log: SiteLog) -> None:
        self._log = log
        self._held: dict[int, _Held] = {}
        self._read: dict[int, weakref.ref[torch.Tensor]] = {}
        self._last: dict[int, int] = {}

    def known(self, site: Site, tensor: torch.Tensor) -> Summary | None:
        """Return the extremes of a value that is read; None where they may differ.

        Args:
            site: its site.
            tensor: the value.
        """
        is_state = site.role == "constant" and site.phase == "optimizer"
        if not is_state or tensor.is_inference():
            return None
        self._read[site.index] = weakref.ref(tensor)
        held = self._held.get(site.index)
        return held.summary if held is not None and held.is_in(tensor) else None

    def keep(self, *, is_alike: bool) -> None:
        """Note what the state is now that the step is over and read.

        Args:
            is_alike: whether the step's sites are those of the step before.
        """
        self._held.clear()
        if not is_alike:
            self._last.clear()
        for site, reference in self._read.items() if is_alike else ():
            tensor = reference()
            if tensor is None:
                continue
            if site not in self._last:
                self._last[site] = self._log.holder(tensor)
            found = self._written(self._last[site])
            if found is None or found.low is None or found.high is None:
                continue
            self._held[site] = _Held(
                reference,
                tensor._version,
                tensor.data_ptr(),
                of_extremes(found.n, found.low, found.high),
            )
        self._read.clear()

    def _written(self, site: int) -> Summary | None:
        """Return the summary of what an operator of the step wrote; None for others."""
        builder = self._log.builder
        if not 0 <= site < len(builder.sites):
            return None
        is_made = builder.sites[site].kind == "operator"
        return builder.summaries.get(site) if is_made else None
