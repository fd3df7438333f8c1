# SPDX-License-Identifier: Apache-2.0
"""The device computed something else than the program says."""

from __future__ import annotations

from typing import TYPE_CHECKING

from numcheck.diagnose.causes.base import explain

if TYPE_CHECKING:
    from numcheck.diagnose.causes.base import Explanation
    from numcheck.diagnose.rules.base import Match
    from numcheck.diagnose.scene import Scene

__all__ = ["KernelDiffers", "StreamRace"]


class StreamRace:
    """Run one operator after the other, the step is healthy."""

    id = "N652"

    def explain(self, scene: Scene, broke: Match) -> Explanation | None:
        """Answer where waiting after each operator heals the step."""
        del broke
        incident = scene.incident
        advice = ("launch_blocking", "wait_for_stream")
        if incident.went("synchronous") == "healthy":
            return explain(self.id, "hardware", "likely", advice=advice)
        on_device = incident.settings.get("device", "cpu") != "cpu"
        if incident.reproduced is False and on_device:
            return explain(self.id, "hardware", "possible", advice=advice)
        return None


class KernelDiffers:
    """The same operator on the same operands is finite on the CPU."""

    id = "N653"

    def explain(self, scene: Scene, broke: Match) -> Explanation | None:
        """Answer where the CPU gives another result than the device."""
        del broke
        if scene.incident.went("operator_on_cpu") != "healthy":
            return None
        advice = ("other_kernel", "self_test")
        return explain(self.id, "hardware", "likely", advice=advice)
