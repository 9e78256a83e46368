"""Searching tickets, against a plain reading of each query in Python; tools under arbitrary arguments."""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from servers.image import hash_rows
from servers.services.tickets import Approval, Comment, Ticket
from servers.services.tickets.records import PRIORITIES, STATUSES, TRANSITIONS
from servers.services.tickets.sla import overdue
from servers.world import World
from tests.servers.tickets_office import ADMIN, LEO, RIVAL, helpdesk, refuses, says, seat, ticket
from tests.support import DANA, KLARA, NORA, OMAR, PRIYA

WORDS = ("printer", "refund", "login", "Export", "50%", "under_score", "übung", "O'Neil")


def big_desk(seed: int) -> World:
    """A world with 60 tickets and 60 comments drawn from the seed."""
    draw = random.Random(seed)  # noqa: S311

    def words(count: int) -> str:
        return " ".join(draw.choice(WORDS) for _ in range(count))

    def moment() -> str:
        return datetime.fromtimestamp(1772010000 + draw.randrange(300_000), UTC).isoformat()

    tickets: list[dict[str, Any]] = []
    for number in range(200, 260):
        status = draw.choice(STATUSES)
        created, updated = sorted((moment(), moment()))
        tickets.append(
            ticket(
                number,
                title=words(2),
                description=words(3),
                status=status,
                priority=draw.choice(PRIORITIES),
                reporter=draw.choice((KLARA, RIVAL, DANA)),
                assignee=draw.choice((None, NORA, OMAR)),
                tags=draw.sample(("vip", "billing", "vip-gold", 'odd "tag"'), draw.randrange(3)),
                customer=draw.choice((None, "Alpenrad", "Rival, Inc.")),
                created_at=created,
                updated_at=updated,
                resolution=words(1) if status in {"resolved", "closed"} else None,
            )
        )
    comments = [
        {
            "id": f"b{number}",
            "ticket_id": f"SUP-{draw.randrange(200, 260)}",
            "author": OMAR,
            "body": words(2),
            "public": draw.random() < 0.5,
            "created_at": "2026-03-01T09:00:00Z",
        }
        for number in range(60)
    ]
    return World.open(helpdesk(ticket=tickets, comment=comments))


def holds_word(item: Ticket, said: list[Comment], word: str, *, external: bool) -> bool:
    texts = [item.title, item.description, item.id, item.customer or ""]
    texts += [comment.body for comment in said if comment.ticket_id == item.id and (comment.public or not external)]
    if not external:
        texts += item.tags
    return any(word.lower() in text.lower() for text in texts)


Rule = Callable[[Ticket], bool]


def rules(said: list[Comment], now: int, *, external: bool) -> list[tuple[str, Rule]]:
    """Search terms, each with what it means."""
    found: list[tuple[str, Rule]] = [
        ("status:open,new", lambda item: item.status in {"open", "new"}),
        ("priority:CRITICAL", lambda item: item.priority == "critical"),
        ("assignee:none", lambda item: item.assignee is None),
        ("assignee:omar,none", lambda item: item.assignee in {None, OMAR}),
        ('customer:"rival, inc"', lambda item: item.customer == "Rival, Inc."),
        ("customer:alpen", lambda item: item.customer == "Alpenrad"),
        ("overdue:yes", lambda item: overdue(item, now)),
        ("reporter:klara", lambda item: item.reporter == KLARA),
        ("queue:SUP", lambda item: item.queue == "SUP"),
        ("created_after:2026-02-27", lambda item: item.created_at >= 1772146800),
        ("updated_before:2026-02-27T12:00:00+01:00", lambda item: item.updated_at < 1772190000),
    ]
    found += [
        (f'"{word}"', lambda item, word=word: holds_word(item, said, word, external=external))
        for word in (*WORDS, "sup-23", "refund login")
    ]
    if not external:
        found.append(("tag:vip", lambda item: "vip" in item.tags))
        found.append(("approval:pending", lambda item: False))
    return found


@pytest.mark.parametrize("seed", range(6))
def test_a_search_finds_exactly_what_a_plain_reading_of_it_finds(seed: int) -> None:
    world, draw = big_desk(seed), random.Random(seed)  # noqa: S311
    everything = [Ticket.model_validate(row) for row in world.dump(Ticket.type_name)]
    said = [Comment.model_validate(row) for row in world.dump(Comment.type_name)]
    for person in (NORA, KLARA):
        external = person == KLARA
        where = seat(world, person)
        possible = rules(said, world.now, external=external)
        queries = [[], *([rule] for rule in possible)]
        queries += [draw.sample(possible, count) for count in (2, 3) for _ in range(15)]
        for chosen in queries:
            signs = [draw.random() < 0.3 for _ in chosen]
            query = " ".join(("-" if minus else "") + text for (text, _), minus in zip(chosen, signs, strict=True))
            expected = [
                item
                for item in everything
                if (not external or item.reporter == KLARA)
                and all(rule(item) != minus for (_, rule), minus in zip(chosen, signs, strict=True))
            ]
            expected.sort(key=lambda item: (-item.updated_at, item.id))
            answer = says(where, "tickets_search", query=query, page_size=50)
            assert answer["total"] == len(expected), query
            assert [item["ticket_id"] for item in answer["tickets"]] == [item.id for item in expected][:50], query


def test_orders_and_pages_cover_every_ticket_once() -> None:
    nora = seat(big_desk(1), NORA)
    for sort in ("updated", "created", "due", "priority"):
        seen: list[dict[str, Any]] = []
        cursor: dict[str, str] = {}
        while True:
            part = says(nora, "tickets_search", query="queue:SUP", sort=sort, page_size=7, **cursor)
            seen += part["tickets"]
            if part["next_cursor"] is None:
                break
            cursor = {"cursor": part["next_cursor"]}
        assert len({item["ticket_id"] for item in seen}) == len(seen) == part["total"]
        if sort == "due":
            assert [item["due_at"] for item in seen] == sorted(item["due_at"] for item in seen)
        if sort == "priority":
            ranks = [PRIORITIES.index(item["priority"]) for item in seen]
            assert ranks == sorted(ranks, reverse=True)
    assert "Start again" in refuses(nora, "tickets_search", query="queue:ENG", page_size=7, **cursor)


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("status:done", "new, open, waiting, escalated, resolved, closed"),
        ("colour:red", "Operators: queue:"),
        ("queue:HR", "SUP (Customer support)"),
        ("assignee:Dana", "several people"),
        ("created_after:yesterday", "is not a time"),
        ("status:,", "has no value"),
    ],
)
def test_a_search_that_cannot_be_read_is_refused_with_what_is_valid(query: str, words: str) -> None:
    assert words in refuses(seat(World.open(helpdesk()), NORA), "tickets_search", query=query)


IMAGE = helpdesk()
SCOUT = World.open(IMAGE)
FIRST_APPROVALS = [SCOUT.new_id(Approval.type_name) for _ in range(3)]
PEOPLE = (NORA, OMAR, PRIYA, LEO, ADMIN, DANA, KLARA, RIVAL)
text = (
    st.text(max_size=12)
    | st.sampled_from(
        [
            "SUP-103",
            "sup-104",
            "ENG-7",
            "SUP-105",
            "SUP",
            "Customer support",
            "me",
            "none",
            "Omar",
            PRIYA,
            "Leo",
            "x",
            "priority:critical",
            "status:escalated",
            "status:open -tag:vip",
            '"a',
            "created_after:0001-01-01",
            "-",
            ":",
            "tag:%",
        ]
    )
    | st.sampled_from(FIRST_APPROVALS)
)


def arguments_of(schema: dict[str, Any]) -> st.SearchStrategy[dict[str, Any]]:
    """Arguments that a tool's schema allows."""
    required = set(schema.get("required", ()))
    known = {name: _value(part) for name, part in schema["properties"].items()}
    return st.fixed_dictionaries(
        {name: value for name, value in known.items() if name in required},
        optional={name: value for name, value in known.items() if name not in required},
    )


def _value(schema: dict[str, Any]) -> st.SearchStrategy[Any]:
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    if schema["type"] == "string":
        return text.filter(lambda value: len(value) >= schema.get("minLength", 0))
    if schema["type"] == "integer":
        return st.integers(schema["minimum"], schema["maximum"])
    if schema["type"] == "array":
        return st.lists(text, max_size=4)
    return st.booleans()


TOOLS = {tool.name: tool for tool in IMAGE.workplace.services[0].tools}
anyone_does_anything = st.tuples(st.sampled_from(PEOPLE), st.sampled_from(sorted(TOOLS))).flatmap(
    lambda who: st.tuples(st.just(who[0]), st.just(who[1]), arguments_of(TOOLS[who[1]].input_schema))
)


@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(anyone_does_anything, min_size=5, max_size=25))
def test_whatever_anybody_sends_tools_answer_or_refuse_and_tickets_stay_sound(calls: list[Any]) -> None:
    world = World.open(IMAGE)
    for person, tool, arguments in calls:
        seat(world, person).call(tool, arguments)  # a fault would raise
        world.advance(60)
    for change in world.row_changes():
        if change.type == Ticket.type_name and change.before is not None and "status" in change.fields:
            assert change.after is not None
            assert change.after["status"] in TRANSITIONS[change.before["status"]]
    for row in world.dump(Ticket.type_name):
        assert (row["resolution"] is not None) == (row["status"] in {"resolved", "closed"})
        assert row["priority"] != "critical" or _approved(world, row["id"], "priority:critical")
        assert row["status"] != "escalated" or row["queue"] == "ENG" or _approved(world, row["id"], "status:escalated")
    frozen = world.fork()
    assert int(world.state_hash(), 16) == hash_rows(frozen._live(), frozen.image.workplace)
    world.close()


def _approved(world: World, ticket_id: str, action: str) -> bool:
    return any(
        (row["ticket_id"], row["action"], row["state"]) == (ticket_id, action, "approved")
        and row["approver"] in {PRIYA, LEO}
        and row["approver"] != row["requested_by"]
        for row in world.dump("tickets.approval")
    )
