"""Tools as one-line signatures, and calls read from whatever a student writes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.messages import Message, ToolCall, ToolSpec
from training.tool_text import read_turn, signature, write_calls

plain = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False) | plain,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(plain, inner, max_size=3),
    max_leaves=6,
).filter(lambda value: "_call>" not in str(value) and "think>" not in str(value))
calls = st.lists(
    st.tuples(st.from_regex(r"[a-z_]{1,12}", fullmatch=True), st.dictionaries(plain, values, max_size=3)),
    max_size=3,
)


def test_a_signature_shows_types_choices_and_what_may_be_left_out():
    tool = ToolSpec(
        "ticket_update",
        "Change a ticket.\n  Needs the right to edit.",
        {
            "type": "object",
            "required": ["ticket_id"],
            "properties": {
                "ticket_id": {"type": "string"},
                "status": {"enum": ["open", "done"]},
                "labels": {"type": "array", "items": {"type": "string"}},
                "due": {"anyOf": [{"type": "string"}, {"type": "null"}]},
                "owner": {
                    "type": "object",
                    "properties": {"email": {"type": "string"}},
                    "required": ["email"],
                },
            },
        },
    )
    assert signature(tool) == (
        'ticket_update(ticket_id: string, status?: "open"|"done", labels?: string[], due?: string|null, '
        "owner?: {email: string}) - Change a ticket"
    )


def test_a_tool_without_arguments_or_description_is_still_a_line():
    assert signature(ToolSpec("whoami", "", {"type": "object"})) == "whoami()"


@given(plain, calls)
def test_calls_are_read_back_as_they_were_written(said, wanted):
    said = "" if "_call>" in said or "think>" in said else said.strip()
    written = tuple(ToolCall(f"t1_{n}", name, arguments) for n, (name, arguments) in enumerate(wanted, start=1))
    text = "\n".join(part for part in (said, write_calls(written)) if part)
    assert read_turn(text, call_prefix="t1") == Message(role="assistant", content=said, tool_calls=written)


@given(
    st.text()
    | st.text(alphabet='<tool_call>/{}[]":,\\ nametrue0123')
    | st.binary().map(lambda b: b.decode("utf-8", "replace"))
)
def test_no_text_makes_reading_fail(text):
    for wrapped in (text, f"<tool_call>{text}</tool_call>", f"<tool_call>{text}"):
        turn = read_turn(wrapped)
        assert turn.role == "assistant"
        assert all(call.name or call.problem for call in turn.tool_calls)


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        ('{"name": "a", "arguments": {', "not valid JSON"),
        ("[1]", "a JSON array"),
        ('{"arguments": {}}', 'no "name"'),
        ('{"name": "a", "arguments": "x"}', '"arguments" is a JSON string'),
        ('{"name": "a", "ticket_id": "T-1"}', "unknown keys ['ticket_id']"),
        ('{"name": "a", "arguments": {"x": NaN}}', "NaN is not JSON"),
        ('{"name": "a", "arguments": {"x": "\\ud800"}}', "not valid JSON"),
        ("[" * 100_000, "not valid JSON"),
        ("9" * 5_000, "not valid JSON"),
    ],
)
def test_an_unreadable_call_says_what_is_wrong(body, problem):
    (call,) = read_turn(f"I try. <tool_call>{body}</tool_call>").tool_calls
    assert call.problem is not None
    assert problem in call.problem


def test_a_call_cut_off_by_the_token_limit_is_not_dispatched():
    turn = read_turn('<tool_call>{"name":"a","arguments":{}}</tool_call><tool_call>{"name":"b"')
    assert [call.problem for call in turn.tool_calls] == [None, "the call is not closed with </tool_call>"]


def test_thoughts_reach_nobody():
    assert read_turn("<think>Ann is annoying</think>\n\nDone.").content == "Done."
    assert read_turn("<think>Ann is").content == ""
    assert read_turn('<think><tool_call>{"name":"a"}</tool_call></think>Hm').tool_calls == ()
