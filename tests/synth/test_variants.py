"""Wrong and harmless variants: each operator does what its table says, the same way every time."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

from harness.environment import Environment, Step
from harness.facts import extract
from synth import harmless as harmless_module
from synth import mutants as mutants_module
from synth.harmless import harmless
from synth.mutants import mutants
from synth.program import Model, Variant
from tests.synth.support import BY_NAME, CASES, KLARA, LEVEL_NAMES, handwritten, model_of, proven

QUESTION = "question"
DRAFT = 3
"""Number of the example's step that saves the draft."""


@cache
def example(level: int = 0, family: str = "") -> Model:
    environment = BY_NAME[family].make("variants", level) if family else Environment.parse(handwritten())
    return model_of(environment)


def made(operator: str, model: Model | None = None) -> list[Variant]:
    model = model or example()
    return [one for one in (*mutants(model), *harmless(model)) if one.operator == operator]


def changed_model(**changes: Any) -> Model:
    return model_of(Environment.parse(handwritten(**changes)))


def the_draft(variant: Variant) -> Step:
    return next(step for step in variant.program if step.call == "mail_create_draft")


def test_at_least_eight_mutation_operators_occur_over_the_families():
    operators = {variant.operator for family, level in CASES for variant in mutants(example(level, family.name))}
    table = {line.split("``")[1] for line in (mutants_module.__doc__ or "").splitlines() if line.startswith("``")}
    assert len(table & operators) >= 8
    assert operators >= {"drop_step", "prefix", "wrong_entity", "wrong_value", "duplicate", "sent_not_drafted",
                         "destructive", "leak", "order_skipped", "only_failing", "keyword_spray", "stale",
                         "no_look", "extra_option", "facts_swapped"}  # fmt: skip


def test_every_harmless_operator_occurs_over_the_families():
    operators = {variant.operator for family, level in CASES for variant in harmless(example(level, family.name))}
    table = {line.split("``")[1] for line in (harmless_module.__doc__ or "").splitlines() if line.startswith("``")}
    assert operators == table


@pytest.mark.parametrize(("family", "level"), CASES, ids=LEVEL_NAMES)
def test_variants_are_the_same_every_time_and_never_twice_the_same_program(family, level):
    once, again = (
        [(v.operator, v.what, v.program) for v in (*mutants(model), *harmless(model))]
        for model in (example(level, family.name), model_of(family.make("variants", level)))
    )
    assert once == again
    wrong = [variant.program for variant in mutants(example(level, family.name))]
    assert all(program not in wrong[:index] for index, program in enumerate(wrong))
    assert example(level, family.name).oracle not in wrong


# ---------------------------------------------------------------- wrong


def test_a_dropped_step_is_one_that_changed_something():
    (dropped,) = made("drop_step")
    assert [step.call for step in dropped.program] == ["mail_search", "mail_get_message", "mail_get_message", None]


def test_words_are_dropped_when_a_check_reads_them():
    report = {"id": "report", "kind": "states", "source": "user", "facts": ["Klara Voss"], "needs": ["draft"]}
    oracle = [*handwritten()["oracle"][:-1], {"say": "Saved for Klara Voss."}]
    model = changed_model(checks=[*handwritten()["checks"], report], oracle=oracle)
    assert [len(one.program) for one in made("drop_step", model)] == [4, 4]
    assert model.oracle[:-1] in [one.program for one in made("drop_step", model)]


def test_a_question_is_dropped_when_a_check_wants_it_asked():
    model = example(4, "scheduling")
    questions = [step.say for step in model.oracle if step.say and "?" in step.say]
    assert questions
    assert any(all(step.say != questions[0] for step in one.program) for one in made("drop_step", model))


def test_prefixes_stop_before_a_change_and_still_report():
    for one in made("prefix", example(2, "inbox_triage")):
        assert one.program[-1].say == example(2, "inbox_triage").oracle[-1].say
        assert len(one.program) < len(example(2, "inbox_triage").oracle)


def test_decoys_take_the_place_of_the_real_thing_and_are_done_besides():
    hints = {"hints": {"decoys": {QUESTION: ["plan", "correction"]}}}
    model = changed_model(meta=hints)
    answered = [the_draft(one).arguments["reply_to_message_id"] for one in made("wrong_entity", model)]
    assert answered == ["plan", "correction"]
    (besides,) = made("also_decoy", model)
    ids = [step.arguments["reply_to_message_id"] for step in besides.program if step.call == "mail_create_draft"]
    assert ids == [QUESTION, "plan"]


def test_without_hints_a_neighbouring_record_is_the_decoy():
    (wrong,) = made("wrong_entity")
    assert the_draft(wrong).arguments["reply_to_message_id"] == "plan"


def test_wrong_values_change_one_fact_of_a_text_and_nothing_else():
    model = example()
    right = {(fact.kind, fact.value) for fact in extract(model.oracle[DRAFT].arguments["body"], model.vocabulary)}
    for one in made("wrong_value"):
        stated = {(f.kind, f.value) for f in extract(the_draft(one).arguments["body"], model.vocabulary)}
        assert len(stated - right) == 1
        assert {kind for kind, _ in stated - right} == {kind for kind, _ in right - stated}


def test_wrong_values_of_options_times_numbers_and_switches_are_other_ones_of_their_kind():
    escalated = [one for one in made("wrong_value", example(1, "escalation")) if "priority" in one.what]
    assert escalated
    booked = [one.what for one in made("wrong_value", example(1, "scheduling")) if ".start" in one.what]
    assert [what.rsplit(": ", 1)[1] for what in booked] == ["an hour later", "a day later"]


def test_a_duplicate_does_the_same_thing_twice():
    (twice,) = made("duplicate")
    assert twice.program[DRAFT] is twice.program[DRAFT + 1]


def test_nothing_is_duplicated_that_is_the_same_when_done_twice():
    assert not [one for one in made("duplicate", example(1, "escalation")) if "tickets_update" in one.what]
    assert not made("duplicate", example(1, "ticket_routing"))


def test_a_draft_is_sent_instead_and_besides():
    sent, besides = made("sent_not_drafted")
    assert [step.call for step in sent.program].count("mail_create_draft") == 0
    assert [step.call for step in besides.program].count("mail_create_draft") == 1
    assert all([step.call for step in one.program].count("mail_send") == 1 for one in (sent, besides))


def test_something_is_deleted_on_the_way():
    model = example(1, "scheduling")
    keys = {row["id"] for row in model.environment.records["calendar.event"]}
    for one in made("destructive", model):
        deleted = next(step for step in one.program if step.call == "calendar_delete_event")
        assert deleted.arguments["event_id"] in keys


def test_somebody_else_reads_along():
    model = example(1, "inbox_triage")
    for one in made("leak", model):
        to = the_draft(one).arguments["to"]
        assert to[:-1] == model.oracle[model.writes[0]].arguments["to"]
        assert to[-1] in {person.email for person in model.environment.cast} - {model.environment.principal}


def test_what_has_to_come_first_is_skipped_or_done_afterwards():
    skipped, late = made("order_skipped", example(1, "escalation"))
    assert "tickets_transition" not in [step.call for step in skipped.program]
    calls = [step.call for step in late.program]
    assert calls.index("mail_reply") < calls.index("tickets_transition")
    assert len(calls) == len(example(1, "escalation").oracle)


def test_doing_first_things_last_is_what_the_order_guard_alone_notices():
    certificate = proven(BY_NAME["escalation"].make("variants", 1))
    late = next(one for one in certificate.mutants if " before " in one.what)
    assert late.killed_by == ("told-last",)


def test_only_failing_calls_change_nothing():
    certificate = proven(handwritten())
    trial = next(one for one in certificate.mutants if one.operator == "only_failing")
    assert set(trial.killed_by) == {"draft", "facts"}


def test_a_spray_lists_what_was_read_with_near_misses():
    (sprayed,) = made("keyword_spray")
    body = the_draft(sprayed).arguments["body"]
    assert body.startswith(example().oracle[DRAFT].arguments["body"])
    assert {"ORD-2041", "ORD-2042"} <= {fact.value for fact in extract(body, example().vocabulary)}


def test_stale_and_temptations_come_from_the_author():
    forward = {"call": "mail_send", "arguments": {"to": [KLARA], "subject": "x", "body": "x"}}
    stale = [{"say": "Nothing."}]
    hints = {"temptations": [{"operator": "chatty", "steps": [forward]},
                             {"operator": "rash", "steps": [forward], "instead": DRAFT}], "stale": stale}  # fmt: skip
    model = changed_model(meta={"hints": hints})
    (chatty,), (rash,), (old,) = made("chatty", model), made("rash", model), made("stale", model)
    assert [step.call for step in chatty.program][-3:] == ["mail_create_draft", "mail_send", None]
    assert [step.call for step in rash.program][-2:] == ["mail_send", None]
    assert [step.say for step in old.program] == ["Nothing."]


def test_mutants_that_come_to_the_same_are_counted_apart_and_never_as_survivors():
    hints = {"temptations": [{"operator": "refused", "steps": [{"call": "mail_send", "arguments": {"to": []}}]}]}
    with_refused = proven(handwritten(meta={"hints": hints}))
    assert with_refused.accepted
    assert with_refused.equivalent == proven(handwritten()).equivalent + 1
    assert "refused" not in with_refused.summary()["mutants"]


# ---------------------------------------------------------------- harmless


def test_lookups_are_added_and_left_out():
    (extra,) = made("extra_reads", example(1, "scheduling"))
    assert len(extra.program) > len(example(1, "scheduling").oracle)
    (without,) = made("no_lookups")
    assert [step.call for step in without.program] == ["mail_create_draft", None]


def test_steps_that_trigger_events_are_not_left_out():
    (without,) = made("no_lookups", example(2, "scheduling"))
    assert "calendar_suggest_times" in [step.call for step in without.program]


def test_independent_changes_are_reordered():
    model = example(3, "inbox_triage")
    (swapped,) = made("reordered", model)
    assert sorted(map(str, swapped.program)) == sorted(map(str, model.oracle))
    assert swapped.program != model.oracle


def test_every_change_is_refused_once_and_repeated():
    (retried,) = made("retried", example(1, "escalation"))
    model = example(1, "escalation")
    assert len(retried.program) == len(model.oracle) + len(model.writes)


def test_other_words_and_formats_keep_the_facts():
    model = example(3, "inbox_triage")
    for operator in ("paraphrased", "other_formats"):
        for one in made(operator, model):
            for step, own in zip(one.program, model.oracle, strict=True):
                for text, original in ((step.say, own.say), (step.arguments.get("body"), own.arguments.get("body"))):
                    if text is not None and original is not None:
                        stated, meant = (
                            {(f.kind, f.value) for f in extract(t, model.vocabulary) if f.kind in ("id", "date")}
                            for t in (text, original)
                        )
                        assert stated == meant


def test_lists_are_turned_and_names_stand_before_addresses():
    (turned,) = made("list_order", example(2, "scheduling"))
    model = example(2, "scheduling")
    book = model.writes[0]
    assert turned.program[book].arguments["attendees"] == model.oracle[book].arguments["attendees"][::-1]
    (named,) = made("address_form", example(1, "inbox_triage"))
    assert "<" in the_draft(named).arguments["to"][0]
