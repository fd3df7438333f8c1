# SPDX-License-Identifier: Apache-2.0
"""One spelling for the paths of modules and parameters, whichever framework wrote them.

``blocks.0.up.weight``, ``params['blocks_0']['up']['kernel']`` and
``blocks/0/up/kernel`` are the same place. Kernels may be transposed between
frameworks: what is compared does not depend on the order of elements.
"""

from __future__ import annotations

import re

__all__ = ["canonical", "split_candidates"]

_SEPARATORS = re.compile(r"""[./\[\]'"\s:]+""")
_NUMBERED = re.compile(r"(.*[^\d_])_?(\d+)$")
_DROPPED = frozenset({"params", "module", "_orig_mod", "value", "root", "model"})
_SAME = {
    "kernel": "weight",
    "scale": "weight",
    "gamma": "weight",
    "embedding": "weight",
    "beta": "bias",
    "mean": "running_mean",
    "var": "running_var",
}
_FUSED = (
    ({"qkv"}, ({"q", "k", "v"}, {"query", "key", "value"})),
    ({"in_proj"}, ({"q_proj", "k_proj", "v_proj"}, {"query", "key", "value"})),
    ({"gate_up_proj"}, ({"gate_proj", "up_proj"},)),
    ({"kv"}, ({"k", "v"}, {"key", "value"})),
)


def canonical(path: str) -> tuple[str, ...]:
    """Return a path as comparable parts.

    >>> canonical("params['blocks_0']['up']['kernel']")
    ('blocks', '0', 'up', 'weight')
    >>> canonical("blocks.0.up.weight")
    ('blocks', '0', 'up', 'weight')
    """
    parts: list[str] = []
    for part in filter(None, _SEPARATORS.split(path)):
        numbered = _NUMBERED.match(part)
        # `ln1` and `fc2` are names; `layers_0` and `blocks_11` are members of a list.
        split = numbered and f"_{numbered[2]}" in part
        parts += (
            [numbered[1].rstrip("_"), numbered[2]] if numbered and split else [part]
        )
    kept = [_SAME.get(p.lower(), p.lower()) for p in parts if p not in _DROPPED]
    return tuple(kept)


def split_candidates(fused: tuple[str, ...]) -> list[list[tuple[str, ...]]]:
    """Return the sets of names under which `fused` may stand split.

    >>> split_candidates(("attn", "qkv", "weight"))[0][0]
    ('attn', 'k', 'weight')
    """
    found = []
    for whole, choices in _FUSED:
        for position, part in enumerate(fused):
            if part in whole:
                head, tail = fused[:position], fused[position + 1 :]
                found += [[(*head, n, *tail) for n in sorted(c)] for c in choices]
    return found
