# SPDX-License-Identifier: Apache-2.0
"""The arrays inside a value, by path, as NumPy arrays.

Frameworks are not imported: see `numcheck.formats` for what counts as an array.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from numcheck.errors import ArgumentTypeError
from numcheck.formats._foreign import to_numpy

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

__all__ = ["array_of", "arrays"]


def arrays(value: object, path: str = "") -> Iterator[tuple[str, npt.NDArray[Any]]]:
    """Yield (path, array) for every array in `value`, depth first.

    Containers are mappings, sequences and dataclasses. Integer and boolean arrays are
    yielded too; None and text are passed over.
    """
    if value is None or isinstance(value, str | bytes):
        return
    if isinstance(value, dict):
        for key, held in value.items():
            yield from arrays(held, f"{path}[{key!r}]")
    elif isinstance(value, list | tuple):
        for position, held in enumerate(value):
            yield from arrays(held, f"{path}[{position}]")
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        for field in dataclasses.fields(value):
            yield from arrays(getattr(value, field.name), f"{path}.{field.name}")
    else:
        yield path, array_of(value)


def array_of(value: Any) -> npt.NDArray[Any]:  # noqa: ANN401 - arrays of any framework
    """Return a framework's array as a NumPy array, without changing its dtype.

    Raises:
        ArgumentTypeError: `value` is no array.
    """
    try:
        array = to_numpy(value)
    except (TypeError, ValueError, RuntimeError) as error:
        msg = f"expected arrays of numbers, got {type(value).__name__}: {error}"
        raise ArgumentTypeError(msg) from error
    if array.dtype.kind in "OSUV" and array.dtype.isbuiltin == 1:
        msg = f"expected arrays of numbers, got {type(value).__name__}"
        raise ArgumentTypeError(msg)
    return array
