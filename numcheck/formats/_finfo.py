# SPDX-License-Identifier: Apache-2.0
"""`finfo`: numpy's question, answered for every format and every framework."""

from __future__ import annotations

from typing import TYPE_CHECKING

from numcheck.formats._registry import get

if TYPE_CHECKING:
    from numcheck.formats._format import Format

__all__ = ["finfo"]


def finfo(x: object) -> Format:
    """Return the limits of the format of a name, dtype or array.

    The result has the attributes of `numpy.finfo` that concern values (``bits``,
    ``eps``, ``max``, ``min``, ``smallest_normal``, ``smallest_subnormal``) and those
    that numpy lacks, such as ``overflow_threshold``. Magnitudes are exact Python
    floats; ``min`` is the lowest number, as numpy has it.

    Args:
        x: a name of any framework, a dtype, a `Format`, or an array, whose values
            do not matter and which may be empty.

    Returns:
        The `Format`.

    Raises:
        UnknownFormatError: no scalar format has that name.

    Example:
        >>> import numpy as np
        >>> finfo(np.zeros(3, np.float16)).max, finfo("bf16").eps
        (65504.0, 0.0078125)
    """
    return get(x)
