# SPDX-License-Identifier: Apache-2.0
"""Which primitive has which rule; all others have the default one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from numcheck_jax.interpreter.rules.branches import taken_branch
from numcheck_jax.interpreter.rules.calls import inline, inline_jitted
from numcheck_jax.interpreter.rules.effects import silenced
from numcheck_jax.interpreter.rules.loops import scan, while_loop
from numcheck_jax.interpreter.rules.refs import read, write
from numcheck_jax.interpreter.rules.shards import shard_map, staged_shard_map
from numcheck_jax.interpreter.rules.staged_branches import switch
from numcheck_jax.interpreter.rules.staged_calls import inline_sharded, remat
from numcheck_jax.interpreter.rules.staged_loops import scan_merged, while_merged

if TYPE_CHECKING:
    from numcheck_jax.interpreter.tape import Rule

__all__ = ["CONCRETE", "REPLAYED", "STAGED"]

_CALLS: Final = (
    "closed_call",
    "core_call",
    "custom_jvp_call",
    "custom_vjp_call",
    "custom_vjp_call_jaxpr",
)
_JITS: Final = ("jit", "pjit")
_REMATS: Final = ("checkpoint", "remat", "remat2")

_REFS: Final[dict[str, Rule]] = {"addupdate": write, "get": read, "swap": write}
_EFFECTS: Final = ("debug_callback", "debug_print", "io_callback")

CONCRETE: Final[dict[str, Rule]] = {
    **_REFS,
    **dict.fromkeys(_EFFECTS, silenced),
    **dict.fromkeys((*_CALLS, *_REMATS), inline),
    **dict.fromkeys(_JITS, inline_jitted),
    "cond": taken_branch,
    "scan": scan,
    "shard_map": shard_map,
    "while": while_loop,
}
"""Rules for a run on concrete values."""

STAGED: Final[dict[str, Rule]] = {
    **_REFS,
    **dict.fromkeys(_CALLS, inline),
    **dict.fromkeys(_JITS, inline_sharded),
    **dict.fromkeys(_REMATS, remat),
    "cond": switch,
    "scan": scan_merged,
    "shard_map": staged_shard_map,
    "while": while_merged,
}
"""Rules for a run that is being compiled, on a `StagedTape`."""

REPLAYED: Final[dict[str, Rule]] = {**STAGED, **dict.fromkeys(_EFFECTS, silenced)}
"""The same for parts of a step that is run a second time."""
