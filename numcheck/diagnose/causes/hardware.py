# SPDX-License-Identifier: Apache-2.0
"""The device computed something else than the program says."""

from __future__ import annotations

from typing import TYPE_CHECKING

from numcheck.diagnose.causes.base import explain

if TYPE_CHECKING:
    from numcheck.diagnose.causes.base import Explanation
    from numcheck.diagnose.incident import Incident
    from numcheck.diagnose.rules.base import Match
    from numcheck.diagnose.scene import Scene

__all__ = ["KernelDiffers", "MemoryOverwritten", "StreamRace", "suspected_race"]


_CONFIRM = {"npu": "launch_blocking", "cuda": "cuda_launch_blocking"}


def _advice(incident: Incident) -> tuple[str, ...]:
    confirm = _CONFIRM.get(str(incident.settings.get("device")))
    return ("wait_for_stream",) if confirm is None else (confirm, "wait_for_stream")


def suspected_race(incident: Incident) -> Explanation | None:
    """Return a race between streams where a failure on a device did not repeat.

    JAX's compiler orders its streams itself, and its compiled program may well differ
    from the program as written.
    """
    on_device = incident.settings.get("device", "cpu") != "cpu"
    is_jax = incident.settings.get("framework") == "jax"
    if is_jax or not on_device or incident.reproduced is not False:
        return None
    return explain("N652", "hardware", "possible", advice=_advice(incident))


class StreamRace:
    """Run one operator after the other, the step is healthy."""

    id = "N652"

    def explain(self, scene: Scene, broke: Match) -> Explanation | None:
        """Answer where waiting after each operator heals the step."""
        del broke
        if scene.incident.went("synchronous") != "healthy":
            return suspected_race(scene.incident)
        return explain(self.id, "hardware", "likely", advice=_advice(scene.incident))


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


class MemoryOverwritten:
    """The operands were finite when they were made, and bad when they were read."""

    id = "N655"

    def explain(self, scene: Scene, broke: Match) -> Explanation | None:
        """Answer where the operator, by what it was given, had to fail."""
        del broke
        tried = scene.incident.experiments.get("operator_on_cpu")
        if tried is None or tried.result != "failed":
            return None
        made = [o.summary for o in scene.operands if o.site is not None]
        were_finite = all(s is not None and s.is_finite for s in made)
        if not made or not were_finite or tried.fields.get("operands_finite") != 0:
            return None
        advice = (*_advice(scene.incident)[:-1], "other_writer")
        return explain(self.id, "hardware", "likely", advice=advice)
