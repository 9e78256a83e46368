"""Agents that work in their own way and must pass, and agents that only seem to work and must not."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from zoneinfo import ZoneInfo

import pytest

from harness.environment import Environment, Step
from tests.synth.playing import Change, assert_passes, but, every_seed, last_words, made, on, passes, played, today
from tests.synth.support import episode, failed


def in_draft(environment: Environment, text: Callable[[str], str]) -> Change:
    return on("mail_create_draft", lambda step: [but(step, body=text(step.arguments["body"]))])


# ---------------------------------------------------------------- inbox triage


@every_seed
def test_a_draft_may_carry_todays_date(seed):
    environment = made("inbox_triage", 2, seed)
    assert_passes(played(environment, in_draft(environment, lambda body: f"{today(environment)}\n\n{body}")))


@every_seed
def test_recipient_and_subject_of_a_draft_may_follow_from_the_message(seed):
    environment = made("inbox_triage", 3, seed)
    assert_passes(played(environment, on("mail_create_draft", lambda step: [but(step, to=None, subject=None)])))


@every_seed
def test_a_subject_may_be_another_fitting_one(seed):
    environment = made("inbox_triage", 1, seed)
    another = on("mail_create_draft", lambda step: [but(step, subject="Your delivery date")])
    assert_passes(played(environment, another))


@every_seed
def test_a_report_may_tell_what_moved_and_what_was_left_alone(seed):
    environment = made("inbox_triage", 3, seed)
    report = next(check for check in environment.checks if check.id == "report")
    extra = " ".join(getattr(report, "allowed", []))
    assert_passes(played(environment, last_words(environment, lambda said: f"{said} I left alone or saw: {extra}.")))


@every_seed
def test_a_closing_question_after_the_report_does_no_harm(seed):
    environment = made("inbox_triage", 1, seed)
    polite = last_words(environment, lambda said: f"{said} Is there anything else I can do?")
    program = [new for step in environment.oracle for new in polite(step)]
    assert_passes(episode(environment, [*program, Step(say="All right, that is all then.")]))


@every_seed
def test_an_unneeded_question_at_the_beginning_does_no_harm(seed):
    environment = made("inbox_triage", 2, seed)
    assert_passes(played(environment, lambda step: [step], before=[Step(say="Shall I begin with the oldest?")]))


@every_seed
def test_drafts_with_the_dates_of_all_orders_do_not_pass(seed):
    environment = made("inbox_triage", 2, seed)
    plan = next(row["body"] for row in environment.records["mail.message"] if row["body"].count("ORD-") > 2)
    assert not passes(played(environment, in_draft(environment, lambda body: f"{body}\n{plan}")))


@every_seed
def test_a_draft_with_the_old_date_beside_the_new_one_does_not_pass(seed):
    environment = made("inbox_triage", 3, seed)
    report = next(check for check in environment.checks if check.id == "report")
    old = next(text for text in getattr(report, "allowed", []) if "ORD" not in text and text != today(environment))
    assert not passes(played(environment, in_draft(environment, lambda body: f"{body}\nNot {old}.")))


@every_seed
def test_a_draft_that_answers_no_message_does_not_pass(seed):
    environment = made("inbox_triage", 1, seed)
    assert not passes(played(environment, on("mail_create_draft", lambda step: [but(step, reply_to_message_id=None)])))


# ---------------------------------------------------------------- scheduling


@every_seed
@pytest.mark.parametrize("level", [1, 3])
def test_attendees_may_be_named_and_may_include_the_user(seed, level):
    environment = made("scheduling", level, seed)
    names = {person.email: person.name for person in environment.cast}

    def by_name(step: Step) -> list[Step]:
        attendees = [environment.principal, *(names[email] for email in step.arguments["attendees"])]
        return [but(step, attendees=attendees)]

    assert_passes(played(environment, on("calendar_create_event", by_name)))


@every_seed
def test_a_meeting_may_be_booked_and_then_moved(seed):
    environment = made("scheduling", 2, seed)
    stale = environment.meta["hints"]["stale"]
    early = next(step["arguments"] for step in stale if step["call"] == "calendar_create_event")

    def book_and_move(step: Step) -> list[Step]:
        first = but(step, start=early["start"], end=early["end"]).model_copy(update={"bind": "booked"})
        times = {"event_id": "$booked.event_id", "start": step.arguments["start"], "end": step.arguments["end"]}
        return [first, Step(call="calendar_update_event", arguments=times)]

    assert_passes(played(environment, on("calendar_create_event", book_and_move)))


@every_seed
def test_times_may_be_given_in_another_zone(seed):
    environment = made("scheduling", 2, seed)

    def in_utc(step: Step) -> list[Step]:
        times = {name: datetime.fromisoformat(step.arguments[name]).astimezone(ZoneInfo("UTC")).isoformat()
                 for name in ("start", "end")}  # fmt: skip
        return [but(step, **times)]

    assert_passes(played(environment, on("calendar_create_event", in_utc)))


@every_seed
@pytest.mark.parametrize("level", [1, 2, 3, 4])
def test_a_report_may_name_the_end_and_what_the_time_is_for_the_others(seed, level):
    environment = made("scheduling", level, seed)
    booking = next(step for step in environment.oracle if step.call == "calendar_create_event")
    told: list[str] = []
    for email in booking.arguments["attendees"]:
        zone = ZoneInfo(environment.image.people[email].timezone)
        begin, end = (datetime.fromisoformat(booking.arguments[name]).astimezone(zone) for name in ("start", "end"))
        told.append(f"{begin:%H:%M} to {end:%H:%M}")
    zone = ZoneInfo(environment.image.people[environment.principal].timezone)
    end = datetime.fromisoformat(booking.arguments["end"]).astimezone(zone)
    extra = f"It ends at {end:%H:%M}; for the others it is {' and '.join(told)}, all within 09:00 to 17:00."
    assert_passes(played(environment, last_words(environment, lambda said: f"{said} {extra}")))


@every_seed
def test_a_report_may_tell_that_a_slot_was_taken_meanwhile(seed):
    environment = made("scheduling", 2, seed)
    stale = environment.meta["hints"]["stale"]
    taken = next(step["arguments"]["start"] for step in stale if step["call"] == "calendar_create_event")[11:16]
    assert_passes(played(environment, last_words(environment, lambda said: f"{said} {taken} was just taken.")))


@every_seed
@pytest.mark.parametrize("level", [1, 2, 3, 4])
def test_an_unneeded_question_before_the_meeting_is_booked_does_no_harm(seed, level):
    environment = made("scheduling", level, seed)
    rename = next((step for step in environment.oracle if step.call == "calendar_update_event"), None)

    def change(step: Step) -> list[Step]:
        # The user's change of mind comes after the first turns, so it is known before anything is booked.
        if step.call == "calendar_create_event" and rename is not None:
            return [but(step, title=rename.arguments["title"])]
        return [] if step is rename else [step]

    question = Step(say="Do you want a description in the invitation?")
    assert_passes(played(environment, change, before=[question]))


@every_seed
def test_a_closing_question_after_the_booking_does_no_harm(seed):
    environment = made("scheduling", 1, seed)
    polite = last_words(environment, lambda said: f"{said} Shall I add an agenda?")
    program = [new for step in environment.oracle for new in polite(step)]
    assert_passes(episode(environment, [*program, Step(say="All right.")]))


@every_seed
def test_inviting_by_an_update_before_asking_does_not_pass(seed):
    environment = made("scheduling", 4, seed)
    booking = next(step for step in environment.oracle if step.call == "calendar_create_event")
    asking = next(step for step in environment.oracle if step.say and "?" in step.say)
    hold = but(booking, attendees=None).model_copy(update={"bind": "meeting"})
    invite = {"event_id": "$meeting.event_id", "attendees": booking.arguments["attendees"]}
    rest = [step for step in environment.oracle if step not in (booking, asking)]
    program = [hold, Step(call="calendar_update_event", arguments=invite), asking, *rest]
    trajectory = episode(environment, program)
    assert not passes(trajectory)
    assert any(reason.startswith("asked") for reason in failed(trajectory))


@every_seed
def test_a_hold_without_anybody_invited_may_be_made_before_asking(seed):
    environment = made("scheduling", 4, seed)
    booking = next(step for step in environment.oracle if step.call == "calendar_create_event")
    hold = but(booking, attendees=None)
    invite = {"event_id": "$meeting.event_id", "attendees": booking.arguments["attendees"]}
    invited = Step(call="calendar_update_event", arguments=invite)
    program = [hold, *(invited if step is booking else step for step in environment.oracle)]
    assert_passes(episode(environment, program))


@every_seed
def test_a_report_of_another_time_does_not_pass(seed):
    environment = made("scheduling", 1, seed)
    wrong = last_words(environment, lambda said: said[: said.rindex(":") - 2] + "06:45")
    assert not passes(played(environment, wrong))


# ---------------------------------------------------------------- escalation


@every_seed
@pytest.mark.parametrize("level", [1, 4])
def test_an_internal_note_on_the_ticket_may_be_made(seed, level):
    environment = made("escalation", level, seed)
    note = on(
        "tickets_transition",
        lambda step: [
            step,
            Step(
                call="tickets_comment",
                arguments={"ticket_id": step.arguments["ticket_id"], "body": "Escalated as approved.", "public": False},
            ),
        ],
    )
    assert_passes(played(environment, note))


@every_seed
def test_waiting_in_small_steps_and_looking_again_may_be_done(seed):
    environment = made("escalation", 3, seed)
    look = next(step for step in environment.oracle if step.call == "tickets_get_approval")
    patient = on("workplace_wait", lambda step: [but(step, minutes=10), look] * 3)
    assert_passes(played(environment, patient))


@every_seed
def test_the_changes_to_the_ticket_may_come_in_any_order(seed):
    environment = made("escalation", 2, seed)
    changes = [step for step in environment.oracle if step.call in ("tickets_update", "tickets_assign")]
    program = [step for step in environment.oracle if step not in changes]
    turn = next(index for index, step in enumerate(program) if step.call == "tickets_transition")
    assert_passes(episode(environment, [*program[: turn + 1], *reversed(changes), *program[turn + 1 :]]))


@every_seed
def test_a_reply_may_say_when_the_ticket_was_opened_and_which_day_it_is(seed):
    environment = made("escalation", 1, seed)
    facts = next(check for check in environment.checks if check.id == "answer-facts")
    extra = " ".join(getattr(facts, "allowed", []))
    assert_passes(
        played(environment, on("mail_reply", lambda step: [but(step, body=f"{step.arguments['body']} ({extra})")]))
    )


@every_seed
def test_the_report_may_say_when_it_was_approved_and_name_tickets_left_alone(seed):
    environment = made("escalation", 2, seed)
    (wrong,) = environment.meta["hints"]["decoys"].values()
    extra = f"It was approved at 09:41. I left {wrong[0]} and {wrong[1]} alone."
    assert_passes(played(environment, last_words(environment, lambda said: f"{said} {extra}")))


@every_seed
def test_a_reply_that_names_the_engineer_does_not_pass(seed):
    environment = made("escalation", 1, seed)
    assigned = next(step for step in environment.oracle if step.call == "tickets_assign").arguments["assignee"]
    name = environment.image.people[assigned].name
    leak = on("mail_reply", lambda step: [but(step, body=f"{step.arguments['body']} {name} works on it.")])
    assert not passes(played(environment, leak))


@every_seed
def test_a_reply_without_the_work_does_not_pass(seed):
    environment = made("escalation", 1, seed)
    words = [step for step in environment.oracle if step.call in ("mail_search", "mail_get_message", "mail_reply")]
    trajectory = episode(environment, [*words, environment.oracle[-1]])
    assert not passes(trajectory)
    assert trajectory.score is not None
    assert trajectory.score.total == 0


@every_seed
def test_the_promise_reads_the_same_for_the_customer_as_for_the_user(seed):
    environment = made("escalation", 1, seed)
    mail = next(step for step in environment.oracle if step.call == "mail_reply").arguments["message_id"]
    sender = next(row["sender"] for row in environment.records["mail.message"] if row["id"] == mail)
    zones = {environment.image.people[email].timezone for email in (sender, environment.principal)}
    assert len(zones) == 1


# ---------------------------------------------------------------- ticket routing


@every_seed
def test_assigning_twice_and_saying_more_does_no_harm(seed):
    environment = made("ticket_routing", 4, seed)
    twice = on("desk_assign", lambda step: [step, step])
    program = [new for step in environment.oracle[:-1] for new in twice(step)]
    assert_passes(episode(environment, [*program, Step(say="I gave the ticket to the colleague you named.")]))


@every_seed
def test_giving_every_ticket_to_the_colleague_does_not_pass(seed):
    environment = made("ticket_routing", 4, seed)
    keys = [row["id"] for row in environment.records["desk.ticket"]]
    everything = on("desk_assign", lambda step: [but(step, id=key) for key in keys])
    assert not passes(played(environment, everything))
