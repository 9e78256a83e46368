from __future__ import annotations

import re
from datetime import date, timedelta
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.facts import Amount, ClockTime, Fact, FactError, Name, Vocabulary, extract, parse_fact

MONDAY = date(2026, 3, 9)
KNOWN = Vocabulary(
    names=(
        Name.person("Ana Ruiz", "A. Ruiz"),
        Name.person("Ana Lima"),
        Name.person("Bo Chen"),
        Name.person("Zoë O'Brien"),
        Name("Acme Corporation", ("Acme", "Acme Corp.")),
        Name("Acme Labs"),
    ),
    reference=MONDAY,
)


def read(text: str, vocabulary: Vocabulary = KNOWN) -> list[object]:
    return [fact.value for fact in extract(text, vocabulary)]


def euros(value: str) -> Amount:
    return Amount(Decimal(value), "EUR")


def dollars(value: str) -> Amount:
    return Amount(Decimal(value), "USD")


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("See TCK-104, INV-2031 and PO-2026-0012.", ["TCK-104", "INV-2031", "PO-2026-0012"]),
        (
            "**TCK-104** `TCK-105` _TCK-106_ (TCK-107) TCK-108's | TCK-109/TCK-110",
            [f"TCK-{n}" for n in range(104, 111)],
        ),
        ("#TCK-104 and (#TCK-105)", ["TCK-104", "TCK-105"]),
        ("TCK\u2011104 with a typographic hyphen", ["TCK-104"]),
        ("XTCK-1X, TCK-104-related, tck-1, TCK-, x-104", []),
        ("https://desk.example/TCK-104?day=2026-03-12", []),
    ],
)
def test_ids_are_whole_words(text: str, values: list[object]) -> None:
    assert read(text) == values


def test_ids_follow_the_pattern_of_the_workplace() -> None:
    vocabulary = Vocabulary(id_pattern=re.compile(r"msg_[0-9a-f]{8}|#\d+"))
    assert read("msg_00ff12ab, #4471, TCK-104, msg_00ff12abc, 4471", vocabulary) == [
        "msg_00ff12ab",
        "#4471",
        4471,
    ]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("€1,240.50", euros("1240.50")),
        ("1,240.50 EUR", euros("1240.50")),
        ("EUR 1240.5", euros("1240.50")),
        ("1.240,50 €", euros("1240.50")),
        ("1\u202f240,50 €", euros("1240.50")),
        ("1'240.50 euros", euros("1240.50")),
        ("12,5 EUR", euros("12.50")),
        ("1,240 EUR", euros("1240")),
        ("1.240.500 EUR", euros("1240500")),
        ("€50 EUR", euros("50")),
        ("-€5.20", euros("-5.20")),
        ("(-5 EUR)", euros("-5")),
        ("€-5", euros("-5")),
        ("$3.2k", dollars("3200")),
        ("\\$3,215", dollars("3215")),
        ("**$1.5M**", dollars("1500000")),
        ("1.5 million dollars", dollars("1500000")),
        ("five euros", euros("5")),
        ("US$ 20", dollars("20")),
        ("$20 CAD", Amount(Decimal(20), "CAD")),
        ("£20", Amount(Decimal(20), "GBP")),
        ("CHF 99.95", Amount(Decimal("99.95"), "CHF")),
        ("0.125 EUR", euros("0.125")),
    ],
)
def test_amounts_are_read_in_the_usual_spellings(text: str, value: Amount) -> None:
    assert read(f"It is {text}.") == [value]


def test_each_currency_goes_to_one_number() -> None:
    assert read("50 EUR 60 USD") == [euros("50"), dollars("60")]
    assert read("€50 $60") == [euros("50"), dollars("60")]
    assert read("EUR 50, USD 60 and 70 EUR") == [euros("50"), dollars("60"), euros("70")]


@pytest.mark.parametrize("text", ["1.240 EUR", "EUR 12-14", "EUR 1.2.3", "1,24,0 EUR", "007 EUR", "€1,2405"])
def test_amounts_without_a_certain_value_are_no_facts(text: str) -> None:
    assert read(text) == []


def test_the_vocabulary_settles_the_decimal_mark_and_the_dollar() -> None:
    continental = Vocabulary(decimal_mark=",", dollar="AUD")
    assert read("1.240 EUR, 12,50 kg, $5", continental) == [
        euros("1240"),
        Decimal("12.50"),
        Amount(Decimal(5), "AUD"),
    ]
    assert read("1,240 EUR", continental) == []


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("3 tickets, 1,240 units, 4.5 stars, -2 degrees, 3k rows", [3, 1240, Decimal("4.5"), -2, 3000]),
        ("Two of them, twelve in all, one more", [2, 12]),
        ("1. first\n2) second\n  3. third 7", [7]),
        ("24/7, 1/2, v1.2.3, 10.0.0.1, Q3, 2nd, 007, 12kg, 555-1234, a-4, 3:2, #12, 3-way", []),
        ("+49 30 123 456 78", []),
    ],
)
def test_bare_numbers_are_numbers_and_everything_glued_is_not(text: str, values: list[object]) -> None:
    facts = extract(text, KNOWN)
    assert [fact.value for fact in facts] == values
    assert {fact.kind for fact in facts} <= {"number"}


def test_percentages_are_their_own_kind() -> None:
    facts = extract("12.5%, 7 percent, 3,5 % and -2 per cent", KNOWN)
    assert [(fact.kind, fact.value) for fact in facts] == [
        ("percent", value) for value in (Decimal("12.5"), 7, Decimal("3.5"), -2)
    ]


@pytest.mark.parametrize(
    "text",
    [
        "2026-03-12",
        "2026/03/12",
        "12 March 2026",
        "12 Mar 2026",
        "the 12th of March 2026",
        "March 12",
        "March 12, 2026",
        "Mar 12th, 2026",
        "Mar. 12 2026",
        "12-Mar-2026",
        "Thursday, 12 March 2026",
        "Thu 12 March",
        "Thursday 2026-03-12",
        "MAR 12, 2026",
        "this Thursday",
    ],
)
def test_dates_are_read_in_the_usual_spellings(text: str) -> None:
    assert read(f"By {text}, please.") == [date(2026, 3, 12)]


@pytest.mark.parametrize(
    "text",
    [
        "12/03/2026",
        "03.12.2026",
        "25/03/26",
        "Friday, 12 March 2026",
        "30 February 2026",
        "2026-13-01",
        "March 2026",
        "12/03",
        "Thursday",
        "next Friday",
        "last Monday",
        "the 12th",
        "2026-03-12-7",
        "13.13.2026",
        "14-12 March 2026",
    ],
)
def test_dates_without_a_certain_reading_are_no_facts_and_leave_no_numbers(text: str) -> None:
    vocabulary = Vocabulary(reference=date(2026, 3, 10))
    assert read(f"By {text}, please.", vocabulary) == []


def test_month_names_need_their_capital_and_a_day() -> None:
    assert read("you may 3 times march in may") == [3]


def test_the_vocabulary_settles_the_order_of_numeric_dates() -> None:
    text = "12/03/2026 and 12/03/26 but 25/12/2026 and 03/03/2026"
    christmas, third = date(2026, 12, 25), date(2026, 3, 3)
    assert read(text) == [christmas, third]
    assert read(text, Vocabulary(date_order="DMY")) == [date(2026, 3, 12)] * 2 + [christmas, third]
    assert read(text, Vocabulary(date_order="MDY")) == [date(2026, 12, 3)] * 2 + [christmas, third]


def test_a_missing_year_is_the_nearest_one_and_needs_a_reference() -> None:
    assert read("3 January", Vocabulary(reference=date(2026, 12, 20))) == [date(2027, 1, 3)]
    assert read("20 December", Vocabulary(reference=date(2027, 1, 5))) == [date(2026, 12, 20)]
    assert read("29 February", Vocabulary(reference=date(2026, 2, 20))) == []
    assert read("3 January", Vocabulary()) == []


def test_ranges_of_days_state_both_ends() -> None:
    both = [date(2026, 3, 12), date(2026, 3, 14)]
    assert read("12-14 March 2026; March 12\u201314, 2026; between 12 and 14 March") == both * 3


@pytest.mark.parametrize(
    ("text", "day"),
    [
        ("today", 9),
        ("Tomorrow", 10),
        ("yesterday", 8),
        ("the day after tomorrow", 11),
        ("this Thursday", 12),
        ("next Monday", 16),
        ("last Friday", 6),
        ("coming Monday", 16),
        ("this coming Wed", 11),
    ],
)
def test_relative_days_count_from_the_reference_where_every_reading_agrees(text: str, day: int) -> None:
    facts = extract(f"See you {text}!", KNOWN)
    assert [(fact.value, fact.relative) for fact in facts] == [(date(2026, 3, day), True)]
    assert extract(text, Vocabulary()) == []


@pytest.mark.parametrize(
    ("text", "time"),
    [
        ("15:00", ClockTime(15, 0)),
        ("15:00:30", ClockTime(15, 0)),
        ("09:30", ClockTime(9, 30)),
        ("9:30", ClockTime(9, 30)),
        ("3pm", ClockTime(15, 0)),
        ("3 PM", ClockTime(15, 0)),
        ("3:30 p.m.", ClockTime(15, 30)),
        ("3.30pm", ClockTime(15, 30)),
        ("12am", ClockTime(0, 0)),
        ("12:15 pm", ClockTime(12, 15)),
        ("15h00", ClockTime(15, 0)),
        ("noon", ClockTime(12, 0)),
        ("midnight", ClockTime(0, 0)),
        ("15:00 CET", ClockTime(15, 0, "CET")),
        ("15:00Z", ClockTime(15, 0, "+00:00")),
        ("15:00+01:00", ClockTime(15, 0, "+01:00")),
        ("15:00 UTC+1", ClockTime(15, 0, "+01:00")),
        ("3 pm (Europe/Berlin)", ClockTime(15, 0, "Europe/Berlin")),
        ("3 p.m. ET", ClockTime(15, 0, "ET")),
        ("15:00 (UTC-05:30)", ClockTime(15, 0, "-05:30")),
        ("15:00 CEST", ClockTime(15, 0, "+02:00")),
    ],
)
def test_times_are_read_in_the_usual_spellings(text: str, time: ClockTime) -> None:
    assert read(f"It starts at {text} sharp") == [time]
    assert read(f"({text})") == [time]


@pytest.mark.parametrize("text", ["2:30", "25:00", "13pm", "3 o'clock", "16:9", "1h30", "15:000", "12:30:5", "3:2"])
def test_times_without_a_certain_reading_are_no_facts(text: str) -> None:
    assert [fact for fact in extract(f"at {text}: start", KNOWN) if fact.kind == "time"] == []
    assert read("at 12:30: start") == [ClockTime(12, 30)]


def test_both_ends_of_a_span_of_time_are_read() -> None:
    nine, ten = ClockTime(9, 0), ClockTime(10, 0)
    assert read("09:00-10:00 09:00\u201310:00, 9-10am, 9:00 to 10:00 AM") == [nine, ten] * 4
    assert read("11-1pm") == [ClockTime(11, 0), ClockTime(13, 0)]
    assert read("2:30 to 3:30 pm") == [ClockTime(14, 30), ClockTime(15, 30)]


def test_a_timestamp_is_a_date_and_a_time() -> None:
    assert read("2026-03-12T15:00:00.123-05:00") == [date(2026, 3, 12), ClockTime(15, 0, "-05:00")]
    assert read("2026-03-12 15:00") == [date(2026, 3, 12), ClockTime(15, 0)]


@pytest.mark.parametrize(
    ("text", "minutes"),
    [
        ("4 hours", 240),
        ("4h", 240),
        ("30 min", 30),
        ("90-minute", 90),
        ("1h30m", 90),
        ("1 h 30 min", 90),
        ("two days", 2880),
        ("1 hour and 30 minutes", 90),
        ("1 day, 2 hours and 5 minutes", 1565),
        ("half an hour", 30),
        ("1.5 hours", 90),
        ("2 weeks", 20160),
        ("one hour", 60),
    ],
)
def test_durations_are_read_in_the_usual_spellings(text: str, minutes: int) -> None:
    assert read(f"It takes {text}.") == [timedelta(minutes=minutes)]


def test_durations_that_do_not_belong_together_stay_apart() -> None:
    hours = [timedelta(hours=2), timedelta(hours=3)]
    assert read("2 hours and 3 hours") == hours
    assert read("2 hours and 180 minutes") == hours


@pytest.mark.parametrize("text", ["2 business days", "three months", "5 years", "30m", "an hour", "forty-five minutes"])
def test_durations_without_a_fixed_length_are_no_facts(text: str) -> None:
    assert read(f"within {text}") == []


def test_mail_addresses_are_read_whole_and_hold_no_names() -> None:
    assert read("Write to Bo.Chen@Acme-Labs.example, <a+b@x.example> or x@y") == [
        "bo.chen@acme-labs.example",
        "a+b@x.example",
    ]


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("Ana Ruiz and ANA LIMA", ["Ana Ruiz", "Ana Lima"]),
        ("Ana\nRuiz, A. Ruiz", ["Ana Ruiz", "Ana Ruiz"]),
        ("I told Ana", []),
        ("Bo's note for Bo", ["Bo Chen", "Bo Chen"]),
        ("Bo Smith", []),
        ("bo and Bobby and Bob", []),
        ("Zoe O\u2019Brien, ZOË O'BRIEN, Zoë", ["Zoë O'Brien"] * 3),
        ("Acme Labs, Acme Corp., Acme, acme, Acme Invoice", ["Acme Labs", *["Acme Corporation"] * 3]),
        ("AnaRuiz, Acmes", []),
    ],
)
def test_names_are_whole_words_longest_first_and_only_where_they_are_unique(text: str, names: list[str]) -> None:
    assert read(text) == names


def test_spans_point_at_the_words_that_state_the_fact() -> None:
    text = "Ana Ruiz pays \u20ac1,240.50 for TCK\u2011104 on 12 March at 3 p.m."
    assert [text[slice(*fact.span)] for fact in extract(text, KNOWN)] == [
        "Ana Ruiz",
        "\u20ac1,240.50",
        "TCK\u2011104",
        "12 March",
        "3 p.m.",
    ]


pieces = st.sampled_from(
    [
        "12",
        "3",
        "2026",
        "-",
        "/",
        ".",
        ",",
        ":",
        " ",
        "\n",
        "March",
        "Mon",
        "pm",
        "h",
        "m",
        "EUR",
        "€",
        "$",
        "%",
        "k",
        "TCK-1",
        "Ana",
        "Ruiz",
        "@",
        "x.example",
        "T",
        "+01:00",
        "two",
        "hours",
        "and",
        "the",
        "of",
        "#",
        "(",
        ")",
        "\u202f",
        "'",
        "next",
        "https://",
        "é",
    ]
)


@given(st.lists(pieces, max_size=25).map("".join) | st.text(max_size=60))
def test_any_text_can_be_read_and_spans_are_in_order_without_overlap(text: str) -> None:
    facts = extract(text, KNOWN)
    ends = [0, *(fact.span[1] for fact in facts)]
    assert all(before <= fact.span[0] < fact.span[1] <= len(text) for before, fact in zip(ends, facts, strict=False))
    assert facts == extract(text, KNOWN)


@pytest.mark.parametrize(
    "piece",
    [
        "1",
        "1,",
        "1 ",
        "a",
        "a.",
        "a@",
        "-",
        "A-1-",
        " ",
        "\n",
        "12 and ",
        "Thu, ",
        "March ",
        "1h1h",
        "1h 1h ",
        "EUR ",
        "$1",
        "(",
        "Ana ",
        "two ",
        "12:",
        "3 pm-",
        "+1 ",
        "1\u202f",
        "next ",
        "1 hour and ",
    ],
)
def test_a_hundred_kilobytes_of_anything_are_read_in_time(piece: str) -> None:
    extract(piece * (100_000 // len(piece)), KNOWN)


def test_a_value_for_a_check_states_exactly_one_fact() -> None:
    assert parse_fact("amount", "EUR 1,240.50", KNOWN) == Fact("amount", euros("1240.50"))
    with pytest.raises(FactError, match="expected exactly one date in '12/03/2026'; it states nothing certain"):
        parse_fact("date", "12/03/2026", KNOWN)
    with pytest.raises(FactError, match="it states id 'TCK-1', id 'TCK-2'"):
        parse_fact("id", "TCK-1 or TCK-2", KNOWN)
