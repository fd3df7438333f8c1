# SPDX-License-Identifier: Apache-2.0
"""The checks of data on the batch of every step, where the user asked for them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from numcheck_jax.capture import Call
    from numcheck_jax.roles import Roles

__all__ = ["batch_of"]


def batch_of(call: Call, roles: Roles) -> dict[str, NDArray[Any]]:
    """Return a call's inputs and targets on the host, by name.

    What was donated, or lies on another process's devices, is left out.
    """
    return {
        call.names[i]: np.asarray(call.leaves[i])
        for i, role in roles.sources.items()
        if role in ("input", "target") and _is_at_hand(call.leaves[i])
    }


def _is_at_hand(leaf: Any) -> bool:
    if isinstance(leaf, jax.Array) and (
        leaf.is_deleted() or not leaf.is_fully_addressable
    ):
        return False
    dtype = getattr(leaf, "dtype", None)
    if dtype is None or not np.ndim(leaf):
        return False
    return not jnp.issubdtype(dtype, jax.dtypes.extended)
