"""What an environment file may say, how it is told what is wrong with it, and when two are the same."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.environment import Environment
from servers.errors import SpecError
from synth.families import FAMILIES
from tests.support import KLARA, NORA, OMAR, PEOPLE, START

Change = Callable[[dict[str, Any]], None]


def ticket(number: int, **fields: Any) -> dict[str, Any]:
    """A ticket of this office."""
    created = "2026-02-27T10:00:00+01:00"
    base = {"id": f"SUP-{number}", "queue": "SUP", "title": "No light", "reporter": KLARA}
    return {**base, "created_at": created, "updated_at": created, **fields}


def by_hand() -> dict[str, Any]:
    """A small environment as somebody might write it."""
    return {
        "schema": "coworkenv/environment/1",
        "id": "by-hand",
        "start": START,
        "principal": NORA,
        "cast": deepcopy(PEOPLE),
        "services": ["tickets", "mail"],
        "tools": ["tickets_search", "tickets_get", "tickets_assign"],
        "records": {
            "tickets.queue": [{"id": "SUP", "name": "Support", "members": [NORA, OMAR]}],
            "tickets.ticket": [ticket(1), ticket(2)],
        },
        "request": "Give SUP-1 to Omar.",
        "events": [{"id": "later", "when": {"after": "5m"}, "do": [], "notice": "Lunch."}],
        "checks": [
            {"kind": "field", "id": "given", "type": "tickets.ticket", "key": "SUP-1", "field": "assignee", "is": OMAR}
        ],
        "oracle": [
            {"call": "tickets_assign", "arguments": {"ticket_id": "SUP-1", "assignee": OMAR}},
            {"say": "Done."},
        ],
    }


def load(data: dict[str, Any]) -> Environment:
    environment = Environment.parse(data, "file.yaml")
    environment.validate_all()
    return environment


def put(path: str, value: object) -> Change:
    """A change that sets the value at a path such as ``checks.0.type``."""

    def change(data: dict[str, Any]) -> None:
        *way, last = [int(step) if step.isdigit() else step for step in path.split("/")]
        node: Any = data
        for step in way:
            node = node[step]
        if isinstance(node, list) and last == len(node):
            node.append(value)
        else:
            node[last] = value

    return change


def test_a_file_by_hand_is_a_valid_environment() -> None:
    environment = load(by_hand())
    assert list(environment.exposed) == ["tickets_search", "tickets_get", "tickets_assign"]


MISTAKES: dict[str, tuple[Change, str, str]] = {
    "unknown key": (put("requset", "x"), "requset", "unknown key"),
    "unknown key of a check": (put("checks/0/typo", 1), "checks[0].typo", "unknown key"),
    "unknown key of an event": (put("events/0/when/afterr", 1), "events[0].when.afterr", "unknown key"),
    "unknown key of a step": (put("oracle/0/args", {}), "oracle[0].args", "unknown key"),
    "unknown kind of check": (put("checks/0/kind", "feild"), "checks[0]", "'field'"),
    "wrong schema": (put("schema", "coworkenv/environment/9"), "schema", "coworkenv/environment/1"),
    "bad id": (put("id", "no spaces please"), "id", "pattern"),
    "start without offset": (put("start", "2026-03-02T09:00:00"), "start", "+01:00"),
    "duration": (put("events/0/when/after", "soon"), "events[0].when.after", "90s, 15m"),
    "step of two things": (put("oracle/0/say", "Done."), "oracle[0]", "exactly one of call and say"),
    "unknown service": (put("services/0", "ticket"), "services[0]", "Did you mean tickets?"),
    "unknown record type": (put("records/tickets.tiket", []), "records.tickets.tiket", "Did you mean"),
    "unknown field of a record": (
        put("records/tickets.ticket/1/titel", "x"),
        "records.tickets.ticket[1].titel",
        "unknown key",
    ),
    "dangling id": (
        put("records/tickets.ticket/1/links", ["SUP-11"]),
        "records.tickets.ticket[1].links",
        "there is no tickets.ticket 'SUP-11'. Did you mean SUP-1",
    ),
    "duplicate record": (
        put("records/tickets.ticket/2", ticket(1)),
        "records.tickets.ticket[2].id",
        "'SUP-1' is there twice",
    ),
    "duplicate person": (put("cast/6", PEOPLE[0]), "cast[6].email", "is there twice"),
    "unknown principal": (put("principal", "nora.lint@northwind.example"), "principal", "Did you mean nora.lind"),
    "ticket from the future": (
        put(
            "records/tickets.ticket/1", ticket(2, created_at="2027-01-01T00:00:00Z", updated_at="2027-01-01T00:00:00Z")
        ),
        "records.tickets.ticket[1]",
        "",
    ),
    "event before the start": (
        put("events/0/when", {"at": "2026-03-01T09:00:00Z"}),
        "events[0].when.at",
        "before the start",
    ),
    "tool of an event": (
        put("events/0/do/0", {"by": OMAR, "tool": "tickets_comnent"}),
        "events[0].do[0].tool",
        "Did you mean tickets_comment",
    ),
    "person of an event": (
        put("events/0/do/0", {"by": "omar@northwind.example", "tool": "tickets_get"}),
        "events[0].do[0].by",
        "omar.haddad",
    ),
    "duplicate event": (
        put("events/1", {"id": "later", "when": {"after": "9m"}}),
        "events[1].id",
        "is there twice",
    ),
    "unknown tool": (put("tools/0", "tickets_serch"), "tools[0]", "Did you mean tickets_search"),
    "tool that the agent does not have": (
        put("oracle/0/call", "tickets_asign"),
        "oracle[0].call",
        "Did you mean tickets_assign",
    ),
    "type of a check": (put("checks/0/type", "tickets.tickt"), "checks[0].type", "Did you mean tickets.ticket"),
    "duplicate check": (put("checks/1", by_hand()["checks"][0]), "checks[1].id", "is there twice"),
    "time zone": (put("cast/0/timezone", "Berlin"), "cast[0].timezone", "Europe/Berlin"),
}


@pytest.mark.parametrize(("change", "where", "words"), MISTAKES.values(), ids=list(MISTAKES))
def test_a_mistake_is_named_with_its_place_and_a_way_out(change: Change, where: str, words: str) -> None:
    data = by_hand()
    change(data)
    with pytest.raises(SpecError) as raised:
        load(data)
    problems = raised.value.problems
    assert all(problem.where.startswith(where) for problem in problems)
    assert words in str(problems[0])


def test_a_missing_part_is_named() -> None:
    data = by_hand()
    del data["request"]
    with pytest.raises(SpecError, match=r"file\.yaml: request: Field required"):
        load(data)


def test_several_mistakes_are_told_at_once() -> None:
    data = by_hand()
    put("records/tickets.ticket/0/links", ["SUP-8"])(data)
    put("records/tickets.ticket/1/links", ["SUP-9"])(data)
    with pytest.raises(SpecError) as raised:
        load(data)
    assert [problem.code for problem in raised.value.problems] == ["dangling_id", "dangling_id"]
    data = by_hand()
    put("tools/0", "x")(data)
    put("checks/0/type", "y")(data)
    with pytest.raises(SpecError) as raised:
        load(data)
    assert {problem.where for problem in raised.value.problems} == {"tools[0]", "checks[0].type"}


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
@given(seed=st.integers(0, 10_000))
def test_what_is_written_down_is_read_back(family: Any, seed: int) -> None:
    for level in range(1, family.levels + 1):
        environment = family.make(str(seed), level)
        again = Environment.parse(environment.dump())
        assert again == environment
        assert again.dump() == environment.dump()
        assert again.digest == environment.digest


def test_the_digest_follows_the_content() -> None:
    base = Environment.parse(by_hand()).digest
    changes = [
        put("request", "Give SUP-2 to Omar."),
        put("seed", "1"),
        put("start", "2026-03-02T09:00:01+01:00"),
        put("cast/0/title", "Director"),
        put("records/tickets.ticket/1/title", "No heat"),
        put("events/0/notice", "Supper."),
        put("checks/0/weight", 2.0),
        put("oracle/1/say", "It is done."),
        put("budget", {"steps": 9}),
        put("notices", False),
        put("rules", ["Be kind."]),
        put("tools", None),
    ]
    digests: set[str] = set()
    for change in changes:
        data = by_hand()
        change(data)
        digests.add(Environment.parse(data).digest)
    assert len(digests) == len(changes)
    assert base not in digests


def test_the_digest_is_the_same_for_the_same_content_said_otherwise() -> None:
    base = Environment.parse(by_hand()).digest
    data = by_hand()
    data["meta"] = {"author": "somebody", "certificate": {"oracle": 1.0}}
    data["start"] = "2026-03-02T08:00:00Z"
    data["budget"] = {"steps": 60}
    data["records"] = dict(reversed(data["records"].items()))
    data["events"][0]["when"]["after"] = 300
    assert Environment.parse(data).digest == base


def test_a_changed_copy_is_compiled_anew() -> None:
    environment = FAMILIES[0].make("copy", 1)
    assert environment.compiled_checks.checks
    changed = environment.model_copy(update={"checks": environment.checks[:1]})
    assert len(changed.compiled_checks.checks) == 1
    assert changed.digest != environment.digest
