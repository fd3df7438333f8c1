# SPDX-License-Identifier: Apache-2.0
"""Images left in 0 … 255."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numcheck.datacheck.problem import Problem
    from numcheck.datacheck.settings import Settings
    from numcheck.datacheck.subject import Subject

__all__ = ["is_pixels", "pixels"]

_BRIGHT = 128
_FLAT = 64  # columns of a row that may be a flattened image


def is_pixels(subject: Subject) -> bool:
    """Whether an array holds whole numbers of 0 … 255 in the shape of images."""
    columns, shape = subject.columns, subject.shape
    is_image = len(shape) >= 3 or (len(shape) == 2 and shape[1] >= _FLAT)
    if subject.role != "feature" or not is_image:
        return False
    if not (columns.is_whole.all() and (columns.finite == columns.n).all()):
        return False
    if not subject.is_floating and subject.dtype.name != "uint8":
        return False
    return bool(columns.low.min() >= 0 and _BRIGHT <= columns.high.max() <= 255)


def pixels(subject: Subject, settings: Settings) -> Iterator[Problem]:
    """Answer for images; as bytes they only have to be scaled after loading."""
    del settings
    if is_pixels(subject):
        yield subject.problem(
            "N017",
            "warning" if subject.is_floating else "note",
            "data_pixels",
            high=float(subject.columns.high.max()),
            dtype=subject.dtype.name,
        )
