# SPDX-License-Identifier: Apache-2.0
"""Lightning's Trainer, watched by its callback."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from numcheck.errors import NonFiniteError

lightning = pytest.importorskip("lightning.pytorch")

pytestmark = pytest.mark.filterwarnings("ignore")


class Autoencoder(lightning.LightningModule):  # type: ignore[misc, name-defined, unused-ignore]
    def __init__(self, bad_step: int) -> None:
        super().__init__()
        self.encoder = torch.nn.Linear(4, 2)
        self.decoder = torch.nn.Linear(2, 4)
        self.bad_step = bad_step

    def training_step(self, batch: Any, index: int) -> torch.Tensor:
        (x,) = batch
        loss = (self.decoder(self.encoder(x)) - x).square().mean()
        return torch.log(loss - 1e9) if index == self.bad_step else loss

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.AdamW(self.parameters(), lr=0.01)


def trained(*callbacks: Any, bad_step: int = -1) -> Autoencoder:
    torch.manual_seed(0)
    model = Autoencoder(bad_step)
    rows = torch.utils.data.TensorDataset(torch.randn(16, 4))
    trainer = lightning.Trainer(
        accelerator="cpu",
        max_epochs=1,
        callbacks=list(callbacks),
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(model, torch.utils.data.DataLoader(rows, batch_size=4))
    return model


def test_a_healthy_training_has_no_finding_and_the_same_weights() -> None:
    from numcheck_torch.integrations.lightning import NumcheckCallback

    alone = trained().state_dict()
    callback = NumcheckCallback()
    watched = trained(callback).state_dict()
    assert all(torch.equal(alone[name], watched[name]) for name in alone)
    (monitor,) = callback.monitors
    assert monitor.step == 4
    assert monitor.findings == ()


@pytest.mark.parametrize("bad_step", [1, 3], ids=["in the middle", "last"])
def test_a_bad_training_step_stops_the_trainer(bad_step: int) -> None:
    from numcheck_torch.integrations.lightning import NumcheckCallback

    with pytest.raises(NonFiniteError) as caught:
        trained(NumcheckCallback(), bad_step=bad_step)
    assert caught.value.finding.step == bad_step
    assert caught.value.finding.site.op == "aten.log.default"
