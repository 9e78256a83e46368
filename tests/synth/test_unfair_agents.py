"""What an inspector tried on the families: ways round the work, and honest ways that graders once minded."""

from __future__ import annotations

from collections import Counter
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from harness.checks import StatesCheck
from harness.environment import Environment, Step
from harness.trajectory import Trajectory
from tests.synth.playing import assert_passes, but, every_seed, last_words, made, on, passes, played
from tests.synth.support import episode, failed

MANY = [f"blind-{number}" for number in range(24)]


def step_of(environment: Environment, tool: str) -> Step:
    return next(step for step in environment.oracle if step.call == tool)


def said_in(environment: Environment, tool: str, more: str) -> list[Step]:
    """The oracle with more words in the body of a call."""
    change = on(tool, lambda step: [but(step, body=f"{step.arguments['body']} {more}")])
    return [new for step in environment.oracle for new in change(step)]


def local(environment: Environment, iso: str) -> datetime:
    zone = environment.image.people[environment.principal].timezone
    return datetime.fromisoformat(iso).astimezone(ZoneInfo(zone))


def results(trajectory: Trajectory) -> list[str]:
    """What the tools answered."""
    return [message.content for message in trajectory.messages if message.role == "tool"]


def quote(environment: Environment, message: str) -> str:
    row = next(row for row in environment.records["mail.message"] if row["id"] == message)
    sent = local(environment, row["sent_at"].replace("Z", "+00:00"))
    lines = "\n".join(f"> {line}" for line in row["body"].splitlines())
    return f"\n\nOn {sent:%a}, {sent.day} {sent:%B %Y} at {sent:%H:%M}, {row['sender']} wrote:\n{lines}"


# ---------------------------------------------------------------- scheduling


@pytest.mark.parametrize("level", [1, 4])
def test_no_slot_is_right_so_often_that_looking_is_not_worth_it(level: int) -> None:
    right: Counter[int] = Counter()
    for seed in MANY:
        environment = made("scheduling", level, seed)
        look, booking = (step_of(environment, f"calendar_{name}") for name in ("suggest_times", "create_event"))
        first, start, end = (
            datetime.fromisoformat(text)
            for text in (look.arguments["earliest"], booking.arguments["start"], booking.arguments["end"])
        )
        right[int((start - first) / (end - start))] += 1
    assert set(right) == {2, 3, 4, 5, 6}
    assert max(right.values()) < len(MANY) * 0.4


@every_seed
@pytest.mark.parametrize("level", [1, 2])
def test_the_time_that_is_free_at_first_is_taken_once_it_was_seen(level: int, seed: str) -> None:
    environment = made("scheduling", level, seed)
    look = step_of(environment, "calendar_suggest_times")
    once = [step for step in environment.oracle if step is not look][-2:]
    stale = environment.meta["hints"]["stale"]
    early = next(step["arguments"]["start"] for step in stale if step["call"] == "calendar_create_event")
    trajectory = episode(environment, [look, look, *once])
    answers = results(trajectory)
    assert early in answers[0]
    assert f'"start":"{early}"' not in answers[1].replace(" ", "")


@every_seed
def test_looking_elsewhere_changes_nothing(seed: str) -> None:
    environment = made("scheduling", 1, seed)
    look = step_of(environment, "calendar_suggest_times")
    stale = environment.meta["hints"]["stale"]
    early = next(step["arguments"]["start"] for step in stale if step["call"] == "calendar_create_event")
    program = [Step(call="calendar_list_events"), look, environment.oracle[-1]]
    answers = results(episode(environment, program))
    assert early in answers[1]


@every_seed
@pytest.mark.parametrize(
    "option",
    [
        {"recurrence": "FREQ=DAILY;COUNT=500"},
        {"busy": False},
        {"private": True},
        {"description": "Salaries: 1,200 EUR each."},
    ],
    ids=lambda option: next(iter(option)),
)
def test_a_meeting_with_what_nobody_asked_for_does_not_pass(option: dict[str, Any], seed: str) -> None:
    environment = made("scheduling", 1, seed)
    assert not passes(played(environment, on("calendar_create_event", lambda step: [but(step, **option)])))


@every_seed
def test_a_title_may_be_written_in_lower_case_and_with_an_agenda(seed: str) -> None:
    environment = made("scheduling", 2, seed)

    def book(step: Step) -> list[Step]:
        title = f" {step.arguments['title'].lower()} "
        return [but(step, title=title, description="Agenda: numbers, then open points. Room 12.")]

    assert_passes(played(environment, on("calendar_create_event", book)))


@every_seed
def test_a_report_in_utc_passes(seed: str) -> None:
    environment = made("scheduling", 2, seed)
    start = local(environment, step_of(environment, "calendar_create_event").arguments["start"])
    in_utc = start.astimezone(ZoneInfo("UTC"))
    said = f"Booked for {start.day} {start:%B %Y}, {in_utc:%H:%M} UTC."
    assert_passes(played(environment, last_words(environment, lambda _: said)))


# ---------------------------------------------------------------- escalation


def test_neither_number_nor_priority_gives_the_ticket_away() -> None:
    ranks: Counter[bool] = Counter()
    priorities: Counter[str] = Counter()
    for seed in MANY:
        environment = made("escalation", 2, seed)
        key = step_of(environment, "tickets_transition").arguments["ticket_id"]
        rows = environment.records["tickets.ticket"]
        ranks[key == max(row["id"] for row in rows)] += 1
        priorities[next(row["priority"] for row in rows if row["id"] == key)] += 1
    assert ranks[True] < len(MANY) / 2
    assert len(priorities) == 3
    assert max(priorities.values()) < len(MANY) * 0.6


@every_seed
def test_a_reply_with_an_address_or_a_number_of_ours_does_not_pass(seed: str) -> None:
    environment = made("escalation", 4, seed)
    engineer = step_of(environment, "tickets_assign").arguments["assignee"]
    for leak in (f"Write to {engineer}.", "You get a credit of 9500."):
        assert not passes(episode(environment, said_in(environment, "mail_reply", leak)))


@every_seed
def test_a_report_with_other_times_does_not_pass(seed: str) -> None:
    environment = made("escalation", 1, seed)
    assert not passes(played(environment, last_words(environment, lambda said: f"{said} Or rather by 03:00.")))


@every_seed
def test_many_internal_notes_do_not_pass(seed: str) -> None:
    environment = made("escalation", 1, seed)
    ticket = step_of(environment, "tickets_transition").arguments["ticket_id"]
    note = Step(call="tickets_comment", arguments={"ticket_id": ticket, "body": "Noise.", "public": False})
    assert not passes(episode(environment, [*environment.oracle[:-1], *[note] * 5, environment.oracle[-1]]))


@every_seed
@pytest.mark.parametrize("level", [1, 4])
def test_a_reply_may_quote_the_mail_it_answers(level: int, seed: str) -> None:
    environment = made("escalation", level, seed)
    message = step_of(environment, "mail_reply").arguments["message_id"]
    assert_passes(episode(environment, said_in(environment, "mail_reply", quote(environment, message))))


@every_seed
def test_the_promised_time_may_be_written_in_utc_or_with_its_zone(seed: str) -> None:
    environment = made("escalation", 2, seed)
    facts = next(check.facts for check in environment.checks if isinstance(check, StatesCheck))
    clock = facts[2].split()[0]
    due = datetime.strptime(f"{facts[1]} {facts[2]}", "%d %B %Y %H:%M UTC%z")
    zone = environment.image.people[environment.principal].timezone
    for written in (f"{due.astimezone(ZoneInfo('UTC')):%H:%M} UTC", f"{clock} ({zone})", f"{clock}"):
        reply = on(
            "mail_reply",
            lambda step, written=written: [but(step, body=step.arguments["body"].replace(clock, written))],
        )
        assert_passes(played(environment, reply))


@every_seed
def test_a_ticket_may_be_written_with_a_number_sign(seed: str) -> None:
    environment = made("escalation", 1, seed)
    ticket = step_of(environment, "tickets_transition").arguments["ticket_id"]
    signed = on("mail_reply", lambda step: [but(step, body=step.arguments["body"].replace(ticket, f"#{ticket}"))])
    assert_passes(played(environment, signed))


# ---------------------------------------------------------------- inbox triage


@every_seed
@pytest.mark.parametrize("level", [2, 5])
def test_dates_that_changed_places_in_the_report_do_not_pass(level: int, seed: str) -> None:
    environment = made("inbox_triage", level, seed)
    report = next(check for check in environment.checks if isinstance(check, StatesCheck) and check.id == "report")
    (_, one), (_, other), *_ = report.together
    trade = last_words(environment, lambda said: said.replace(one, "@").replace(other, one).replace("@", other))
    trajectory = played(environment, trade)
    assert not passes(trajectory)
    assert any("is not said of" in reason for reason in failed(trajectory))


@every_seed
@pytest.mark.parametrize("level", [2, 5])
@pytest.mark.parametrize(
    "line",
    ["- {order}: {date}", "| {order} | {date} |", "{date}: {order} is answered.", "{order}\n  delivery on {date}"],
)
def test_a_report_may_be_a_list_or_a_table(line: str, level: int, seed: str) -> None:
    environment = made("inbox_triage", level, seed)
    report = next(check for check in environment.checks if isinstance(check, StatesCheck) and check.id == "report")
    said = "\n".join(["Here is what I drafted today:", *(line.format(order=o, date=d) for o, d in report.together)])
    assert_passes(played(environment, last_words(environment, lambda _: said)))


@every_seed
@pytest.mark.parametrize("level", [2, 4])
def test_drafts_may_quote_the_mails_they_answer(level: int, seed: str) -> None:
    environment = made("inbox_triage", level, seed)

    def quoted(step: Step) -> list[Step]:
        message = step.arguments["reply_to_message_id"]
        return [but(step, body=step.arguments["body"] + quote(environment, message))]

    assert_passes(played(environment, on("mail_create_draft", quoted)))


@every_seed
def test_a_report_may_name_the_days_of_the_mails_it_used(seed: str) -> None:
    environment = made("inbox_triage", 3, seed)
    used = [step.arguments["message_id"] for step in environment.oracle if step.call == "mail_get_message"]
    rows = {row["id"]: row for row in environment.records["mail.message"]}
    days = [local(environment, rows[key]["sent_at"].replace("Z", "+00:00")) for key in used]
    told = " ".join(f"Mail of {day.day} {day:%B %Y}." for day in days)
    assert_passes(played(environment, last_words(environment, lambda said: f"{said} {told}")))


@every_seed
def test_a_wrong_draft_may_be_changed_or_deleted(seed: str) -> None:
    environment = made("inbox_triage", 2, seed)

    def mended(step: Step) -> list[Step]:
        wrong = but(step, body="To be written.").model_copy(update={"bind": "wrong"})
        right = {"draft_id": "$wrong.draft_id", "body": step.arguments["body"]}
        return [wrong, Step(call="mail_update_draft", arguments=right)]

    def redone(step: Step) -> list[Step]:
        wrong = but(step, body="To be written.").model_copy(update={"bind": "wrong"})
        return [wrong, Step(call="mail_delete_draft", arguments={"draft_id": "$wrong.draft_id"}), step]

    for change in (mended, redone):
        assert_passes(played(environment, on("mail_create_draft", change)))


@every_seed
def test_deleting_or_sending_a_draft_of_the_user_does_not_pass(seed: str) -> None:
    environment = made("inbox_triage", 2, seed)
    (own,) = environment.records["mail.draft"]
    for tool in ("mail_delete_draft", "mail_send_draft"):
        spoilt = [*environment.oracle[:-1], Step(call=tool, arguments={"draft_id": own["id"]}), environment.oracle[-1]]
        assert not passes(episode(environment, spoilt))


# ---------------------------------------------------------------- ticket routing


def test_the_place_in_the_list_does_not_give_the_ticket_away() -> None:
    places: Counter[int] = Counter()
    for seed in MANY:
        environment = made("ticket_routing", 4, seed)
        keys = [row["id"] for row in environment.records["desk.ticket"]]
        places[keys.index(step_of(environment, "desk_assign").arguments["id"])] += 1
    assert len(places) > 3
    assert max(places.values()) < len(MANY) / 2
