# SPDX-License-Identifier: Apache-2.0
"""Which primitive has which rule; all others have the default one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from numcheck_jax.interpreter.rules.branches import taken_branch
from numcheck_jax.interpreter.rules.calls import inline
from numcheck_jax.interpreter.rules.loops import scan, while_loop
from numcheck_jax.interpreter.rules.staged_branches import switch
from numcheck_jax.interpreter.rules.staged_calls import inline_sharded, remat
from numcheck_jax.interpreter.rules.staged_loops import scan_merged, while_merged

if TYPE_CHECKING:
    from numcheck_jax.interpreter.tape import Rule

__all__ = ["CONCRETE", "STAGED"]

_CALLS: Final = (
    "closed_call",
    "core_call",
    "custom_jvp_call",
    "custom_vjp_call",
    "custom_vjp_call_jaxpr",
)
_JITS: Final = ("jit", "pjit")
_REMATS: Final = ("checkpoint", "remat", "remat2")

CONCRETE: Final[dict[str, Rule]] = {
    **dict.fromkeys((*_CALLS, *_JITS, *_REMATS), inline),
    "cond": taken_branch,
    "scan": scan,
    "while": while_loop,
}
"""Rules for a run on concrete values."""

STAGED: Final[dict[str, Rule]] = {
    **dict.fromkeys(_CALLS, inline),
    **dict.fromkeys(_JITS, inline_sharded),
    **dict.fromkeys(_REMATS, remat),
    "cond": switch,
    "scan": scan_merged,
    "while": while_merged,
}
"""Rules for a run that is being compiled, on a `StagedTape`."""
