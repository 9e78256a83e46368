"""Supervised training learns exactly the rows it is given, and leaves a whole model or nothing."""

from __future__ import annotations

import json
import shutil
from types import SimpleNamespace
from typing import Any, cast

import anyio
import pytest
import torch

from harness.files import StorageError
from tests.training.students import routing, tiny_model, tiny_tokenizer
from training.chat import ChatML
from training.demonstrations import demonstrate
from training.errors import SettingsError
from training.ledger import IGNORED, SftRow
from training.models import load_model
from training.sft import LedgerTrainer, SftSettings, train_sft

TOKENIZER = tiny_tokenizer()


@pytest.fixture(scope="module")
def rows() -> list[SftRow]:
    return anyio.run(lambda: demonstrate(routing(6), ChatML(TOKENIZER), limit=2048))


@pytest.fixture
def batches(monkeypatch) -> list[dict[str, torch.Tensor]]:
    """Every batch that the trainer computes a loss on."""
    seen: list[dict[str, torch.Tensor]] = []
    compute_loss = LedgerTrainer.compute_loss

    def note(self, model, inputs, *args, **kwargs):
        seen.append({name: tensor.clone() for name, tensor in inputs.items()})
        return compute_loss(self, model, inputs, *args, **kwargs)

    monkeypatch.setattr(LedgerTrainer, "compute_loss", note)
    return seen


def test_the_loss_falls(rows, tmp_path):
    settings = SftSettings(steps=8, batch=2, learning_rate=5e-3)
    history = train_sft(tiny_model(context=2048), TOKENIZER, rows, tmp_path / "out", settings)
    losses = [entry["loss"] for entry in history]
    assert len(losses) == 8
    assert losses[-1] < 0.7 * losses[0]


def test_the_model_is_fed_exactly_the_ids_and_labels_of_the_ledgers(rows, tmp_path, batches):
    train_sft(tiny_model(context=2048), TOKENIZER, rows, tmp_path / "out", SftSettings(steps=3, batch=2))
    fed = []
    for batch in batches:
        for ids, labels, mask in zip(batch["input_ids"], batch["labels"], batch["attention_mask"], strict=True):
            length = int(mask.sum())
            fed.append((ids[:length].tolist(), labels[:length].tolist()))
            assert not mask[length:].any()
            assert (labels[length:] == IGNORED).all()
    assert sorted(fed) == sorted((row.input_ids, row.labels) for row in rows)


def test_loss_and_gradients_are_those_of_trl_although_logits_are_computed_only_where_the_student_speaks(
    rows, tmp_path, batches, monkeypatch
):
    def first_step(name: str):
        model = tiny_model(context=2048)
        settings = SftSettings(steps=1, batch=3, learning_rate=1e-3)
        logs = train_sft(model, TOKENIZER, rows, tmp_path / name, settings)
        return logs[0]["loss"], logs[0]["grad_norm"]

    ours = first_step("ours")
    monkeypatch.delattr(LedgerTrainer, "compute_loss")
    assert first_step("trl") == pytest.approx(ours, rel=1e-5)
    padded = {
        name: torch.nn.utils.rnn.pad_sequence([b[name][0] for b in batches], batch_first=True, padding_value=fill)
        for name, fill in (("input_ids", 0), ("labels", IGNORED), ("attention_mask", 0))
    }
    model = tiny_model(context=2048)
    monkeypatch.undo()
    together = LedgerTrainer.compute_loss(cast("Any", None), model, padded)
    assert float(together.detach()) == pytest.approx(ours[0], rel=1e-5)


def test_only_the_order_depends_on_the_seed(rows, tmp_path, batches):
    def order(seed: int, name: str):
        batches.clear()
        train_sft(tiny_model(context=2048), TOKENIZER, rows, tmp_path / name, SftSettings(steps=6, batch=1, seed=seed))
        return [batch["input_ids"][0].tolist() for batch in batches]

    first, again, other = order(0, "a"), order(0, "b"), order(1, "c")
    assert first == again
    assert first != other
    assert sorted(first) == sorted(other)


def test_the_trained_model_opens_with_its_new_weights_and_a_history(rows, tmp_path, capfd):
    model = tiny_model(context=2048)
    before = model.lm_head.weight.detach().clone()
    steps: list[int] = []
    history = train_sft(
        model, TOKENIZER, rows, tmp_path / "deep" / "out", SftSettings(steps=2, learning_rate=1e-3),
        on_step=lambda step, logs: steps.append(step),
    )  # fmt: skip
    assert capfd.readouterr() == ("", "")
    assert steps == [1, 2]
    opened, tokenizer = load_model(tmp_path / "deep" / "out")
    assert torch.equal(opened.lm_head.weight, model.lm_head.weight)
    assert not torch.equal(opened.lm_head.weight, before)
    assert tokenizer.encode("a ticket") == TOKENIZER.encode("a ticket")
    assert json.loads((tmp_path / "deep" / "out" / "history.json").read_text(encoding="utf-8")) == history
    assert [path.name for path in (tmp_path / "deep").iterdir()] == ["out"]


@pytest.mark.parametrize("stop", [KeyboardInterrupt, RuntimeError])
def test_training_that_is_interrupted_leaves_nothing_behind(rows, tmp_path, stop):
    def interrupt(step: int, logs: object) -> None:
        raise stop

    with pytest.raises(stop):
        train_sft(
            tiny_model(context=2048), TOKENIZER, rows, tmp_path / "out", SftSettings(steps=2, batch=1),
            on_step=interrupt,
        )  # fmt: skip
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("spoil", "error", "message"),
    [
        (lambda out: (out / "notes").mkdir(parents=True), SettingsError, "is there already"),
        (lambda out: out.write_text("", encoding="utf-8"), SettingsError, "is there already"),
        (lambda out: None, StorageError, "cannot write"),
    ],
    ids=["a folder with something in it", "a file", "below a file"],
)
def test_a_place_that_cannot_take_the_model_is_told_before_training(rows, tmp_path, spoil, error, message):
    (tmp_path / "file").write_text("", encoding="utf-8")
    out = tmp_path / "file" / "out" if error is StorageError else tmp_path / "out"
    spoil(out)
    steps: list[int] = []
    with pytest.raises(error, match=message):
        train_sft(
            tiny_model(context=2048), TOKENIZER, rows, out, SftSettings(steps=1),
            on_step=lambda step, logs: steps.append(step),
        )  # fmt: skip
    assert steps == []


def test_a_disk_that_is_too_full_is_told_before_training(rows, tmp_path, monkeypatch):
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=1000))
    with pytest.raises(SettingsError, match="the model takes 1 MB, and 0 MB are free"):
        train_sft(tiny_model(context=2048), TOKENIZER, rows, tmp_path / "out", SftSettings(steps=1))
    assert list(tmp_path.iterdir()) == []


def test_rows_longer_than_the_models_context_are_refused(rows, tmp_path):
    with pytest.raises(SettingsError, match=r"has \d+ tokens; expected 1 to 128, the model's context"):
        train_sft(tiny_model(context=128), TOKENIZER, rows, tmp_path / "out", SftSettings(steps=1))


@pytest.mark.parametrize("wrong", [{"steps": 0}, {"batch": 0}, {"learning_rate": 0.0}])
def test_settings_that_train_nothing_are_refused(wrong):
    with pytest.raises(SettingsError, match="have to be positive"):
        SftSettings(**wrong)
