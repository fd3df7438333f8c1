# SPDX-License-Identifier: Apache-2.0
"""Which primitive has which rule; all others have the default one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from numcheck_jax.interpreter.rules.branches import taken_branch
from numcheck_jax.interpreter.rules.calls import inline
from numcheck_jax.interpreter.rules.loops import scan, while_loop

if TYPE_CHECKING:
    from numcheck_jax.interpreter.tape import Rule

__all__ = ["CONCRETE"]

_CALLS: Final = (
    "checkpoint closed_call core_call custom_jvp_call custom_vjp_call "
    "custom_vjp_call_jaxpr jit pjit remat remat2"
)

CONCRETE: Final[dict[str, Rule]] = {
    **dict.fromkeys(_CALLS.split(), inline),
    "cond": taken_branch,
    "scan": scan,
    "while": while_loop,
}
"""Rules for a run on concrete values."""
