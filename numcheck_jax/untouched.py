# SPDX-License-Identifier: Apache-2.0
"""Objects of the user's that a function may write to while it is traced."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

__all__ = ["untouched"]

_PLAIN = (bool, bytes, complex, float, int, str, type, type(None))


@contextlib.contextmanager
def untouched(objects: Iterable[Any]) -> Iterator[None]:
    """Give objects their attributes back after the block.

    A step that keeps something on its trainer (``self.last_loss = loss``) would
    otherwise keep a tracer there.

    >>> class Trainer:
    ...     pass
    >>> trainer = Trainer()
    >>> with untouched([trainer, 3]):
    ...     trainer.loss = 1.0
    >>> vars(trainer)
    {}
    """
    held = [(x, dict(vars(x))) for x in objects if _can_be_written(x)]
    try:
        yield
    finally:
        for x, attributes in held:
            vars(x).clear()
            vars(x).update(attributes)


def _can_be_written(x: Any) -> bool:
    return not isinstance(x, _PLAIN) and isinstance(getattr(x, "__dict__", None), dict)
