# SPDX-License-Identifier: Apache-2.0
"""The program applies a function where it has no finite value."""

from __future__ import annotations

from typing import TYPE_CHECKING

from numcheck.diagnose.ancestry import ancestry
from numcheck.diagnose.causes.base import EDGES, OVERFLOWS, explain
from numcheck.diagnose.dropped import is_dropped
from numcheck.diagnose.finding import Evidence

if TYPE_CHECKING:
    from numcheck.diagnose.causes.base import Explanation
    from numcheck.diagnose.finding import Certainty
    from numcheck.diagnose.rules.base import Match
    from numcheck.diagnose.scene import Scene
    from numcheck.record.site import Site

__all__ = ["Unguarded"]

_BY_FINDING: dict[str, tuple[str, tuple[str, ...]]] = {
    "N007": ("N357", ("finite_mask",)),
    "N008": ("N358", ("write_before_read",)),
    "N104": ("N356", ("subtract_maximum", "clamp_exponent")),
    "N301": ("N351", ("log_of_softmax", "clamp_argument", "log1p")),
    "N302": ("N351", ("clamp_argument", "variance_formula")),
    "N303": ("N351", ("add_epsilon", "safe_where")),
    "N304": ("N351", ("add_epsilon", "safe_where")),
    "N305": ("N357", ("finite_mask",)),
    "N306": ("N357", ("select_not_multiply", "finite_mask")),
    "N307": ("N353", ("finite_mask", "skip_empty_rows")),
    "N309": ("N354", ("epsilon_inside", "safe_where")),
    "N310": ("N355", ("distinct_jitter", "avoid_decomposition")),
    "N311": ("N351", ("clamp_inside",)),
    "N312": ("N351", ("clamp_argument",)),
    "N313": ("N351", ("clamp_argument",)),
}
_DEFAULT = ("N359", ("rescale", "normalise_inputs"))
_REACH = 8
_NEAR = 4


class Unguarded:
    """Nothing else explains it: the formula itself has to change."""

    id = "N351"

    def explain(self, scene: Scene, broke: Match) -> Explanation | None:
        """Answer for every operator: this rule is asked last."""
        if broke.id in ("N903", "N904"):
            return None
        if broke.id == "N309" and _was_selected(scene):
            return explain("N352", "op-domain", "likely", advice=("safe_where",))
        if broke.id in EDGES | OVERFLOWS and is_dropped(scene):
            seen = Evidence("branch_dropped")
            return explain("N352", "op-domain", "likely", seen, advice=("safe_where",))
        rule, advice = _BY_FINDING.get(broke.id, _DEFAULT)
        if broke.id == "N301" and not _of_probability(scene):
            advice = ("clamp_argument", "log1p")
        if broke.id == "N301" and _of_product(scene):
            advice = ("sum_logarithms", "clamp_argument")
        if broke.id == "N311" and scene.operand(0).has_zero and scene.kind != "nan":
            advice = ("clamp_argument",)
        if broke.id == "N310" and scene.site.phase != "backward":
            rule, advice = "N351", ("regularise_matrix",)
        certainty: Certainty = "possible" if rule == "N359" else "likely"
        return explain(rule, "op-domain", certainty, advice=advice)


def _of_probability(scene: Scene) -> bool:
    """Whether the operand comes from logits: then its logarithm has its own form.

    Not so for a group without a member, however its members would be computed.
    """
    near = scene.ancestry.sites[:_REACH]
    families = [s.family for s in near]
    if "scatter" in families:
        near = near[: families.index("scatter")]
    return any(s.family in ("softmax", "sigmoid", "exp") for s in near)


def _of_product(scene: Scene) -> bool:
    """Whether the operand is a product over many factors, which underflows."""
    near = scene.ancestry.operators(("product", "cumulative"))[:1]
    return any("prod" in s.op and s in scene.ancestry.sites[:_REACH] for s in near)


def _was_selected(scene: Scene) -> bool:
    """Whether the gradient that met the pole had come through a selection.

    It meets the pole as what is divided, or as the factor of a slope that was computed
    before there was a gradient.
    """
    if _comes_from_selection(scene, scene.operand(0).site, _REACH):
        return True
    trace = scene.provenance.view.trace
    return any(
        _comes_from_selection(scene, trace.sites[parent], _NEAR)
        for child in trace.children.get(scene.site.index, ())
        if trace.sites[child].family == "mul"
        for parent in trace.sites[child].parents
        if parent != scene.site.index
    )


def _comes_from_selection(scene: Scene, site: Site | None, reach: int) -> bool:
    if site is None:
        return False
    near = ancestry(scene.provenance.view, site).sites[:reach]
    return any(s.family == "select" and s.phase == "backward" for s in near)
