"""Journeys along the command line, from a seed to a report."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator

from harness import pack
from harness.environment import Environment
from harness.rundir import load_summaries
from synth.families import FAMILIES
from tests.command_line import ROOT, Cowork, runner

COUNT = len(FAMILIES)


@pytest.fixture
def cowork(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Cowork:
    return runner(monkeypatch, capsys)


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    """A pack with one environment of each family."""
    environments = [family.make("commands", 1) for family in FAMILIES]
    pack.save(tmp_path / "mine", environments, {})
    return tmp_path / "mine"


def ids(where: Path) -> list[str]:
    return [environment.id for environment in pack.load(where)]


def without_time(rows: Any) -> Any:
    return json.loads(re.sub(r'"(wall_)?seconds": [0-9.e-]+', '"seconds": 0', json.dumps(rows)))


def test_synthesis_writes_a_pack_that_certifies_again(cowork: Cowork, tmp_path: Path) -> None:
    synthesized = cowork("synth", "--count", COUNT, "--seed", "journey", "--out", tmp_path / "pack", "--json")
    assert synthesized.code == 0
    numbers = synthesized.json
    assert (numbers["accepted"], numbers["rejected"], numbers["oracle_mean"], numbers["noop_mean"]) == (COUNT, 0, 1, 0)
    assert numbers["mutants_killed"] == numbers["mutants_total"] > 10 * COUNT
    assert numbers["harmless_kept"] == numbers["harmless_total"] > COUNT
    listed = cowork("env", "list", tmp_path / "pack", "--json").json
    assert {row["family"] for row in listed} == {family.name for family in FAMILIES}
    certified = cowork("certify", tmp_path / "pack", "--json")
    assert certified.code == 0
    assert without_time(certified.json) == without_time(numbers)
    facts = json.loads((tmp_path / "pack" / pack.PACK).read_text(encoding="utf-8"))
    assert facts["seed"] == "journey"
    assert facts["accepted"] == COUNT


def test_the_same_seed_gives_the_same_bytes_and_another_one_others(cowork: Cowork, tmp_path: Path) -> None:
    for name, seed in (("a", "x"), ("b", "x"), ("c", "y")):
        ended = cowork(
            "synth", "--count", 2, "--family", "ticket_routing", "--level", 2, "--seed", seed, "--out", tmp_path / name
        )
        assert ended.code == 0
        assert f"2 environments in {tmp_path / name}" in ended.out.replace("\n", "")
    a, b, c = ((tmp_path / name / pack.ENVIRONMENTS).read_bytes() for name in "abc")
    assert a == b != c


def test_agents_run_and_the_report_shows_what_they_scored(cowork: Cowork, mine: Path, tmp_path: Path) -> None:
    ran = cowork(
        "run", mine, "--agent", "oracle", "--agent", "noop", "--trials", 2, "--out", tmp_path / "run", "--json"
    )
    assert ran.code == 0
    by_agent = {row["agent"]: row for row in ran.json["agents"]}
    assert by_agent["oracle"]["score"]["value"] == 1
    assert by_agent["noop"]["score"]["value"] == 0
    assert by_agent["oracle"]["statuses"] == {"done": 2 * COUNT, "failed": 0, "invalid": 0, "infra": 0}
    assert cowork("report", tmp_path / "run", "--json").json == ran.json

    shown = cowork("report", tmp_path / "run", "--out", tmp_path / "report.html")
    assert shown.code == 0
    assert "oracle" in shown.out
    assert "noop" in shown.out
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert all(name in page for name in ids(mine))
    assert not re.search(r"(src|href)=[\"']?https?://", page)  # it works without a network


def test_the_same_command_plays_nothing_twice_and_more_trials_extend(
    cowork: Cowork, mine: Path, tmp_path: Path
) -> None:
    first = cowork("run", mine, "--agent", "oracle", "--out", tmp_path / "run")
    assert f"coworkenv report {tmp_path / 'run'}" in first.out.replace("\n", "")
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "run").rglob("*.json")}
    assert cowork("run", mine, "--agent", "oracle", "--out", tmp_path / "run").out == first.out
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "run").rglob("*.json")} == before
    assert cowork("run", mine, "--agent", "oracle", "--trials", 3, "--out", tmp_path / "run").code == 0
    assert len(load_summaries(tmp_path / "run")) == 3 * COUNT


def test_one_environment_of_a_pack_can_be_run(cowork: Cowork, mine: Path, tmp_path: Path) -> None:
    chosen = ids(mine)[1]
    assert cowork("run", mine, "--id", chosen, "--agent", "claim", "--out", tmp_path / "run", "--json").code == 0
    assert {summary.environment for summary in load_summaries(tmp_path / "run")} == {chosen}


def test_grading_again_follows_checks_that_changed(cowork: Cowork, mine: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    cowork("run", mine, "--agent", "oracle", "--out", run, "--json")
    same = cowork("grade", run, "--pack", mine, "--json")
    assert same.json == {"episodes": COUNT, "changed": 0, "changes": []}

    *others, last = pack.load(mine)
    impossible = {"id": "impossible", "about": "Nobody can", "kind": "field", "type": "desk.ticket"}
    impossible |= {"key": last.records["desk.ticket"][0]["id"], "field": "about", "is": "Something else"}
    stricter = Environment.parse(last.dump() | {"checks": [*last.dump()["checks"], impossible]})
    pack.save(tmp_path / "stricter", [*others, stricter], {})
    changed = cowork("grade", run, "--pack", tmp_path / "stricter", "--json").json
    assert (changed["episodes"], changed["changed"]) == (COUNT, 1)
    assert last.id in json.dumps(changed["changes"])
    assert all(summary.passed for summary in load_summaries(run))  # looked, not written
    kept = cowork("grade", run, "--pack", tmp_path / "stricter", "--write")
    assert f"{COUNT} episodes graded again, 1 grades changed and kept" in kept.out
    assert [s.environment for s in load_summaries(run) if not s.passed] == [last.id]


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_the_yaml_that_is_shown_loads_again_and_certifies(
    cowork: Cowork, mine: Path, tmp_path: Path, family: Any
) -> None:
    original = next(environment for environment in pack.load(mine) if environment.family == family.name)
    shown = cowork("env", "show", mine, "--id", original.id)
    file = tmp_path / "by-hand.yaml"
    file.write_text(shown.out, encoding="utf-8")
    assert pack.load(file)[0].digest == original.digest
    assert cowork("env", "show", mine, "--id", original.id, "--json").json == yaml.safe_load(shown.out)
    assert cowork("env", "check", file).out == "1 environments, nothing wrong\n"
    assert cowork("certify", file, "--json").json["accepted"] == 1


def test_the_schema_accepts_what_packs_hold_and_refuses_unknown_keys(cowork: Cowork, mine: Path) -> None:
    schema = cowork("env", "schema").json
    Draft202012Validator.check_schema(schema)
    validator = Draft202012Validator(schema)
    for environment in pack.load(mine):
        validator.validate(environment.dump())
        assert list(validator.iter_errors(environment.dump() | {"colour": "red"}))


def test_a_grader_that_anyone_passes_is_not_certified(cowork: Cowork, mine: Path, tmp_path: Path) -> None:
    first = pack.load(mine)[0]
    easy = Environment.parse(first.dump() | {"checks": first.dump()["checks"][:1]})
    pack.save(tmp_path / "easy", [easy], {})
    ended = cowork("certify", tmp_path / "easy", "--json")
    assert ended.code == 2
    assert ended.json["rejected"] == 1
    assert ended.err.startswith(f"{easy.id}: ")


def test_the_demo_shows_everything_once(cowork: Cowork, tmp_path: Path) -> None:
    taken = tmp_path / "demo"
    taken.mkdir()
    ended = cowork("demo", "--out", taken)
    assert ended.code == 0
    home = tmp_path / "demo-2"  # what is there is never written over
    assert not list(taken.iterdir())
    assert len(pack.load(home / "pack")) == 12
    assert "careless" in ended.out
    assert "0 rejected" in ended.out
    told = ended.out.replace("\n", "")
    assert f"coworkenv serve {home / 'pack'} --id " in told
    assert (home / "report.html").stat().st_size > 10_000
    scores = {row["agent"]: row["score"]["value"] for row in cowork("report", home / "run", "--json").json["agents"]}
    assert scores["oracle"] == 1
    assert scores["noop"] == 0
    assert scores["careless"] < 1


def test_tasks_of_a_benchmark_are_imported_and_can_be_listed(cowork: Cowork, tmp_path: Path) -> None:
    tasks = ROOT / "tests" / "data" / "claw_eval" / "tasks"
    imported = cowork("import", "claw-eval", tasks, "--out", tmp_path / "all", "--json")
    assert imported.code == 0
    listed = cowork("env", "list", tmp_path / "all", "--json").json
    assert imported.json["imported"] == len(listed) == len(list(tasks.glob("*/task.yaml")))
    one = cowork("import", "claw-eval", tasks / "T900_sample", "--out", tmp_path / "one")
    assert f"coworkenv serve {tmp_path / 'one'} --id {ids(tmp_path / 'one')[0]}" in one.out
    assert cowork("env", "check", tmp_path / "all").code == 0
