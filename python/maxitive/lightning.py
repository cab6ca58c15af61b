"""A PyTorch Lightning callback that writes a run record.

`maxitive report` and `maxitive.report` then show the training, with its curves, beside others::

    from maxitive.lightning import RunRecorder
    recorder = RunRecorder("runs/mine", dataset="fashion-mnist", network="lenet")
    trainer = lightning.Trainer(max_epochs=10, callbacks=[recorder])
    trainer.fit(model, train, validation)
    trainer.test(model, [test, letters])

The module logs its loss and accuracy per epoch (``self.log("train_loss", ..., on_epoch=True)``; the
names can be chosen), and its ``test_step`` returns ``{"logits": ..., "labels": ...}``, or ``probs``
instead of logits. The first set that is tested is the test set; others are out-of-domain, called as
`out_of_domain` says.
"""

from __future__ import annotations

import json
import math
import os
import platform
import time
from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from . import _files, _maxitive
from .evaluation import Evaluation, evaluate

if TYPE_CHECKING:
    from lightning.pytorch import Callback
else:
    try:
        from lightning.pytorch import Callback
    except ImportError:
        from pytorch_lightning import Callback

__all__ = ["RunRecorder"]


class RunRecorder(Callback):
    """Writes `folder/record.json` when a training ends, and again when it was tested."""

    def __init__(
        self,
        folder: str | PathLike[str],
        *,
        row: str | None = None,
        experiment: str = "",
        dataset: str = "",
        network: str | None = None,
        seed: int = 0,
        config: Mapping[str, Any] | None = None,
        out_of_domain: Sequence[str] = (),
        train_loss: str = "train_loss",
        train_accuracy: str = "train_acc",
        validation_loss: str = "val_loss",
        validation_accuracy: str = "val_acc",
        overwrite: bool = False,
    ) -> None:
        super().__init__()
        self.path = Path(folder) / "record.json"
        if self.path.exists() and not overwrite:
            raise FileExistsError(f"{self.path}: there is a record already")
        self.evaluation: Evaluation | None = None
        self._names: dict[str, Any] = {
            "row": Path(folder).name if row is None else row,
            "experiment": experiment,
            "dataset": dataset,
            "network": network or "",
            "seed": seed,
        }
        self._named = network is not None
        self._config = dict(config or {})
        self._sets = list(out_of_domain)
        self._metrics = {
            "train_loss": train_loss,
            "train_accuracy": train_accuracy,
            "validation_loss": validation_loss,
            "validation_accuracy": validation_accuracy,
        }
        self._curves: list[dict[str, Any]] = []
        self._facts: dict[str, Any] = {}
        self._started = 0.0
        self._epoch_started = 0.0
        self._rate = 0.0
        self._train_s = 0.0
        self._validation_s = 0.0
        self._validation_started = 0.0
        self._test_started = 0.0
        self._test: dict[int, list[tuple[Any, Any]]] = {}

    def on_fit_start(self, trainer: Any, pl_module: Any) -> None:
        self._curves.clear()
        self._started = time.time()
        self._train_s = self._validation_s = 0.0
        if not self._named:
            self._names["network"] = type(pl_module).__name__

    def on_train_epoch_start(self, trainer: Any, pl_module: Any) -> None:
        self._epoch_started = time.perf_counter()
        # that of the epoch's first step
        self._rate = float(trainer.optimizers[0].param_groups[0]["lr"])

    def on_validation_start(self, trainer: Any, pl_module: Any) -> None:
        self._validation_started = time.perf_counter()

    def on_validation_end(self, trainer: Any, pl_module: Any) -> None:
        if not trainer.sanity_checking:
            self._validation_s += time.perf_counter() - self._validation_started

    def on_train_epoch_end(self, trainer: Any, pl_module: Any) -> None:
        seconds = time.perf_counter() - self._epoch_started
        self._train_s += seconds
        logged = trainer.callback_metrics
        point: dict[str, Any] = {"epoch": trainer.current_epoch, "lr": self._rate}
        for field, name in self._metrics.items():
            if name in logged:
                point[field] = _number(field, float(logged[name]))
            elif field.startswith("validation"):
                point[field] = None
            else:
                known = ", ".join(sorted(map(str, logged))) or "nothing"
                raise ValueError(
                    f'{field}: the module did not log "{name}" for this epoch, but {known}; '
                    f"log it with on_epoch=True, or say what it is called: {field}=..."
                )
        self._curves.append({**point, "seconds": seconds})

    def on_fit_end(self, trainer: Any, pl_module: Any) -> None:
        optimizer = trainer.optimizers[0]
        hyper = {
            key: value
            for key, value in optimizer.param_groups[0].items()
            if isinstance(value, (bool, int, float, str)) or value is None
        }
        device = pl_module.device
        self._facts = {
            "parameters": sum(p.numel() for p in pl_module.parameters() if p.requires_grad),
            "rule": getattr(optimizer, "_id", type(optimizer).__name__),
            "config": {
                **self._config,
                "optimizer": {"class": type(optimizer).__name__, **hyper},
                "epochs": trainer.current_epoch,
                "torch": torch.__version__,
            },
            "device": device.type,
            "precision": str(trainer.precision),
            "hardware": {
                "device": torch.cuda.get_device_name(device)
                if device.type == "cuda"
                else platform.processor() or platform.machine(),
                "cores": os.cpu_count() or 0,
                "threads": torch.get_num_threads(),
                "isa": "",
            },
        }
        self._steps = int(trainer.global_step)
        self._write(trainer, 0.0)

    def on_test_start(self, trainer: Any, pl_module: Any) -> None:
        self._test.clear()
        self._test_started = time.perf_counter()

    def on_test_batch_end(
        self,
        trainer: Any,
        pl_module: Any,
        outputs: Any,
        batch: Any,
        batch_idx: int,
        dataloader_idx: int = 0,
    ) -> None:
        if trainer.world_size > 1:
            raise RuntimeError("RunRecorder: test on one device, each sees a part of the set alone")
        if not isinstance(outputs, Mapping) or not {"logits", "probs"} & set(outputs):
            raise ValueError('test_step must return {"logits" or "probs": ..., "labels": ...}')
        if "probs" in outputs:
            probs = outputs["probs"]
        else:
            probs = torch.softmax(outputs["logits"].double(), -1)
        labels = outputs.get("labels")
        if labels is None and dataloader_idx == 0:
            raise ValueError('test_step must return "labels" for the test set')
        kept = None if labels is None else labels.detach().cpu().numpy()
        self._test.setdefault(dataloader_idx, []).append((probs.detach().cpu().numpy(), kept))

    def on_test_end(self, trainer: Any, pl_module: Any) -> None:
        sets = [self._test[index] for index in sorted(self._test)]
        if not sets:
            return
        names = self._sets or [f"set {i}" for i in range(1, len(sets))]
        if len(names) != len(sets) - 1:
            raise ValueError(
                f"out_of_domain: {len(names)} names for {len(sets) - 1} sets beside the test set"
            )
        joined = [np.concatenate([probs for probs, _ in one]) for one in sets]
        labels = np.concatenate([labels for _, labels in sets[0]])
        others = dict(zip(names, joined[1:]))
        self.evaluation = evaluate(joined[0], labels, ood=others, curves=True)
        self._write(trainer, time.perf_counter() - self._test_started)

    def _write(self, trainer: Any, seconds: float) -> None:
        if not trainer.is_global_zero:
            return
        names = {**self._names}
        if self.evaluation is None:
            text = _maxitive.record_of_predictions(None, [], json.dumps(names), "{}")
        else:
            row = names.pop("row")
            text = self.evaluation.record(row, **names)
        record = json.loads(text)
        # the sum is that of the record without what follows
        del record["sha256"]
        evaluated = record["config"]
        record.update(self._facts)
        record["config"] = {**record["config"], **evaluated}
        record["curves"] = self._curves
        record["timings"].update(
            started_unix=int(self._started),
            train_s=self._train_s - self._validation_s,
            validation_s=self._validation_s,
            evaluation_s=seconds,
            steps=getattr(self, "_steps", 0),
        )
        for evaluation in record["evaluations"]:
            evaluation["predictive"] = "point"
            evaluation["epoch"] = max(0, len(self._curves) - 1)
            evaluation["seconds"] = seconds
        _files.write(self.path, _maxitive.checked_record(json.dumps(record)))


def _number(field: str, value: float) -> float | str:
    """A number as records write it."""
    if math.isnan(value):
        raise ValueError(f"{field}: the module logged NaN")
    return value if math.isfinite(value) else ("inf" if value > 0 else "-inf")
