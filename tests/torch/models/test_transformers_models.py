# SPDX-License-Identifier: Apache-2.0
"""Small random models of transformers: healthy ones stay silent, broken ones explain.

A model is broken by one weight that is too large for its format; the layer it sits in
is what the finding must name.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch

from numcheck_torch import instrument

transformers = pytest.importorskip("transformers")

pytestmark = pytest.mark.filterwarnings("ignore")

VOCABULARY, LENGTH, BATCH = 64, 8, 2


def gpt2() -> Any:
    config = transformers.GPT2Config(
        n_layer=1, n_head=2, n_embd=16, vocab_size=VOCABULARY, n_positions=LENGTH
    )
    return transformers.GPT2LMHeadModel(config)


def llama() -> Any:
    config = transformers.LlamaConfig(
        num_hidden_layers=1,
        num_attention_heads=2,
        num_key_value_heads=2,
        hidden_size=16,
        intermediate_size=32,
        vocab_size=VOCABULARY,
        max_position_embeddings=LENGTH,
    )
    return transformers.LlamaForCausalLM(config)


def t5() -> Any:
    config = transformers.T5Config(
        num_layers=1,
        num_heads=2,
        d_model=16,
        d_kv=8,
        d_ff=32,
        vocab_size=VOCABULARY,
        decoder_start_token_id=0,
    )
    return transformers.T5ForConditionalGeneration(config)


def bert() -> Any:
    config = transformers.BertConfig(
        num_hidden_layers=1,
        num_attention_heads=2,
        hidden_size=16,
        intermediate_size=32,
        vocab_size=VOCABULARY,
        max_position_embeddings=LENGTH,
    )
    return transformers.BertForMaskedLM(config)


MODELS = {"gpt2": gpt2, "llama": llama, "t5": t5, "bert": bert}

LAYERS = {
    "gpt2": "transformer.h.0.mlp.c_fc",
    "llama": "model.layers.0.mlp.up_proj",
    "t5": "encoder.block.0.layer.1.DenseReluDense.wi",
    "bert": "bert.encoder.layer.0.intermediate.dense",
}


# Weights as they are, and the format of autocast.
WAYS = {
    "float32": (torch.float32, None),
    "float16 autocast": (torch.float32, torch.float16),
    "bfloat16 autocast": (torch.float32, torch.bfloat16),
    "pure float16": (torch.float16, None),
    "pure bfloat16": (torch.bfloat16, None),
}


def built(name: str, way: str) -> Any:
    torch.manual_seed(0)
    return MODELS[name]().to(WAYS[way][0])


def train(model: Any, way: str, steps: int, **options: Any) -> Any:
    """Trains as users do, and returns the monitor."""
    low = WAYS[way][1]
    model = instrument(model.train(), on_error="record", **options)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    data = torch.Generator().manual_seed(1)
    for _ in range(steps):
        ids = torch.randint(1, VOCABULARY, (BATCH, LENGTH), generator=data)
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=low, enabled=low is not None):
            loss = model(input_ids=ids, labels=ids).loss
        loss.backward()
        optimizer.step()
    monitor = model.numcheck
    monitor.close()
    return monitor


@pytest.mark.parametrize("way", [w for w in WAYS if w != "pure float16"])
@pytest.mark.parametrize("name", MODELS)
def test_a_healthy_model_gives_no_finding_in_200_steps(name: str, way: str) -> None:
    monitor = train(built(name, way), way, 200, every=100)
    assert monitor.step == 200
    assert [f for f in monitor.findings if f.severity != "note"] == []


@pytest.mark.parametrize("way", [w for w in WAYS if w != "float32"])
@pytest.mark.parametrize("name", MODELS)
def test_weights_too_large_for_their_sum_are_found_in_their_layer(
    name: str, way: str
) -> None:
    model = built(name, way)
    weight = model.get_submodule(LAYERS[name]).weight
    is_half = torch.float16 in WAYS[way]
    with torch.no_grad():
        # Each is finite, and so is its product; their sum is not.
        weight.copy_((torch.rand(weight.shape) * 2 - 1) * (6e4 if is_half else 3e38))
    monitor = train(model, way, 1)
    errors = [f for f in monitor.findings if f.severity == "error"]
    first = errors[0]
    assert (first.site.scope, first.phase, first.step) == (LAYERS[name], "forward", 0)
    assert first.id == "N102"
    assert first.site.op in ("aten.mm.default", "aten.addmm.default")
    assert first.site.dtype == ("float16" if is_half else "bfloat16")
    assert first.cause is not None
    # A wider format helps float16; what is too large for bfloat16 is for float32 too.
    expected = ("precision", "N151") if is_half else ("dynamics", "N754")
    assert (first.cause.cls, first.cause.rule) == expected
