from __future__ import annotations

import re
from datetime import date, timedelta
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.facts import (
    Amount,
    ClockTime,
    Fact,
    FactError,
    FactReport,
    Name,
    Vocabulary,
    apart,
    compare,
    extract,
    parse_fact,
    render,
    styles,
)

REFERENCE = date(2026, 3, 9)
PEOPLE = ("Ana Ruiz", "Bo Chen", "Zoë O'Brien", "Acme Corporation")
KNOWN = Vocabulary(tuple(Name.person(name) for name in PEOPLE), REFERENCE)


def check(message: str, *, required: list[Fact], allowed: tuple[Fact, ...] = (), watched: object = None) -> FactReport:
    return compare(required, allowed, extract(message, KNOWN), watched=watched)


TICKET = parse_fact("id", "TCK-104", KNOWN)
TOTAL = parse_fact("amount", "EUR 1,240.50", KNOWN)
DAY = parse_fact("date", "12 March 2026", KNOWN)
ANA = parse_fact("name", "Ana Ruiz", KNOWN)
START = parse_fact("time", "15:00+01:00", KNOWN)


def test_a_message_that_states_everything_and_nothing_else_is_exact() -> None:
    message = "Dear Ana, TCK-104 is settled: 1.240,50 € is due on Thursday, March 12. I read 3 threads today."
    report = check(message, required=[TICKET, TOTAL, DAY, ANA])
    assert report.exact
    assert (report.recall, report.precision) == (1.0, 1.0)


def test_keyword_spray_fails_on_precision() -> None:
    spray = "TCK-101 TCK-102 TCK-103 TCK-104 for €990, €1,240.50 and €1,250"
    report = check(spray, required=[TICKET, TOTAL])
    assert report.recall == 1.0
    assert report.precision == pytest.approx(2 / 7)
    assert not report.exact
    assert [fact.value for fact in report.unexpected if fact.kind == "id"] == [
        "TCK-101",
        "TCK-102",
        "TCK-103",
    ]


def test_a_wrong_amount_is_missing_and_contradicted() -> None:
    report = check("TCK-104 costs €1,204.50", required=[TICKET, TOTAL])
    assert report.missing == report.contradicted == (TOTAL,)
    assert [fact.value for fact in report.unexpected] == [Amount(Decimal("1204.50"), "EUR")]
    assert (report.recall, report.precision) == (0.5, 0.5)


def test_a_missing_fact_is_not_contradicted_by_facts_of_other_kinds() -> None:
    report = check("TCK-105", required=[TOTAL], watched=["id", "amount"])
    assert report.missing == (TOTAL,)
    assert report.contradicted == ()


def test_the_right_amount_in_the_wrong_currency_is_wrong() -> None:
    assert check("1,240.50 USD", required=[TOTAL]).contradicted == (TOTAL,)


def test_a_bare_number_states_an_amount_but_a_list_of_bare_candidates_does_not() -> None:
    assert check("The total is 1,240.50.", required=[TOTAL]).exact
    assert not check("The total is 990, 1240.50 or 1250.", required=[TOTAL]).exact
    assert check("3 invoices come to €1,240.50 over 2 orders", required=[TOTAL]).exact
    assert not check("The total is 12,403.", required=[TOTAL]).found


def test_allowed_facts_count_neither_for_nor_against() -> None:
    other = parse_fact("id", "TCK-90", KNOWN)
    report = check("TCK-104, a duplicate of TCK-90", required=[TICKET], allowed=(other,))
    assert report.exact
    assert report.precision == 1.0


def test_only_watched_kinds_are_closed() -> None:
    message = "TCK-104 from Bo Chen on 1 April 2026"
    assert check(message, required=[TICKET]).exact
    assert [fact.kind for fact in check(message, required=[TICKET], watched=["id", "date"]).unexpected] == ["date"]
    assert check("TCK-1 TCK-104", required=[TICKET], watched=[]).exact


def test_small_talk_about_days_is_never_held_against_a_message_but_may_state_a_date() -> None:
    assert check("I moved today's meeting to 12 March 2026.", required=[DAY]).exact
    assert check("It is on this Thursday.", required=[DAY]).exact
    assert not check("It is on 9 March 2026, today, not 12 March 2026.", required=[DAY]).exact


@pytest.mark.parametrize("said", ["15:00", "3 pm", "3pm CET", "14:00 UTC", "9:00 AM EST", "15:00 (Europe/Berlin)"])
def test_a_time_may_be_said_in_any_zone(said: str) -> None:
    assert check(f"At {said}.", required=[START]).exact


@pytest.mark.parametrize("said", ["15:30", "3 am", "15:00 UTC", "15:00 EST", "14:00", "14:00 (Europe/Berlin)"])
def test_another_instant_is_another_time(said: str) -> None:
    assert check(f"At {said}.", required=[START]).contradicted == (START,)


def test_the_winter_name_of_a_zone_may_be_used_in_summer() -> None:
    summer = parse_fact("time", "15:00+02:00", KNOWN)
    assert check("15:00 CET", required=[summer]).exact
    assert check("15:00 CEST", required=[summer]).exact
    assert not check("15:00 CEST", required=[START]).exact


def test_ids_and_addresses_are_compared_without_case() -> None:
    vocabulary = Vocabulary(id_pattern=re.compile(r"[A-Za-z]{3}-\d+"))
    report = compare([TICKET], [], extract("tck-104", vocabulary))
    assert report.exact


def test_repetition_changes_nothing() -> None:
    report = check("TCK-104, TCK-104, TCK-9, TCK-9", required=[TICKET])
    assert (len(report.found), len(report.unexpected), report.precision) == (1, 1, 0.5)


def test_nothing_required_and_nothing_said_is_exact() -> None:
    report = check("", required=[])
    assert report.exact
    assert (report.recall, report.precision) == (1.0, 1.0)


money = st.decimals(-999_999, 9_999_999, places=2)
days = st.dates(date(1990, 1, 1), date(2060, 12, 31)) | st.dates(date(2025, 11, 1), date(2026, 7, 1))
zones = st.sampled_from([None, "+00:00", "+01:00", "+05:30", "-05:00", "-08:00", "CET", "ET", "Europe/Berlin", "IST"])
facts = st.one_of(
    st.builds(
        Fact,
        st.just("amount"),
        st.builds(Amount, money, st.sampled_from(["EUR", "USD", "GBP", "CAD", "CHF", "SEK"])),
    ),
    st.builds(Fact, st.just("number"), st.decimals(-9_999, 9_999_999, places=0) | st.decimals(0, 99, places=1)),
    st.builds(Fact, st.just("percent"), st.decimals(-100, 100, places=1)),
    st.builds(Fact, st.just("date"), days),
    st.builds(
        Fact,
        st.just("time"),
        st.builds(ClockTime, st.integers(0, 23), st.integers(0, 59) | st.just(0), zones),
    ),
    st.builds(
        Fact,
        st.just("duration"),
        st.integers(1, 500).map(lambda n: timedelta(minutes=15 * n))
        | st.integers(1, 900_000).map(lambda n: timedelta(seconds=n)),
    ),
    st.builds(Fact, st.just("id"), st.from_regex(r"[A-Z]{2,5}(-20[0-9]{2})?-[0-9]{1,6}", fullmatch=True)),
    st.builds(
        Fact,
        st.just("email"),
        st.from_regex(r"[a-z][a-z0-9.+]{0,8}[a-z]@[a-z]{1,9}\.example", fullmatch=True),
    ),
    st.builds(Fact, st.just("name"), st.sampled_from(PEOPLE)),
)
sentences = st.sampled_from(
    ["{}", "It is {}.", "- {}\n", "Please note: {}, thanks", "({})", "| {} |", "{}; done", "Is it {}?"]
)


@given(facts, sentences)
def test_every_style_of_every_fact_reads_back_as_that_fact_alone(fact: Fact, sentence: str) -> None:
    for style in styles(fact, REFERENCE):
        text = sentence.format(render(fact, style, REFERENCE))
        assert extract(text, KNOWN) == [fact], (style, text)


@given(st.lists(facts, min_size=1, max_size=4), st.data())
def test_a_paraphrased_message_is_graded_like_the_original(required: list[Fact], data: st.DataObject) -> None:
    message = " and then, as agreed: "
    said = [render(fact, data.draw(st.sampled_from(styles(fact, REFERENCE))), REFERENCE) for fact in required]
    report = compare(required, [], extract(message.join(said), KNOWN))
    assert report.exact, message.join(said)


def test_the_styles_of_a_fact_are_listed_and_others_are_refused() -> None:
    assert {render(TOTAL, style) for style in styles(TOTAL)} >= {
        "€1,240.50",
        "1,240.50 EUR",
        "EUR 1240.50",
        "1.240,50 €",
    }
    assert {render(DAY, style, REFERENCE) for style in styles(DAY, REFERENCE)} >= {
        "2026-03-12",
        "March 12, 2026",
        "12 March",
    }
    assert "without_year" not in styles(DAY)
    with pytest.raises(FactError, match=r"id TCK-104 has no style '12h'; it has plain, bold"):
        render(TICKET, "12h")
    assert styles(Fact("amount", Amount(Decimal("0.125"), "EUR"))) == ()


@pytest.mark.parametrize(
    "text",
    [
        "ORD-1 comes on 5 May 2026, ORD-2 on 6 May 2026.",
        "On 5 May 2026 ORD-1 comes and on 6 May 2026 ORD-2.",
        "ORD-1 and ORD-2 come on 5 May 2026 and 6 May 2026.",
        "ORD-1:\n  5 May 2026\nORD-2:\n  6 May 2026",
        "| ORD-2 | 6 May 2026 |\n| ORD-1 | 5 May 2026 |",
        "Today, 3 May 2026: ORD-1 (5 May 2026, not 1 May 2026); ORD-2 (6 May 2026)",
    ],
)
def test_facts_that_are_said_of_each_other_are_found_wherever_they_stand(text: str) -> None:
    vocabulary = Vocabulary()
    groups = [extract("ORD-1 5 May 2026", vocabulary), extract("ORD-2 6 May 2026", vocabulary)]
    swapped = text.replace("5 May", "@").replace("6 May", "5 May").replace("@", "6 May")
    assert apart(groups, extract(text, vocabulary), text) == []
    wrong = apart(groups, extract(swapped, vocabulary), swapped)
    assert [subject.value for subject, _ in wrong] == ["ORD-1", "ORD-2"]


def test_a_verdict_shows_times_and_amounts_as_people_write_them() -> None:
    assert str(ClockTime(10, 30, "+01:00")) == "10:30 +01:00"
    assert str(ClockTime(9, 5)) == "09:05"
    assert str(Amount(Decimal("1240.50"), "EUR")) == "1240.50 EUR"
