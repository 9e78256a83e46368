"""What each kind of check accepts and refuses, and what is wrong with a check before it runs."""

from __future__ import annotations

from itertools import permutations, product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from harness.check_compiler import compile_checks
from harness.checks import CompiledChecks, run_checks
from harness.outcome import Outcome
from servers.errors import SpecError
from tests.harness.notebook_case import CHECKS, IMAGE, USER, Case

NOTE = "notes.note"


def test_a_record_check_counts_records_that_fit() -> None:
    case = Case()
    assert case.holds({"kind": "record", "type": NOTE, "where": {"text": "alpha"}})
    assert case.holds({"kind": "record", "type": NOTE, "where": {"tags": {"contains": "ü"}}, "count": {"exactly": 1}})
    assert case.holds({"kind": "record", "type": NOTE, "count": {"min": 2, "max": 3}})
    found = case.wrong({"kind": "record", "type": NOTE, "where": {"text": "omega"}})
    assert "0 found, at least 1 expected" in found
    assert "omega" in found
    assert "3 found, at most 2 expected" in case.wrong({"kind": "record", "type": NOTE, "count": {"max": 2}})
    assert "3 found, exactly 2 expected" in case.wrong({"kind": "record", "type": NOTE, "count": {"exactly": 2}})


def test_a_field_check_looks_at_one_field_of_one_record() -> None:
    case = Case()
    done = {"kind": "field", "type": NOTE, "key": "a", "field": "done", "is": True}
    assert case.wrong(done) == "notes.note 'a': done is False, expected True"
    case.call("notes_edit", note_id="a", done=True)
    assert case.holds(done)
    assert case.holds({**done, "field": "tags[0]", "is": {"any_of": ["x", "y"]}})
    assert case.holds({**done, "field": "seen_at", "is": None})
    case.call("notes_drop", note_id="a")
    assert "there is no notes.note 'a'" in case.wrong(done)


@pytest.mark.parametrize(
    "moment",
    [
        "2026-03-01T08:00:00+01:00",
        "2026-03-01T07:00:00Z",
        "2026-02-28T23:00:00-08:00",
        {"after": "2026-03-01T07:59:59+01:00"},
        {"before": "2026-03-01T07:00:01Z"},
        {"any_of": ["2026-03-01T02:00:00-05:00", "2026-03-01T09:00:00Z"]},
        {"not": "2026-03-01T08:00:00Z"},
    ],
)
def test_times_are_compared_as_instants(moment: object) -> None:
    case = Case()
    assert case.holds({"kind": "field", "type": NOTE, "key": "b", "field": "seen_at", "is": moment})
    assert case.holds({"kind": "record", "type": NOTE, "where": {"seen_at": moment, "id": "b"}})


def test_times_of_changed_records_are_compared_as_instants() -> None:
    case = Case()
    case.call("notes_put", note_id="n")
    allowed = {
        "type": NOTE,
        "where": {"seen_at": {"after": "2026-03-02T07:59:59Z", "before": "2026-03-02T10:00:00+01:00"}},
    }
    assert case.holds({"kind": "changes", "allow": [allowed]})


def test_nothing_may_change_that_is_not_on_the_list() -> None:
    case = Case()
    nothing = {"kind": "changes"}
    assert case.holds(nothing)
    case.call("notes_edit", note_id="b", text="new")
    assert case.wrong(nothing) == "updated notes.note 'b' (text), which was not asked for"
    assert case.holds({"kind": "changes", "allow": [{"type": NOTE}]})
    case.call("notes_put", note_id="n")
    case.call("notes_drop", note_id="c")
    assert case.holds({"kind": "changes", "allow": [{"type": NOTE}]})
    only_updates = {"kind": "changes", "allow": [{"type": NOTE, "operations": ["updated"]}]}
    assert "created notes.note 'n'" in case.wrong(only_updates)
    both = {"type": NOTE, "operations": ["created", "updated"]}
    assert "deleted notes.note 'c'" in case.wrong({"kind": "changes", "allow": [both]})


def test_an_allowed_change_may_be_bound_to_records_fields_and_a_number() -> None:
    case = Case()
    case.call("notes_edit", note_id="a", text="new")
    case.call("notes_edit", note_id="b", text="new", done=True)
    assert case.holds({"kind": "changes", "allow": [{"type": NOTE, "fields": ["text", "done"], "at_most": 2}]})
    assert "'b' (done, text)" in case.wrong({"kind": "changes", "allow": [{"type": NOTE, "fields": ["text"]}]})
    assert "'b'" in case.wrong({"kind": "changes", "allow": [{"type": NOTE, "at_most": 1}]})
    assert "'b'" in case.wrong({"kind": "changes", "allow": [{"type": NOTE, "where": {"id": "a"}}]})
    by_id = [{"type": NOTE, "where": {"id": key}, "at_most": 1} for key in "ab"]
    assert case.holds({"kind": "changes", "allow": by_id})


def test_only_the_net_changes_of_the_agent_count() -> None:
    case = Case()
    case.coworker("notes_edit", note_id="a", text="Omar's")
    case.call("notes_edit", note_id="b", text="other")
    case.call("notes_edit", note_id="b", text="beta")
    case.call("notes_put", note_id="n")
    case.call("notes_drop", note_id="n")
    case.call("notes_spoil", note_id="c")
    assert case.holds({"kind": "changes"})


@given(
    allowed=st.lists(st.sets(st.sampled_from("abc")), min_size=1, max_size=3),
    order=st.permutations("abc"),
)
def test_which_change_uses_which_place_does_not_depend_on_the_order(allowed: list[set[str]], order: list[str]) -> None:
    case = Case()
    for key in order:
        case.call("notes_edit", note_id=key, text="new")
    allow = [{"type": NOTE, "where": {"id": {"any_of": sorted(keys) or ["-"]}}, "at_most": 1} for keys in allowed]
    possible = any(
        all(key in allowed[place] for key, place in zip("abc", places, strict=True))
        for places in permutations(range(len(allowed)), 3)
    )
    assert case.holds({"kind": "changes", "allow": allow}) == possible


def test_a_calls_check_counts_the_agents_calls() -> None:
    case = Case()
    case.coworker("notes_show", note_id="a")
    case.call("notes_show", note_id="a")
    case.call("notes_show", note_id="b")
    case.call("notes_show", note_id="nowhere")
    pattern: dict[str, Any] = {"tool": "notes_show"}
    assert case.holds({"kind": "calls", "call": pattern, "count": {"exactly": 2}})
    assert case.holds({"kind": "calls", "call": pattern, "ok": False, "count": {"exactly": 1}})
    assert case.holds({"kind": "calls", "call": pattern, "ok": None, "count": {"exactly": 3}})
    assert case.holds({"kind": "calls", "call": {**pattern, "by": "anyone"}, "count": {"exactly": 3}})
    assert case.holds({"kind": "calls", "call": {**pattern, "where": {"note_id": "b"}}, "count": {"exactly": 1}})
    assert case.holds({"kind": "calls", "call": {**pattern, "result": {"text": "beta"}}, "count": {"exactly": 1}})
    several = {"kind": "calls", "call": {"tool": ["notes_drop", "notes_show"]}, "count": {"max": 0}}
    assert case.wrong(several) == "calls of notes_drop or notes_show: 2 found, at most 0 expected"


def test_an_order_check_wants_the_first_call_before_the_second() -> None:
    order = {"kind": "order", "first": {"tool": "notes_show"}, "then": {"tool": "notes_drop"}}
    early, late, never, refused = Case(), Case(), Case(), Case()
    early.call("notes_drop", note_id="a")
    early.call("notes_show", note_id="b")
    assert early.wrong(order) == "notes_drop was called before notes_show"
    late.call("notes_show", note_id="a")
    late.call("notes_drop", note_id="a")
    assert late.holds(order)
    assert never.holds(order)
    refused.call("notes_show", note_id="nowhere")
    refused.call("notes_drop", note_id="a")
    assert not refused.holds(order)


def test_stated_facts_are_compared_as_values() -> None:
    facts = {"kind": "states", "facts": ["ORD-2041", "12 March 2026"], "watch": ["id", "date"]}
    case = Case()
    assert case.wrong(facts) == "the agent said nothing to the user"
    case.say("Order ORD-2041: 2026-03-12.")
    assert case.holds(facts)
    case.say("ORD-2041 comes on Thursday, March 12.")
    assert case.holds(facts)
    case.say("ORD-2041 comes on 13 March 2026.")
    wrong = case.wrong(facts)
    assert "2026-03-12 is not stated" in wrong
    assert "2026-03-13 is stated but wrong or surplus" in wrong
    case.say("ORD-2041 and ORD-9 come on 12 March 2026.")
    assert "ORD-9 is stated but wrong or surplus" in case.wrong(facts)
    assert case.holds({**facts, "allowed": ["ORD-9"]})
    assert case.holds({**facts, "watch": ["date"]})


def test_facts_may_have_to_be_said_of_each_other() -> None:
    pairs = [["ORD-1", "5 May 2026"], ["ORD-2", "6 May 2026"]]
    facts = {"kind": "states", "facts": [fact for pair in pairs for fact in pair], "together": pairs}
    case = Case()
    case.say("ORD-1 comes on 5 May 2026, ORD-2 on 6 May 2026.")
    assert case.holds(facts)
    case.say("ORD-1 comes on 6 May 2026, ORD-2 on 5 May 2026.")
    assert "date 2026-05-05 is not said of ORD-1" in case.wrong(facts)


def test_what_is_stated_is_read_from_the_last_message_all_messages_or_a_record() -> None:
    case = Case()
    case.say("It is ORD-1.")
    case.hear("And the other?")
    case.say("It is ORD-2.")
    assert case.holds({"kind": "states", "facts": ["ORD-2"], "watch": ["id"]})
    assert not case.holds({"kind": "states", "facts": ["ORD-1"]})
    assert case.holds({"kind": "states", "source": "user", "facts": ["ORD-1", "ORD-2"], "watch": ["id"]})
    case.hear("Thanks.")
    assert case.wrong({"kind": "states", "facts": ["ORD-2"]}) == "the agent said nothing to the user"
    record = {"kind": "states", "source": "record", "type": NOTE, "where": {"id": "a"}, "field": ["id", "text"]}
    assert not case.holds({**record, "facts": ["ORD-3"]})
    case.call("notes_edit", note_id="a", text="ORD-3 is Dana Fox's")
    assert case.holds({**record, "facts": ["ORD-3", "Dana Fox"], "watch": ["id", "name"]})
    assert "there is no notes.note" in case.wrong({**record, "where": {"id": "zz"}, "facts": ["ORD-3"]})


def test_asking_counts_only_before_acting() -> None:
    asked = {"kind": "asked", "fact": "colour", "before": {"tool": "notes_drop"}}
    never, before, after = Case(), Case(), Case()
    assert never.wrong(asked) == "the user was never asked about colour"
    before.hear("Blue.", "colour")
    before.call("notes_drop", note_id="a")
    assert before.holds(asked)
    after.call("notes_drop", note_id="a")
    after.hear("Blue.", "colour")
    assert after.wrong(asked) == "notes_drop was called before the user had told colour"


def test_a_check_counts_only_with_what_it_needs_however_far_away() -> None:
    case = Case()
    holds = {"kind": "record", "type": NOTE}
    results = case.results(
        {**holds, "id": "report", "needs": ["work"]},
        {**holds, "id": "work", "needs": ["ground"]},
        {"kind": "record", "type": NOTE, "where": {"text": "omega"}, "id": "ground"},
        {**holds, "id": "other"},
    )
    verdicts = {name: result.verdict for name, result in results.items()}
    assert verdicts == {"report": "FAIL", "work": "FAIL", "ground": "FAIL", "other": "PASS"}
    assert results["work"].detail == "counts only together with ground"


def test_a_check_that_breaks_is_an_error_and_not_a_verdict() -> None:
    case = Case()
    [check] = CHECKS.validate_python([{"kind": "record", "id": "it", "type": NOTE}])

    def broken(outcome: Outcome) -> str | None:
        raise ZeroDivisionError("no way to tell")

    [result] = run_checks(CompiledChecks(((check, broken),)), Outcome(case.world))
    assert result.verdict == "ERROR"
    assert "no way to tell" in result.detail


FIRST = {"tool": "notes_show"}
WRONG: dict[str, tuple[dict[str, Any], str, str]] = {
    "record type": ({"kind": "record", "type": "notes.nte"}, "checks[0].type", "Did you mean notes.note?"),
    "field": ({"kind": "record", "type": NOTE, "where": {"txt": 1}}, "checks[0].where.txt", "Did you mean text?"),
    "nested": ({"kind": "record", "type": NOTE, "where": {"tgs[0]": 1}}, "checks[0].where.tgs[0]", "tags"),
    "pattern": (
        {"kind": "record", "type": NOTE, "where": {"text": {"like": 1}}},
        "checks[0].where.text.like",
        "Valid:",
    ),
    "one field": (
        {"kind": "field", "type": NOTE, "key": "a", "field": "dne", "is": 1},
        "checks[0].field",
        "Did you mean done?",
    ),
    "is": (
        {"kind": "field", "type": NOTE, "key": "a", "field": "done", "is": {"equal": 1}},
        "checks[0].is.equal",
        "equals",
    ),
    "allowed type": ({"kind": "changes", "allow": [{"type": NOTE}, {"type": "x"}]}, "checks[0].allow[1].type", NOTE),
    "allowed where": (
        {"kind": "changes", "allow": [{"type": NOTE, "where": {"i": 1}}]},
        "checks[0].allow[0].where.i",
        "id",
    ),
    "allowed field": (
        {"kind": "changes", "allow": [{"type": NOTE, "fields": ["text", "don"]}]},
        "checks[0].allow[0].fields[1]",
        "Did you mean done?",
    ),
    "tool": (
        {"kind": "calls", "call": {"tool": "notes_shw"}, "count": {"max": 0}},
        "checks[0].call.tool",
        "Did you mean notes_show",
    ),
    "argument": (
        {"kind": "calls", "call": {"tool": "notes_show", "where": {"note": "a"}}, "count": {"max": 0}},
        "checks[0].call.where.note",
        "Did you mean note_id?",
    ),
    "first": ({"kind": "order", "first": {"tool": "x"}, "then": FIRST}, "checks[0].first.tool", "Valid:"),
    "then": ({"kind": "order", "first": FIRST, "then": {"tool": "x"}}, "checks[0].then.tool", "Valid:"),
    "fact of the user": ({"kind": "asked", "fact": "color", "before": FIRST}, "checks[0].fact", "Did you mean colour?"),
    "no fact": ({"kind": "states", "facts": ["soon"]}, "checks[0].facts[0]", "Write it like"),
    "two facts": (
        {"kind": "states", "facts": ["ORD-1"], "allowed": ["ORD-2 or ORD-3"]},
        "checks[0].allowed[0]",
        "2 facts",
    ),
    "text field": (
        {"kind": "states", "source": "record", "type": NOTE, "field": "boddy", "facts": ["ORD-1"]},
        "checks[0].field",
        "Valid:",
    ),
    "need": ({"kind": "record", "type": NOTE, "needs": ["itt"]}, "checks[0].needs[0]", "Did you mean it?"),
    "itself": ({"kind": "record", "type": NOTE, "needs": ["it"]}, "checks[0].needs[0]", "needs itself"),
}


@pytest.mark.parametrize(("check", "where", "words"), WRONG.values(), ids=list(WRONG))
def test_a_wrong_name_is_found_before_the_episode_with_its_place_and_a_way_out(
    check: dict[str, Any], where: str, words: str
) -> None:
    with pytest.raises(SpecError) as raised:
        compile_checks(CHECKS.validate_python([{"id": "it", **check}]), IMAGE, USER)
    [problem] = raised.value.problems
    assert problem.where == where
    assert words in str(problem)


def test_all_problems_are_reported_together() -> None:
    checks = [{"id": "it", **check} for check, _, _ in WRONG.values()]
    with pytest.raises(SpecError) as raised:
        compile_checks(CHECKS.validate_python(checks), IMAGE, USER)
    codes = [problem.code for problem in raised.value.problems]
    assert codes.count("duplicate_id") == len(checks) - 1
    assert len(codes) == 2 * len(checks) - 1


@pytest.mark.parametrize(
    ("check", "words"),
    [
        ({"kind": "record", "type": NOTE, "count": {}}, "expected exactly, min or max"),
        ({"kind": "record", "type": NOTE, "count": {"exactly": 1, "min": 1}}, "exactly excludes"),
        ({"kind": "states", "facts": ["ORD-1"], "type": NOTE}, "type goes with source: record"),
        ({"kind": "states"}, "any text would do"),
        ({"kind": "record", "type": NOTE, "weight": 0}, "greater than 0"),
        ({"kind": "record", "type": NOTE, "weight": float("inf")}, "finite"),
        ({"kind": "recrd", "type": NOTE}, "does not match any of the expected tags"),
        ({"kind": "record", "type": NOTE, "were": {}}, "Extra inputs"),
    ],
)
def test_a_check_that_cannot_mean_anything_is_refused(check: dict[str, Any], words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        CHECKS.validate_python([{"id": "it", **check}])


def test_all_kinds_of_count_agree_with_counting() -> None:
    case = Case()
    for low, high in product(range(5), range(5)):
        fits = low <= 3 <= high
        assert case.holds({"kind": "record", "type": NOTE, "count": {"min": low, "max": high}}) == fits
