import json

import numpy as np
import pytest

import maxitive


def predictions(rows=200, classes=4, seed=0):
    rng = np.random.default_rng(seed)
    logits = 2.0 * rng.standard_normal((rows, classes))
    probs = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    return probs, np.array([rng.choice(classes, p=p) for p in probs])


def evaluation(seed=0, **options):
    probs, labels = predictions(seed=seed)
    return maxitive.evaluate(probs, labels, ood={"other": predictions(seed=9)[0]}, **options)


def test_a_record_holds_the_evaluation():
    found = evaluation(curves=True)
    record = json.loads(found.record("mine", experiment="trial", dataset="d", network="n", seed=3))
    assert record["schema"] == "maxitive-run/2" and record["seed"] == 3
    (one,) = record["evaluations"]
    assert one["row"] == "mine"
    assert one["in_domain"]["accuracy"] == found.in_domain["accuracy"]
    (other,) = one["out_of_domain"]
    assert other["dataset"] == "other"
    assert other["metrics"]["auroc"] == found.out_of_domain["other"]["auroc"]
    assert len(other["curves"]["roc"]) > 2
    probs, labels = predictions()
    assert one["by_class"]["images"] == np.bincount(labels, minlength=4).tolist()
    right = np.bincount(labels[probs.argmax(1) == labels], minlength=4)
    assert one["by_class"]["right"] == right.tolist()
    # without curves the numbers are the same, and nothing is drawn
    plain = json.loads(evaluation().record("mine"))["evaluations"][0]
    assert plain["in_domain"] == one["in_domain"] and "by_class" not in plain
    assert plain["out_of_domain"][0]["curves"]["roc"] == []


def test_records_become_a_page(tmp_path):
    folder = tmp_path / "runs"
    evaluation(1, curves=True).save(folder / "first", dataset="d")
    path = evaluation(2, curves=True).save(folder / "second", "second row", dataset="d")
    assert path == folder / "second" / "record.json"
    with pytest.raises(FileExistsError, match="there is a record already"):
        evaluation(2).save(folder / "second")
    page = maxitive.report([folder, evaluation(3)], tmp_path / "new" / "page.html", title="A & B")
    text = page.read_text()
    assert text.startswith("<!doctype html>") and "A &amp; B" in text
    for row in ["first", "second row", "predictions"]:
        assert row in text
    assert list(page.parent.iterdir()) == [page]
    # the same records give the same bytes
    again = maxitive.report([folder, evaluation(3)], tmp_path / "again.html", title="A & B")
    assert again.read_text() == text


def test_rows_can_be_named(tmp_path):
    rows = {"SGD": evaluation(1), "uCBOpt": evaluation(2)}
    text = maxitive.report(rows, tmp_path / "r.html", dataset="d", network="n").read_text()
    assert "SGD" in text and "uCBOpt" in text


def test_mistakes_are_named(tmp_path):
    with pytest.raises(ValueError, match="no record to report"):
        maxitive.report([], tmp_path / "r.html")
    with pytest.raises(ValueError, match="cannot be read.*No such file"):
        maxitive.report(tmp_path / "none", tmp_path / "r.html")
    with pytest.raises(ValueError, match="no record.json"):
        maxitive.report(tmp_path, tmp_path / "r.html")
    (tmp_path / "record.json").write_text('{"schema": "maxitive-run/2"}')
    with pytest.raises(ValueError, match="missing field"):
        maxitive.report(tmp_path, tmp_path / "r.html")
    assert not (tmp_path / "r.html").exists()
    probs, _ = predictions()
    with pytest.raises(ValueError, match="a record needs labels"):
        maxitive.evaluate(probs, ood={"other": probs}).record()
    with pytest.raises(ValueError, match="is a folder"):
        maxitive.report(evaluation(), tmp_path)
    with pytest.raises(ValueError, match="3 classes, but probs has 4"):
        maxitive.evaluate(probs, ood={"o": np.full((2, 3), 1 / 3)})
