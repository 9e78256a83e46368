from __future__ import annotations

import copy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from servers.bindings import BindingError, lookup, parse_path, references, resolve

BOUND = {
    "draft": {"draft_id": "D-7", "to": ["ana@acme.example", "bo@acme.example"], "size": 3, "sent": False},
    "rows": [{"total": 12.5}, {"total": 4}],
}

keys = st.from_regex(r"[A-Za-z_][A-Za-z0-9_-]{0,8}", fullmatch=True)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(alphabet="ab{}. 7", max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=3),
    max_leaves=8,
)


def test_a_reference_that_is_the_whole_string_keeps_the_type_of_its_value() -> None:
    assert resolve("$draft.to", BOUND) == ["ana@acme.example", "bo@acme.example"]
    assert resolve("$draft.size", BOUND) == 3
    assert resolve("${draft.sent}", BOUND) is False
    assert resolve("$rows[-1].total", BOUND) == 4
    assert resolve("$draft", BOUND) == BOUND["draft"]


def test_references_inside_a_text_are_written_into_it() -> None:
    text = "Draft ${draft.draft_id} to ${draft.to[0]}: ${rows[0].total} EUR, sent: ${draft.sent}"
    assert resolve(text, BOUND) == "Draft D-7 to ana@acme.example: 12.5 EUR, sent: false"


def test_references_are_found_at_any_depth_and_the_template_stays_as_it_was() -> None:
    template = {"a": [{"id": "$draft.draft_id"}, 1], "$draft": "key"}
    before = copy.deepcopy(template)
    assert resolve(template, BOUND) == {"a": [{"id": "D-7"}, 1], "$draft": "key"}
    assert template == before


def test_what_a_reference_brings_in_is_never_read_as_a_reference() -> None:
    bound = {"mail": {"body": "$secret", "tail": "${secret}"}, "secret": "hunter2"}
    assert resolve("$mail.body", bound) == "$secret"
    assert resolve("They wrote ${mail.tail}", bound) == "They wrote ${secret}"


@pytest.mark.parametrize("text", ["$5.00", "US$100", "$cost per seat", "a $draft in a text", "", "$", "{draft}"])
def test_ordinary_text_with_dollar_signs_is_left_alone(text: str) -> None:
    assert resolve(text, BOUND) == text
    assert references(text) == ()


def test_a_doubled_dollar_is_a_literal_one() -> None:
    assert resolve("$$draft.draft_id", BOUND) == "$draft.draft_id"
    assert resolve("write $${draft} for ${draft.draft_id}", BOUND) == "write ${draft} for D-7"


@pytest.mark.parametrize(
    ("reference", "message"),
    [
        ("$drft.draft_id", "$drft.draft_id: unknown name 'drft'; bound here: draft, rows"),
        ("$draft.id", "$draft.id: no field 'id' at the top; it has draft_id, to, sent, size"),
        ("$rows[2].total", "$rows[2].total: no item [2] at the top; the list holds 2"),
        (
            "$rows.total",
            "$rows.total: a list at the top has no field 'total'; pick an item first, such as [0]",
        ),
        ("$draft.size.unit", "$draft.size.unit: no field 'unit' in 'size': the value there is 3"),
        (
            "about ${draft.to}",
            "${draft.to}: a list cannot be written into a text; name one of its fields or items",
        ),
        ("about ${nobody}", "${nobody}: unknown name 'nobody'; bound here: draft, rows"),
    ],
)
def test_a_reference_that_does_not_resolve_says_what_exists(reference: str, message: str) -> None:
    with pytest.raises(BindingError) as caught:
        resolve({"x": [reference]}, BOUND)
    stated, listed = message.split("; it has ") if "; it has " in message else (message, "")
    assert str(caught.value).startswith(stated)
    assert set(filter(None, listed.split(", "))) <= set(str(caught.value).split("; it has ")[-1].split(", "))


@pytest.mark.parametrize("reference", ["$draft.", "$draft..to", "${}", "$draft[x]", "x ${draft.[0]}", "${ draft }"])
def test_a_malformed_reference_is_an_error_not_text(reference: str) -> None:
    with pytest.raises(BindingError, match="not a path"):
        resolve(reference, BOUND)


def test_references_lists_every_path_in_order() -> None:
    data = {"a": "$draft.to[0]", "b": ["x ${rows[0].total} y ${draft.size}", 3], "c": "$draft.to[0]"}
    assert references(data) == ("draft.to[0]", "rows[0].total", "draft.size", "draft.to[0]")


@pytest.mark.parametrize("path", ["", ".a", "a.", "a..b", "a[", "a[b]", "a]b", "a b"])
def test_what_is_not_a_path_is_refused(path: str) -> None:
    with pytest.raises(BindingError):
        parse_path(path)


@given(json_values, st.lists(keys | st.integers(0, 3), min_size=1, max_size=5))
def test_a_path_written_from_its_steps_leads_to_what_was_put_there(value: object, steps: list[str | int]) -> None:
    for step in reversed(steps):
        value = {step: value, "other": 1} if isinstance(step, str) else [None] * step + [value]
    path = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in steps).removeprefix(".")
    assert parse_path(path) == tuple(steps)
    assert lookup(value, path) == value_at(value, steps)


def value_at(value: object, steps: list[str | int]) -> object:
    for step in steps:
        value = value[step]
    return value


@given(json_values)
def test_a_value_without_dollar_signs_resolves_to_itself(value: object) -> None:
    assert resolve(value, {}) == value
