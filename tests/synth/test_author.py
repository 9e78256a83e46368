"""Authors and the synthesizer: as many as asked for, the same for the same seed, nothing unproven."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import anyio
import pytest
import yaml

from harness import pack
from harness.environment import Environment
from synth.author import Synthesis, TemplateAuthor, by_operator, synthesize
from synth.families import FAMILIES
from synth.families.base import Family
from tests.command_line import Cowork, runner
from tests.synth.support import BY_NAME, HANDWRITTEN, handwritten, with_check

KEYS = ["accepted", "rejected", "oracle_mean", "noop_mean", "mutants_total", "mutants_killed", "harmless_total",
        "harmless_kept", "seconds"]  # fmt: skip
SMALL = [BY_NAME["ticket_routing"], BY_NAME["scheduling"]]


def synthesis(count: int, seed: str, **options: Any) -> Synthesis:
    return anyio.run(lambda: synthesize(count, seed, **options))


@dataclass
class Forgetful:
    """An author that leaves out the oracle of every other environment."""

    drafts: int = 0

    def write(self, family: Family, level: int, seed: str) -> Environment:
        self.drafts += 1
        environment = TemplateAuthor().write(family, level, seed)
        return environment.model_copy(update={"oracle": []}) if self.drafts % 2 else environment


class Repetitive:
    """An author that writes one environment again and again."""

    def write(self, family: Family, level: int, seed: str) -> Environment:
        return family.make("same", level)


def test_as_many_are_accepted_as_were_asked_for_going_round_families_and_levels():
    result = synthesis(8, "round")
    assert [environment.family for environment in result.accepted] == [family.name for family in FAMILIES] * 2
    assert [environment.difficulty["level"] for environment in result.accepted] == [1] * 4 + [2] * 4
    assert all(certificate.accepted for certificate in result.certificates)
    assert not result.rejected


def test_every_accepted_environment_carries_its_certificate():
    result = synthesis(3, "proof", families=SMALL)
    for environment, certificate in zip(result.accepted, result.certificates, strict=True):
        assert environment.meta["certificate"] == certificate.summary()
        assert certificate.environment == environment.id


def test_the_same_seed_gives_the_same_environments_and_another_seed_gives_others():
    one, again, other = (synthesis(4, seed, families=SMALL) for seed in ("a", "a", "b"))
    assert [environment.dump() for environment in one.accepted] == [
        environment.dump() for environment in again.accepted
    ]
    assert not {e.request for e in one.accepted} & {e.request for e in other.accepted}


def test_more_environments_begin_with_the_same_ones():
    few, many = (synthesis(count, "more", families=SMALL) for count in (2, 4))
    assert [e.id for e in many.accepted][:2] == [e.id for e in few.accepted]


def test_only_the_chosen_levels_are_written():
    result = synthesis(4, "levels", families=SMALL, levels=[2, 9])
    assert {environment.difficulty["level"] for environment in result.accepted} == {2}


def test_what_is_not_accepted_is_kept_apart_with_its_defects():
    result = synthesis(2, "bad", families=SMALL[:1], author=Forgetful())
    assert len(result.accepted) == 2
    assert [defects[0].code for _, defects in result.rejected] == ["no_oracle", "no_oracle"]


def test_the_same_task_twice_is_a_duplicate_and_the_synthesizer_gives_up_in_the_end():
    result = synthesis(2, "again", families=SMALL[:1], levels=[1], author=Repetitive())
    assert len(result.accepted) == 1
    assert result.duplicates == 5


def test_progress_is_told_up_to_the_count():
    told: list[tuple[int, int]] = []
    synthesis(3, "told", families=SMALL[:1], progress=lambda done, total: told.append((done, total)))
    assert told == [(1, 3), (2, 3), (3, 3)]


def test_operators_are_counted_over_a_pack():
    result = synthesis(4, "count", families=SMALL)
    counted = by_operator(result.certificates)
    assert sum(total for _, total in counted.values()) == result.summary()["mutants_total"]
    assert all(killed == total > 0 for killed, total in counted.values())


# ---------------------------------------------------------------- on the command line


@pytest.fixture
def cowork(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Cowork:
    return runner(monkeypatch, capsys)


def test_synth_prints_exactly_the_promised_numbers(cowork, tmp_path):
    ended = cowork("synth", "--count", 4, "--seed", "cli", "--out", tmp_path / "pack", "--json")
    assert ended.code == 0, ended.err
    assert list(ended.json) == KEYS
    assert (ended.json["accepted"], ended.json["rejected"]) == (4, 0)
    assert (ended.json["oracle_mean"], ended.json["noop_mean"]) == (1, 0)
    assert ended.json["mutants_killed"] == ended.json["mutants_total"] > 40
    assert ended.json["harmless_kept"] == ended.json["harmless_total"] > 10
    assert len(pack.load(tmp_path / "pack")) == 4


def test_the_same_seed_writes_the_same_bytes(cowork, tmp_path):
    for name in ("one", "two"):
        ended = cowork("synth", "--count", 2, "--family", "ticket_routing", "--out", tmp_path / name, "--json")
        assert ended.code == 0, ended.err
    one, two = ((tmp_path / name / "environments.jsonl").read_bytes() for name in ("one", "two"))
    assert one == two


def test_certify_accepts_the_handwritten_example(cowork):
    ended = cowork("certify", HANDWRITTEN, "--json")
    assert ended.code == 0, ended.err
    assert (ended.json["accepted"], ended.json["rejected"]) == (1, 0)


def test_the_handwritten_example_is_short_enough_to_read():
    lines = HANDWRITTEN.read_text(encoding="utf-8").splitlines()
    assert 30 <= len(lines) <= 60
    assert max(map(len, lines)) <= 120


@pytest.mark.parametrize(
    ("changes", "place", "words"),
    [
        ({"oracle": []}, "oracle", "Write the calls that solve it."),
        ({"principal": "nora@nowhere.example"}, "principal", "nora@nowhere.example"),
        ({"checks": [{"kind": "record", "id": "draft", "type": "mail.drafts"}]}, "checks[0].type", "mail.draft"),
        ({"checks": with_check("facts", facts=["ORD-2041"], watch=["id"])}, "checks", "sharpen a check"),
    ],
)
def test_certify_says_where_a_broken_twin_of_it_is_wrong(cowork, tmp_path, changes, place, words):
    broken = tmp_path / "broken.yaml"
    broken.write_text(yaml.safe_dump(handwritten(**changes)), encoding="utf-8")
    ended = cowork("certify", broken)
    assert ended.code == 2
    assert place in ended.words
    assert words in ended.words
    assert "Traceback" not in ended.words
