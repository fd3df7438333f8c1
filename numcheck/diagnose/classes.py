# SPDX-License-Identifier: Apache-2.0
"""How many classes a step's labels choose from, as its data flow tells."""

from __future__ import annotations

from typing import TYPE_CHECKING

from numcheck.diagnose.ancestry import ancestry
from numcheck.diagnose.health import is_floating

if TYPE_CHECKING:
    from numcheck.record.site import Site
    from numcheck.record.trace import StepView

__all__ = ["classes_of"]


def classes_of(view: StepView) -> int | None:
    """Return the number of classes; None where no label chooses among computed values.

    A label either picks its class from the scores (a gather along their last axis), or
    is held against all class numbers (a one-hot vector). A row picked from a table of
    parameters is an embedding, not a class.
    """
    labels = [s for s in view.trace.sites if _is_label(s)]
    if not labels:
        return None
    for site in view.trace.sites:
        if site.phase != "forward" or site.kind != "operator":
            continue
        found = _picked(view, site) or _one_hot(view, site, labels)
        if found is not None:
            return found
    return None


def _is_label(site: Site) -> bool:
    is_given = site.kind == "source" and site.role in ("input", "target")
    return is_given and site.dtype.startswith(("int", "uint"))


def _picked(view: StepView, site: Site) -> int | None:
    """Return the classes that an operator picks from by label."""
    parents = list(view.parents(site))
    if site.family != "gather" or len(parents) < 2:
        return None
    scores, index = parents[0], parents[1]
    is_computed = scores.kind == "operator" and is_floating(scores.dtype)
    behind = ancestry(view, scores)
    # One entry of each row is left of the scores: a class was picked, not a row.
    one_each = site.shape in (scores.shape[:-1], (*scores.shape[:-1], 1))
    if not (is_computed and behind.is_learned and one_each and len(scores.shape) > 1):
        return None
    by_label = any(_is_label(s) for s in ancestry(view, index).sites)
    return scores.shape[-1] if by_label else None


def _one_hot(view: StepView, site: Site, labels: list[Site]) -> int | None:
    """Return the classes where all their numbers are listed and flags made of them."""
    numbered = site.family == "fill" and site.dtype.startswith(("int", "uint"))
    if not numbered or not site.shape or set(site.shape[:-1]) - {1}:
        return None
    count = site.shape[-1]
    vectors = {(*label.shape, count) for label in labels if label.shape}
    later = view.trace.sites[site.index + 1 :]
    flagged = any(s.effect == "cast" and s.shape in vectors for s in later)
    return count if flagged and count > 1 else None
