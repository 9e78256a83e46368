"""``coworkenv train``: what people type, what they see, and what is there afterwards."""

from __future__ import annotations

import json

import pytest

from harness import pack
from tests.command_line import Cowork, runner
from tests.training.students import routing, saved_student
from training.models import load_model
from training.recipe import Point, RecipeSettings, draw, run_recipe


@pytest.fixture
def cowork(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Cowork:
    return runner(monkeypatch, capsys)


@pytest.fixture(scope="module")
def student(tmp_path_factory):
    return saved_student(tmp_path_factory.mktemp("students") / "tiny")


@pytest.fixture(scope="module")
def desk(tmp_path_factory):
    folder = tmp_path_factory.mktemp("packs") / "desk"
    pack.save(folder, routing(3), {})
    return folder


def test_help_lists_the_commands(cowork):
    ended = cowork("train", "--help")
    assert ended.code == 0
    assert all(name in ended.out for name in ("fetch-model", "sft", "grpo", "recipe"))


@pytest.mark.parametrize(("command", "rest"), [("sft", ["desk"]), ("grpo", ["desk"]), ("recipe", [])])
def test_a_missing_model_is_told_with_the_command_that_fetches_it(cowork, desk, tmp_path, command, rest):
    ended = cowork("train", command, *(desk for _ in rest), "--model", tmp_path / "none", "--out", tmp_path / "out")
    assert ended.code == 2
    assert "there is no model at" in ended.words
    assert "coworkenv train fetch-model" in ended.words
    assert list(tmp_path.iterdir()) == []


def test_sft_writes_a_model_that_runs_as_an_agent(cowork, desk, student, tmp_path):
    out = tmp_path / "models" / "mine"
    ended = cowork("train", "sft", desk, "--model", student, "--out", out, "--steps", 2, "--batch", 2)
    assert (ended.code, ended.out.splitlines()[1]) == (0, f"model: {out}")
    assert "3 demonstrations, 2 steps: loss" in ended.out
    assert "shards" not in ended.err
    assert "rror" not in ended.err + ended.out
    load_model(out)
    assert [entry["step"] for entry in json.loads((out / "history.json").read_text(encoding="utf-8"))] == [1, 2]
    ran = cowork("run", desk, "--agent", f"local:{out}", "--out", tmp_path / "run", "--json")
    assert ran.code == 0
    assert f"local:{out}" in ran.out


def test_sft_as_json_prints_nothing_else(cowork, desk, student, tmp_path):
    ended = cowork("train", "sft", desk, "--model", student, "--out", tmp_path / "out", "--steps", 1, "--json")
    assert (ended.code, ended.err) == (0, "")
    assert ended.json.keys() == {"demonstrations", "steps", "first_loss", "last_loss", "model"}
    assert (ended.json["demonstrations"], ended.json["steps"]) == (3, 1)


def test_grpo_writes_a_model_and_shows_that_the_sampled_tokens_are_the_trained_ones(cowork, desk, student, tmp_path):
    options = ["--steps", 2, "--environments", 1, "--group", 2, "--new-tokens", 6, "--json"]
    ended = cowork("train", "grpo", desk, "--model", student, "--out", tmp_path / "out", *options)
    assert (ended.code, ended.err) == (0, "")
    assert ended.json.keys() == {"steps", "rewards", "broken", "importance_ratio", "model"}
    assert len(ended.json["rewards"]) == 2
    assert ended.json["broken"] == [0, 0]
    assert ended.json["importance_ratio"] == pytest.approx(1, abs=1e-3)
    load_model(tmp_path / "out")
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_grpo_shows_a_table(cowork, desk, student, tmp_path):
    options = ["--steps", 1, "--environments", 1, "--group", 2, "--new-tokens", 4]
    ended = cowork("train", "grpo", desk, "--model", student, "--out", tmp_path / "out", *options)
    assert ended.code == 0
    assert "importance ratio" in ended.out
    assert "experimental" not in ended.err


@pytest.mark.parametrize(
    ("command", "options", "words"),
    [
        ("sft", ["--context", 100], "3 of 3 environments do not fit into a context of 100 tokens"),
        ("grpo", ["--context", 100], "3 of 3 environments do not fit into a context of 100 tokens"),
        ("grpo", ["--environments", 1, "--group", 3, "--micro-batch", 2], "Use a micro_batch of 1"),
        ("grpo", ["--environments", 4], "a step plays 4 different environments, and the pack has 3"),
        ("grpo", ["--temperature", 0], "0 is not in the range x>0"),
    ],
)
def test_what_cannot_be_trained_ends_with_a_message_and_leaves_nothing(
    cowork, desk, student, tmp_path, command, options, words
):
    ended = cowork("train", command, desk, "--model", student, "--out", tmp_path / "out", *options)
    assert ended.code == 2
    assert words in ended.words.replace(".0", "")
    assert "Traceback" not in ended.err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("command", ["sft", "grpo"])
def test_a_model_that_is_there_is_not_overwritten(cowork, desk, student, command):
    before = {path: path.stat().st_mtime_ns for path in student.iterdir()}
    ended = cowork("train", command, desk, "--model", student, "--out", student)
    assert ended.code == 2
    assert "is there already. Choose another folder" in ended.words
    assert {path: path.stat().st_mtime_ns for path in student.iterdir()} == before


def test_the_recipe_measures_before_during_and_after(student, tmp_path, capfd):
    settings = RecipeSettings(train=4, held_out=2, steps=3, batch=2, every=2, context=2048, new_tokens=8)
    said: list[str] = []
    steps: list[int] = []
    points = run_recipe(student, tmp_path, settings, report=said.append, on_step=steps.append)
    assert capfd.readouterr() == ("", "")
    assert [point.step for point in points] == [0, 2, 3]
    assert points[0].loss is None
    assert steps == [1, 2, 3]
    assert sum("held-out score" in line for line in said) == 3
    kept = json.loads((tmp_path / "recipe.json").read_text(encoding="utf-8"))
    assert [point["step"] for point in kept["points"]] == [0, 2, 3]
    assert (tmp_path / "recipe.png").read_bytes().startswith(b"\x89PNG")
    load_model(tmp_path / "model")


def test_a_curve_is_the_same_picture_for_the_same_points(tmp_path):
    points = [Point(step, 0.2, 0.1, 0.5, None, 1.0) for step in (0, 20)]
    for name in ("one.png", "two.png"):
        draw(points, tmp_path / name, RecipeSettings())
    assert (tmp_path / "one.png").read_bytes() == (tmp_path / "two.png").read_bytes()
