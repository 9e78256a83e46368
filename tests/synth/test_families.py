"""Workflow families: every level of each, over many seeds."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from datetime import datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.environment import Environment
from servers.records import parse_instant
from synth.families import FAMILIES
from synth.families.base import Family
from tests.synth.support import BY_NAME, CASES, LEVEL_NAMES, proven

ROOT = Path(__file__).parents[2]
MANY = settings(max_examples=24, deadline=None, derandomize=True)
WRITE = """
import json, sys
from synth.families import FAMILIES
made = [family.make(sys.argv[1], level) for family in FAMILIES for level in range(1, family.levels + 1)]
print(json.dumps([environment.dump() for environment in made]))
"""
cases = st.sampled_from(CASES)
seeds = st.integers(0, 10**9).map(str)


def seeded(family: Family, level: int, count: int = 12) -> list[Environment]:
    return [family.make(f"seed-{number}", level) for number in range(count)]


@pytest.mark.parametrize(("family", "level"), CASES, ids=LEVEL_NAMES)
def test_two_seeds_of_every_level_are_accepted(family, level):
    for seed in ("accepted-1", "accepted-2"):
        certificate = proven(family.make(seed, level))
        assert certificate.accepted, [str(defect) for defect in certificate.defects]
        assert (certificate.oracle, max(certificate.baselines.values())) == (1, 0)


@MANY
@given(cases, seeds)
def test_any_seed_is_accepted(case, seed):
    family, level = case
    certificate = proven(family.make(seed, level))
    assert certificate.accepted, [str(defect) for defect in certificate.defects]


@MANY
@given(cases, seeds)
def test_an_environment_survives_being_written_and_read(case, seed):
    family, level = case
    environment = family.make(seed, level)
    again = Environment.parse(json.loads(json.dumps(environment.dump())))
    assert again.digest == environment.digest
    assert again.image.data == environment.image.data


@MANY
@given(cases, seeds)
def test_nothing_has_happened_after_now_and_ids_are_unique(case, seed):
    family, level = case
    environment = family.make(seed, level)
    for name, rows in environment.records.items():
        keys = [row["id"] for row in rows if "id" in row]
        assert len(set(keys)) == len(keys)
        for row in rows:
            for field in ("sent_at", "created_at", "updated_at"):
                if field in row:
                    assert parse_instant(row[field]) <= environment.start, (name, row)


def test_the_same_seed_gives_the_same_bytes_in_every_process():
    dumps = {
        subprocess.run(  # noqa: S603 - our own interpreter
            [sys.executable, "-c", WRITE, "process"],
            check=True,
            capture_output=True,
            cwd=ROOT,
            env={**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(ROOT)},
        ).stdout
        for hash_seed in ("1", "77")
    }
    (only,) = dumps
    assert len(json.loads(only)) == len(CASES)


@pytest.mark.parametrize(("family", "level"), CASES, ids=LEVEL_NAMES)
def test_seeds_give_different_tasks_in_different_words(family, level):
    environments = seeded(family, level)
    assert len({environment.id for environment in environments}) == len(environments)
    solutions = {str([step.model_dump() for step in environment.oracle]) for environment in environments}
    assert len(solutions) == len(environments)
    openings = {tuple(environment.request.split()[:2]) for environment in environments}
    assert len(openings) > 1


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_difficulty_grows_with_the_level(family):
    first, last = (family.make("grows", level).difficulty for level in (1, family.levels))
    assert all(last[name] >= value for name, value in first.items())
    assert sum(last.values()) > sum(first.values())
    hard = [sum(family.make("grows", level).difficulty.values()) + _size(family.make("grows", level))
            for level in range(1, family.levels + 1)]  # fmt: skip
    assert hard == sorted(hard)
    assert len(set(hard)) == len(hard)


def _size(environment: Environment) -> int:
    return sum(map(len, environment.records.values()))


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_the_agent_has_few_tools_and_every_one_that_the_oracle_needs(family):
    environment = family.make("tools", family.levels)
    assert set(environment.exposed) == set(family.tools)
    assert len(environment.exposed) <= 14
    assert {step.call for step in environment.oracle if step.call} <= set(environment.exposed)


def test_ticket_routing_fits_a_very_small_student():
    environment = BY_NAME["ticket_routing"].make("small", 1)
    assert len(environment.exposed) == 2
    assert len([step for step in environment.oracle if step.call]) == 2
    assert sum(len(json.dumps(tool.input_schema)) for tool in environment.exposed.values()) < 400


@MANY
@given(seeds)
def test_the_meeting_lies_in_everybodys_working_hours_on_a_workday(seed):
    environment = BY_NAME["scheduling"].make(seed, 1 + int(seed) % 4)
    booking = next(step for step in environment.oracle if step.call == "calendar_create_event")
    people = {person.email: person for person in environment.cast}
    for email in (environment.principal, *booking.arguments["attendees"]):
        zone = environment.image.people[email].timezone
        begin, end = (
            datetime.fromisoformat(booking.arguments[name]).astimezone(ZoneInfo(zone)) for name in ("start", "end")
        )
        assert people[email].timezone == zone
        assert begin.weekday() < 5
        assert begin.hour >= 9
        assert (end.hour, end.minute) <= (17, 0)


def test_a_level_that_a_family_does_not_have_is_refused():
    for family in FAMILIES:
        for level in (0, family.levels + 1):
            with pytest.raises(ValueError, match=f"{family.name} has levels 1 to {family.levels}, not {level}"):
                family.make("x", level)
