# SPDX-License-Identifier: Apache-2.0
"""What is known of the data beside the data, and what an array is for."""

from __future__ import annotations

import dataclasses
import re
from typing import TYPE_CHECKING, Any, Final, Literal

if TYPE_CHECKING:
    import numpy as np

__all__ = ["Role", "Settings", "role_of"]

Role = Literal["feature", "label", "mask", "count", "group"]

_LABELS: Final = {"label", "labels", "target", "targets", "tgt", "y"}
_COUNTS: Final = {"count", "counts", "length", "lengths", "lens", "sizes"}
_GROUPS: Final = {"group", "groups", "segment", "segments", "cluster", "clusters"}


@dataclasses.dataclass(frozen=True, slots=True)
class Settings:
    """What is known of the data beside the data.

    Attributes:
        dtype: format that the model computes in, such as ``float16``; None where it
            is not known.
        classes: number of classes; None where it is not known.
        labels: names of arrays (or columns) that hold labels. Others are recognised
            by their names, when they hold integers.
        ignore_index: label of elements that the loss leaves out.
    """

    dtype: str | None = None
    classes: int | None = None
    labels: tuple[str, ...] = ()
    ignore_index: int = -100


def role_of(name: str, dtype: np.dtype[Any], settings: Settings) -> Role:
    """Return what an array is for, as far as its name and dtype tell.

    Example:
        >>> import numpy as np
        >>> integers, floats = np.dtype(np.int64), np.dtype(np.float32)
        >>> role_of("batch['labels']", integers, Settings())
        'label'
        >>> (
        ...     role_of("labels", floats, Settings()),
        ...     role_of("pad_mask", floats, Settings()),
        ... )
        ('feature', 'mask')
    """
    if name in settings.labels:
        return "label"
    words = set(re.findall("[a-z]+", name.lower()))
    if "mask" in words:
        return "mask"
    if dtype.kind not in "iu":
        return "feature"
    roles: tuple[tuple[Role, set[str]], ...] = (
        ("label", _LABELS),
        ("count", _COUNTS),
        ("group", _GROUPS),
    )
    return next((role for role, known in roles if words & known), "feature")
