# SPDX-License-Identifier: Apache-2.0
"""The Trainer of transformers, watched by its callback."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import torch

from numcheck.errors import NonFiniteError

if TYPE_CHECKING:
    from pathlib import Path

transformers = pytest.importorskip("transformers")
pytest.importorskip("accelerate")

pytestmark = pytest.mark.filterwarnings(
    "ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::UserWarning"
)


class Rows(torch.utils.data.Dataset[dict[str, torch.Tensor]]):
    def __len__(self) -> int:
        return 16

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        ids = torch.arange(8).add(index).remainder(32)
        return {"input_ids": ids, "labels": ids}


def trained(folder: Path, *callbacks: Any, scale: float = 1.0) -> Any:
    torch.manual_seed(0)
    config = transformers.GPT2Config(
        n_layer=1, n_head=2, n_embd=16, vocab_size=32, n_positions=8
    )
    model = transformers.GPT2LMHeadModel(config)
    with torch.no_grad():
        model.transformer.h[0].mlp.c_fc.weight.mul_(scale)
        model.transformer.h[0].mlp.c_proj.weight.mul_(scale**2)
    arguments = transformers.TrainingArguments(
        output_dir=str(folder),
        max_steps=4,
        per_device_train_batch_size=4,
        report_to=[],
        save_strategy="no",
        logging_strategy="no",
        disable_tqdm=True,
        use_cpu=True,
        seed=3,
    )
    trainer = transformers.Trainer(
        model, arguments, train_dataset=Rows(), callbacks=list(callbacks)
    )
    trainer.train()
    return model


def test_a_healthy_training_has_no_finding_and_the_same_weights(tmp_path: Path) -> None:
    from numcheck_torch.integrations.transformers import NumcheckCallback

    alone = trained(tmp_path).state_dict()
    callback = NumcheckCallback()
    watched = trained(tmp_path, callback).state_dict()
    assert all(torch.equal(alone[name], watched[name]) for name in alone)
    assert callback.monitor is not None
    assert callback.monitor.step == 4
    assert callback.monitor.findings == ()


def test_a_model_that_overflows_stops_the_trainer_and_names_its_layer(
    tmp_path: Path,
) -> None:
    from numcheck_torch.integrations.transformers import NumcheckCallback

    with pytest.raises(NonFiniteError) as caught:
        trained(tmp_path, NumcheckCallback(), scale=1e14)
    assert caught.value.finding.step == 0
    assert caught.value.finding.site.scope == "transformer.h.0.mlp.c_proj"
