import json
import logging
import math

import pytest

torch = pytest.importorskip("torch")
lightning = pytest.importorskip("lightning")

import maxitive
from maxitive.lightning import RunRecorder
from maxitive.torch import UCBOptAdapt

logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
pytestmark = pytest.mark.filterwarnings("ignore")


class Classifier(lightning.LightningModule):
    def __init__(self, accuracy="train_acc"):
        super().__init__()
        self.layer = torch.nn.Linear(3, 2)
        self.accuracy = accuracy

    def share(self, batch, name, accuracy):
        x, y = batch
        logits = self.layer(x)
        loss = torch.nn.functional.cross_entropy(logits, y)
        self.log(f"{name}_loss", loss, on_epoch=True, on_step=False)
        self.log(accuracy, (logits.argmax(1) == y).float().mean(), on_epoch=True, on_step=False)
        return loss

    def training_step(self, batch, index):
        return self.share(batch, "train", self.accuracy)

    def validation_step(self, batch, index):
        self.share(batch, "val", "val_acc")

    def test_step(self, batch, index, dataloader_idx=0):
        return {"logits": self.layer(batch[0]), "labels": batch[1]}

    def configure_optimizers(self):
        optimizer = UCBOptAdapt(self.parameters(), lr=2e-3)
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 3)
        return [optimizer], [schedule]


def loader(seed, rows=48):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(rows, 3, generator=generator)
    y = (x[:, 0] + 0.3 * torch.randn(rows, generator=generator) > 0).long()
    return torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, y), batch_size=16)


def trainer(folder, *callbacks):
    return lightning.Trainer(
        max_epochs=3,
        accelerator="cpu",
        devices=1,
        callbacks=list(callbacks),
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        default_root_dir=folder,
    )


def test_a_training_stands_in_the_report(tmp_path):
    torch.manual_seed(0)
    recorder = RunRecorder(
        tmp_path / "run", dataset="toy", seed=7, config={"note": "x"}, out_of_domain=["other"]
    )
    module, run = Classifier(), trainer(tmp_path, recorder)
    run.fit(module, loader(0), loader(1))
    record = json.loads((tmp_path / "run" / "record.json").read_text())
    assert record["evaluations"] == [] and len(record["curves"]) == 3
    assert record["rule"] == "ucbopt-adapt" and record["network"] == "Classifier"
    assert record["parameters"] == 8 and record["timings"]["steps"] == 9
    assert record["config"]["note"] == "x" and record["config"]["optimizer"]["gamma"] == 0.9
    rates = [point["lr"] for point in record["curves"]]
    want = [2e-3 * (1 + math.cos(math.pi * epoch / 3)) / 2 for epoch in range(3)]
    assert rates == pytest.approx(want)
    run.test(module, [loader(2), loader(3)], verbose=False)
    record = json.loads((tmp_path / "run" / "record.json").read_text())
    x, y = loader(2).dataset.tensors
    probs = torch.softmax(module.layer(x).double(), 1).detach().numpy()
    want = maxitive.evaluate(probs, y.numpy()).in_domain
    (one,) = record["evaluations"]
    assert one["row"] == "run" and one["epoch"] == 2
    assert one["in_domain"]["nll"] == pytest.approx(want["nll"], rel=1e-6)
    assert one["out_of_domain"][0]["dataset"] == "other"
    assert record["curves"][2]["validation_accuracy"] <= 1.0 and record["seed"] == 7
    page = maxitive.report(tmp_path / "run", tmp_path / "report.html").read_text()
    assert 'data-chart="training"' in page and "Classifier" in page


def test_mistakes_are_named(tmp_path):
    recorder = RunRecorder(tmp_path / "run")
    with pytest.raises(ValueError, match='did not log "train_acc".*train_right'):
        trainer(tmp_path, recorder).fit(Classifier("train_right"), loader(0))
    assert not (tmp_path / "run").exists()
    recorder = RunRecorder(tmp_path / "run", train_accuracy="train_right")
    trainer(tmp_path, recorder).fit(Classifier("train_right"), loader(0))
    with pytest.raises(FileExistsError, match="there is a record already"):
        RunRecorder(tmp_path / "run")
    RunRecorder(tmp_path / "run", overwrite=True)
    run = trainer(tmp_path, RunRecorder(tmp_path / "other", out_of_domain=["a", "b"]))
    with pytest.raises(ValueError, match="2 names for 1 sets"):
        run.test(Classifier(), [loader(2), loader(3)], verbose=False)
