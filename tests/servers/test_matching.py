from __future__ import annotations

from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from servers.errors import SpecError
from servers.matching import canonical, compile_fields, compile_match

scalars = (
    st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from([0.0, 1.0, 1.5]) | st.sampled_from(["", "a", "1"])
)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("ab"), inner, max_size=2),
    max_leaves=6,
)


def matches(pattern: object, value: object) -> bool:
    return compile_match(pattern, "here").test(value)


@pytest.mark.parametrize(
    ("pattern", "good", "bad"),
    [
        ("open", ["open"], ["Open", "open ", None, 1, ["open"]]),
        (1, [1, 1.0], [True, "1", 2, None]),
        (True, [True], [1, "true", False, None]),
        (None, [None], [0, "", False, []]),
        ({"equals": [1, "a"]}, [[1, "a"], [1.0, "a"]], [["a", 1], [True, "a"], [1]]),
        ({"equals": {"a": {"b": 1}}}, [{"a": {"b": 1.0}}], [{"a": {"b": 1}, "c": 2}, {}]),
        ({"not": "x"}, ["y", None, 3], ["x"]),
        ({"not": {"any_of": ["x", "y"]}}, ["z"], ["x", "y"]),
        ({"any_of": ["x", "y"]}, ["x", "y"], ["z", None, ["x"]]),
        ({"any_of": [1, {"min": 10}]}, [1, 10, 11.5], [2, "x"]),
        ({"contains": "fund"}, ["refund due", ["fund"]], ["Fund", None, ["refund"], 3]),
        ({"contains": 2}, [[1, 2.0]], ["12", [True], 2]),
        (
            {"contains": {"fields": {"email": "a@x"}}},
            [[{"email": "a@x", "role": "host"}]],
            [[{"email": "b@x"}], "a@x", []],
        ),
        ({"contains_all": ["a", "b"]}, ["ab", ["b", "a", "c"]], ["a", ["a"]]),
        ({"contains_text": "ReFund"}, ["Your REFUND is due"], ["fund", None, ["refund"]]),
        ({"same_items": ["a", "a", "b"]}, [["b", "a", "a"]], [["a", "b"], ["a", "b", "b"], "aab", None]),
        ({"same_items": []}, [[]], [["a"], None]),
        ({"matches": r"TCK-\d{3}"}, ["TCK-104"], ["TCK-104 ", "see TCK-104", "TCK-1040", 104]),
        ({"matches": r"(?i)re: .*refund.*"}, ["RE: my Refund please"], ["my refund"]),
        ({"min": 1, "max": 5}, [1, 5, 2.5], [0, 6, "3", True, None]),
        ({"min": 0.0}, [0], [-0.01]),
        (
            {"after": "2026-03-12T15:00:00+01:00"},
            ["2026-03-12T14:00:01Z", "2026-03-12T10:30:00-05:00"],
            [
                "2026-03-12T15:00:00+01:00",
                "2026-03-12T16:00:00+03:00",
                "2026-03-13",
                "2026-03-12T16:00:00",
                "soon",
                None,
            ],
        ),
        ({"before": "2026-03-12T15:00:00+01:00"}, ["2026-03-12T13:59:59Z"], ["2026-03-12T14:00:00Z"]),
        (
            {"after": "2026-03-12"},
            ["2026-03-13", "2026-03-13T00:00:00+09:00"],
            ["2026-03-12T23:59:00-09:00", "2026-03-12"],
        ),
        ({"before": "2026-03-12", "after": "2026-03-10"}, ["2026-03-11"], ["2026-03-10", "2026-03-12"]),
        ({"present": True}, ["", 0, False, []], [None]),
        ({"present": False}, [None], ["", 0, False]),
        (
            {"fields": {"a.b": 1, "c": {"present": False}}},
            [{"a": {"b": 1}}],
            [{"a": {"b": 2}}, {"a": 1}, {"a": {"b": 1}, "c": 0}, []],
        ),
    ],
)
def test_operators_match_what_they_say(pattern: object, good: list[object], bad: list[object]) -> None:
    assert [value for value in good if not matches(pattern, value)] == []
    assert [value for value in bad if matches(pattern, value)] == []


def test_fields_are_found_by_dotted_path_and_absent_ones_read_as_null() -> None:
    matcher = compile_fields(
        {"to": {"contains": "ana@acme.example"}, "thread.labels[0]": "urgent", "cc": {"present": False}},
        "when",
    )
    assert matcher.test({"to": ["ana@acme.example"], "thread": {"labels": ["urgent"]}})
    assert not matcher.test({"to": ["ana@acme.example"], "thread": {"labels": []}})
    assert not matcher.test({"to": ["ana@acme.example"], "thread": "urgent"})
    assert not matcher.test({})


def test_no_field_patterns_match_every_object() -> None:
    assert compile_fields({}, "when").test({"a": 1})


def test_every_problem_is_reported_with_its_place() -> None:
    with pytest.raises(SpecError) as caught:
        compile_fields(
            {
                "to": {"contain": "x", "min": "3"},
                "labels": ["a"],
                "due": {"any_of": ["x", {"before": "2026-03-12T15:00"}]},
                "a..b": 1,
            },
            "events[2].when.after_call.where",
        )
    found = {
        problem.where.removeprefix("events[2].when.after_call.where"): problem.code for problem in caught.value.problems
    }
    assert found == {
        ".to.contain": "unknown_operator",
        ".to.min": "bad_pattern",
        ".labels": "bad_pattern",
        ".due.any_of[1].before": "bad_pattern",
        ".a..b": "bad_pattern",
    }


def test_an_unknown_operator_is_named_with_its_neighbours_and_the_whole_list() -> None:
    with pytest.raises(
        SpecError, match=r"checks\[0\].contain: unknown operator 'contain'.*contains.*Valid: equals, not,"
    ):
        compile_match({"contain": "x"}, "checks[0]")


@pytest.mark.parametrize(
    "pattern",
    [
        {},
        [],
        {"any_of": []},
        {"any_of": "x"},
        {"present": 1},
        {"min": True},
        {"max": float("inf")},
        {"contains_text": ""},
        {"same_items": "a"},
        {"fields": {}},
        {"fields": {"[0]": 1}},
        {"after": "soon"},
        {"after": "2026-03-12T15:00:00"},
        {"matches": "("},
        {"matches": "a" * 201},
        {"not": {}},
    ],
)
def test_what_is_no_pattern_is_refused_when_it_is_loaded(pattern: object) -> None:
    with pytest.raises(SpecError, match="here"):
        compile_match(pattern, "here")


def test_a_date_that_yaml_read_for_us_is_refused_with_advice() -> None:
    with pytest.raises(SpecError, match="Put quotes around dates"):
        compile_match(date(2026, 3, 12), "here")


@pytest.mark.parametrize(
    "source",
    [
        r"(a+)+b",
        r"(a|a)*b",
        r"(a|b?)+",
        r".*.*.*x",
        r"(?:a?){40}a{40}",
        "a?" * 30 + "a" * 30,
        r"(\w*\s?)*!",
        r"a{,}a{,}a{,}b",
        r"(a{0,9}){0,20}b",
        r"(?=a)b",
        r"(a)\1",
        r"(?P<x>a)(?P=x)",
        r"(?:a*){10000}",
        r"a{99999999999999999999}",
        r"a++b",
    ],
)
def test_expressions_that_could_run_away_or_are_not_supported_are_refused(source: str) -> None:
    with pytest.raises(SpecError):
        compile_match({"matches": source}, "here")


@pytest.mark.parametrize(
    ("source", "text"),
    [
        (r".*refund.*", "a refund for you"),
        (r"(?:Re: |Fwd: )?Invoice INV-\d{4}", "Re: Invoice INV-2031"),
        (r"[A-Z]{2,5}-\d+", "TCK-1"),
        (r"(?P<year>\d{4})-\d\d", "2026-03"),
        (r"[^]x]+\]?", "abc]"),
        (r"(?:\d{3},){2}\d{3}", "123,456,789"),
        (r"\$\d+\.\d{2}", "$12.50"),
        (r"a{x}", "a{x}"),
        (r"(?i)YES|no", "yes"),
        (r"\x41[\]\-]", "A]"),
    ],
)
def test_everyday_expressions_are_accepted(source: str, text: str) -> None:
    assert matches({"matches": source}, text)
    assert not matches({"matches": source}, f"{text}\n#{text}\n")


def test_the_worst_accepted_expression_ends_soon_on_the_longest_text() -> None:
    assert not matches({"matches": ".*.*x"}, "a" * 2_000)
    assert not matches({"matches": ".*"}, "a" * 2_001)


@given(values, values)
def test_equality_is_that_of_json_and_agrees_with_canonical_forms(one: object, other: object) -> None:
    assert matches({"equals": one}, one)
    assert matches({"equals": one}, other) == (canonical(one) == canonical(other)) == json_equal(one, other)


@given(st.lists(values, max_size=4), st.randoms(use_true_random=False))
def test_same_items_ignores_order_only(items: list[object], random: object) -> None:
    shuffled = list(items)
    random.shuffle(shuffled)
    assert matches({"same_items": items}, shuffled)
    assert not matches({"same_items": items}, [*shuffled, "one more"])


@given(values)
def test_no_value_makes_a_matcher_raise(value: object) -> None:
    for pattern in (
        {"contains": {"fields": {"a": 1}}},
        {"contains_text": "a"},
        {"min": 1},
        {"after": "2026-01-01"},
        {"matches": "a*"},
        {"same_items": [1]},
        {"fields": {"a.b[0]": {"present": True}}},
    ):
        assert matches(pattern, value) != matches({"not": pattern}, value)


def json_equal(one: object, other: object) -> bool:
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(json_equal(a, b) for a, b in zip(one, other, strict=True))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(json_equal(one[key], other[key]) for key in one)
    return one == other
