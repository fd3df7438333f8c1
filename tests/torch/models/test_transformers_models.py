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


def train(model: Any, dtype: torch.dtype, steps: int, **options: Any) -> Any:
    """Trains under autocast, as users do, and returns the monitor."""
    model = instrument(model.train(), **options)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    data = torch.Generator().manual_seed(1)
    for _ in range(steps):
        ids = torch.randint(1, VOCABULARY, (BATCH, LENGTH), generator=data)
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=dtype):
            loss = model(input_ids=ids, labels=ids).loss
        loss.backward()
        optimizer.step()
    monitor = model.numcheck
    monitor.close()
    return monitor


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("name", MODELS)
def test_a_healthy_model_gives_no_error(name: str, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    monitor = train(MODELS[name](), dtype, 20, on_error="record")
    assert monitor.step == 20
    assert not [f for f in monitor.findings if f.severity != "note"]


@pytest.mark.parametrize("name", MODELS)
def test_a_weight_too_large_is_found_in_its_layer(name: str) -> None:
    torch.manual_seed(0)
    model = MODELS[name]()
    layer = model.get_submodule(LAYERS[name])
    with torch.no_grad():
        layer.weight.fill_(3e4)
        # The input is normalised, so its sum needs a direction of its own.
        layer.weight.copy_(layer.weight * torch.randn(layer.weight.shape))
    monitor = train(model, torch.float16, 1, on_error="record")
    errors = [f for f in monitor.findings if f.severity == "error"]
    assert errors
    first = errors[0]
    assert (first.site.scope, first.phase, first.step) == (LAYERS[name], "forward", 0)
    assert first.id.startswith("N1")
    assert first.site.dtype == "float16"
