"""Readers of what starts with a number: amounts of money, percentages, durations and plain numbers.

Readings that are decided here:

- *Money* is a number with a currency: a symbol, an ISO code or a word, before or after it. A number without
  one is a ``number``, however it looks: otherwise every "3 tickets" would be a wrong amount. ``compare`` lets
  a bare number state a required amount.
- *Separators.* "1,240.50" and "1.240,50" speak for themselves. A single mark before three digits separates
  thousands, unless it is the vocabulary's decimal mark; for money that case ("1.240 EUR") is ambiguous. A
  decimal comma needs a currency or percent sign, since "3,4" may as well be a list.
- *Minus* counts if white space, a bracket or the beginning of the text comes before it; "10-12" and "TCK-104"
  hold no minus, and numbers joined by a hyphen are no facts.
- *Durations* go up to weeks. Months, years and business days have no fixed length and are no facts, and
  neither is "an hour", which is as often a rate. "1h30" may be a time or a duration and is neither, as is a
  bare "30m".
- *Numbers* are also read as words from two to twenty; "one" is too common a word. Ordinals, list markers
  ("1."), fractions, version numbers and codes with leading zeros are no numbers.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal

from harness.facts.model import Amount, Claims, Vocabulary

_SPACES = " \u00a0\u202f\u2009"
_SPACE = f"[{_SPACES}]"
_THIN = "'\u00a0\u202f\u2009"
_RUN = re.compile(f"(?<![\\w#])[0-9](?:[.,{_THIN}]?[0-9])*")
_GROUPED = {mark: re.compile(f"[0-9]{{1,3}}(?:{re.escape(mark)}[0-9]{{3}})+") for mark in f".,{_THIN}"}
_WORD_NUMBERS: Mapping[str, int] = {
    "one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8, "nine": 9,
    "ten": 10, "eleven": 11, "twelve": 12, "thirteen": 13, "fourteen": 14, "fifteen": 15, "sixteen": 16,
    "seventeen": 17, "eighteen": 18, "nineteen": 19, "twenty": 20, "thirty": 30, "forty": 40, "fifty": 50,
    "sixty": 60, "ninety": 90,
}  # fmt: skip
# Spelled out twice instead of ignoring case: tried at every character, this takes a third of the time.
_WORD = f"(?:{'|'.join((*_WORD_NUMBERS, *(word.capitalize() for word in _WORD_NUMBERS)))})"
_SPELLED = re.compile(rf"(?<![\w-]){_WORD}(?![\w-])")
_LIST_MARKER = re.compile(r"(?m)^[ \t>]*([0-9]{1,3}[.)])(?=\s)")

_CODES = frozenset(
    {
        "EUR",
        "USD",
        "GBP",
        "JPY",
        "CNY",
        "INR",
        "CHF",
        "SEK",
        "NOK",
        "DKK",
        "PLN",
        "CZK",
        "HUF",
        "CAD",
        "AUD",
        "NZD",
    }
    | {"SGD", "HKD", "BRL", "MXN", "ZAR", "KRW", "TRY", "AED", "ILS", "THB"}
)
_SYMBOLS: Mapping[str, str] = {
    "€": "EUR", "£": "GBP", "¥": "JPY", "₹": "INR", "₩": "KRW", "US$": "USD", "C$": "CAD", "CA$": "CAD",
    "A$": "AUD", "AU$": "AUD", "NZ$": "NZD", "S$": "SGD", "HK$": "HKD", "R$": "BRL",
}  # fmt: skip
"""A plain $ is not among them: the vocabulary says which dollar it is."""
_CURRENCY_WORDS: Mapping[str, str] = {
    "eur": "EUR", "euro": "EUR", "euros": "EUR", "usd": "USD", "gbp": "GBP", "chf": "CHF", "yen": "JPY",
    "rupees": "INR", "francs": "CHF",
}  # fmt: skip
_SYMBOL = "|".join(re.escape(symbol) for symbol in sorted((*_SYMBOLS, "$"), key=len, reverse=True))
_CODE = "|".join(sorted(_CODES))
_CURRENCY_WORD = f"(?i:{'|'.join(sorted((*_CURRENCY_WORDS, 'dollar', 'dollars'), key=len, reverse=True))})"
_BEFORE = re.compile(rf"(?:(?<!\w)(?P<named>{_SYMBOL}|{_CODE})|(?P<mark>[$€£¥₹₩])){_SPACE}?(?P<minus>-?)\Z")
_AFTER = re.compile(rf"{_SPACE}?(?:(?:{_SYMBOL})(?![0-9])|(?:{_CODE}|{_CURRENCY_WORD})(?!\w))")
_MORE_DIGITS = re.compile(f"{_SPACE}?[0-9]")
_MAGNITUDE = re.compile(rf"(?:k|K|M|mn|bn|{_SPACE}(?i:thousand|million|billion))(?!\w)")
_MONEY_MAGNITUDE = re.compile(r"[mB](?!\w)")
_MAGNITUDES: Mapping[str, int] = {
    "k": 10**3, "thousand": 10**3, "m": 10**6, "mn": 10**6, "million": 10**6, "b": 10**9, "bn": 10**9,
    "billion": 10**9,
}  # fmt: skip
_PERCENT = re.compile(rf"{_SPACE}?(?:%|(?i:percent|per cent|pct)(?!\w))")
_GLUED = re.compile(r"\w|[-:/.,][0-9]|-\w")

_UNITS: Mapping[str, int] = {
    "week": 604_800, "weeks": 604_800, "day": 86_400, "days": 86_400, "hour": 3_600, "hours": 3_600,
    "hr": 3_600, "hrs": 3_600, "h": 3_600, "minute": 60, "minutes": 60, "min": 60, "mins": 60, "m": 60,
    "second": 1, "seconds": 1, "sec": 1, "secs": 1,
}  # fmt: skip
_COUNT = rf"(?:[0-9]{{1,6}}(?:\.[0-9]{{1,3}})?|{_WORD}(?=[\s-]))"
_UNIT = f"(?i:{'|'.join(sorted(_UNITS, key=len, reverse=True))})"
_PART = rf"{_COUNT}(?:{_SPACE}|-)?{_UNIT}(?![A-Za-z])"
_DURATION = re.compile(rf"(?<![\w#.,:/$€£¥-]){_PART}(?:(?:,?{_SPACE}(?:and{_SPACE})?)?{_PART}){{0,3}}(?!\w)")
_DURATION_PART = re.compile(rf"(?P<count>{_COUNT})(?:{_SPACE}|-)?(?P<unit>{_UNIT})(?![A-Za-z])")
_VAGUE = re.compile(
    rf"(?<![\w#]){_COUNT}(?:{_SPACE}|-)"
    rf"(?i:(?:business|working|calendar)(?:{_SPACE}|-)(?:days?|hours?)|months?|years?|quarters?)(?!\w)"
)
_HALF_HOUR = re.compile(r"(?<!\w)half(?: an|-an|-)?[ -]?hour(?!\w)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class PlainNumber:
    """A number that is no amount, percentage or duration."""

    start: int
    end: int


def read_quantities(claims: Claims, vocabulary: Vocabulary) -> list[PlainNumber]:
    """Claim durations, percentages and amounts.

    Returns:
        The numbers that are none of these, for ``read_plain_numbers`` once ids and names have been read.
    """
    for marker in _LIST_MARKER.finditer(claims.text):
        if claims.free(*marker.span(1)):
            claims.block(*marker.span(1))
    _read_durations(claims)
    plain: list[PlainNumber] = []
    for pattern in (_RUN, _SPELLED):
        for found in pattern.finditer(claims.text):
            number = PlainNumber(*found.span())
            if claims.free(*found.span()) and not (
                _read_percent(claims, vocabulary, number) or _read_amount(claims, vocabulary, number)
            ):
                plain.append(number)
    return plain


def read_plain_numbers(claims: Claims, vocabulary: Vocabulary, numbers: list[PlainNumber]) -> None:
    """Claim as numbers what nothing else has claimed."""
    text = claims.text
    for number in numbers:
        start, sign = _sign(text, number.start)
        factor, end = _magnitude(text, number.end, money=False)
        value = _parse(text[number.start : number.end], vocabulary.decimal_mark)
        if value is None or _joined(text, start) or _GLUED.match(text, end) or _is_one(text, number):
            continue
        claims.add("number", sign * value * factor, start, end)


def _read_durations(claims: Claims) -> None:
    text = claims.text
    for found in _VAGUE.finditer(text):
        if claims.free(*found.span()):
            claims.block(*found.span())
    for found in _HALF_HOUR.finditer(text):
        claims.add("duration", timedelta(minutes=30), *found.span())
    for found in _DURATION.finditer(text):
        if claims.free(*found.span()):
            for seconds, start, end in _compounds(text, *found.span()):
                if seconds is None:
                    claims.block(start, end)
                else:
                    claims.add("duration", timedelta(seconds=seconds), start, end)


def _compounds(text: str, start: int, end: int) -> Iterator[tuple[float | None, int, int]]:
    """Join parts while their units get smaller: "1 hour 30 minutes" is one, "4 hours and 2 hours" are two."""
    total: Decimal | None = None
    begin, last, size = start, start, 0
    for part in _DURATION_PART.finditer(text, start, end):
        unit = _UNITS[part["unit"].lower()]
        seconds = _count(part["count"]) * unit
        # "2 hours and 90 minutes" and "a two-day, 90-minute course" are two durations each.
        if total is not None and unit < size and seconds < size and "-" not in part[0]:
            total, last, size = total + seconds, part.end(), unit
            continue
        if size:
            yield (None if total is None else float(total)), begin, last
        # "30m" after "1h" is minutes; alone it may be metres, millions or minutes.
        total = None if part["unit"] in "mM" else seconds
        begin, last, size = part.start(), part.end(), unit
    yield (None if total is None else float(total)), begin, last


def _read_percent(claims: Claims, vocabulary: Vocabulary, number: PlainNumber) -> bool:
    text = claims.text
    found = _PERCENT.match(text, number.end)
    if found is None:
        return False
    start, sign = _sign(text, number.start)
    value = _parse(text[number.start : number.end], vocabulary.decimal_mark, decimal_comma=True)
    if value is None or _joined(text, start):
        claims.block(number.start, found.end())
    else:
        claims.add("percent", sign * value, start, found.end())
    return True


def _read_amount(claims: Claims, vocabulary: Vocabulary, number: PlainNumber) -> bool:
    text = claims.text
    before = _BEFORE.search(text, max(0, number.start - 6), number.start)
    if before is not None and not claims.free(*before.span()):
        before = None  # in "50 EUR 60 USD" the first currency is spoken for
    factor, end = _magnitude(text, number.end, money=True)
    after = _AFTER.match(text, end)
    if before is None and after is None:
        return False
    start, sign = _sign(text, number.start if before is None else before.start())
    if before is not None and before["minus"]:
        sign = -1
    currency, end = _currency(text, before, after, end, vocabulary)
    exact = factor != 1
    value = _parse(text[number.start : number.end], vocabulary.decimal_mark, money=not exact, decimal_comma=True)
    glued = _GLUED.match(text, end) if after is None or after.end() != end else None
    if value is None or glued or (before is None and _joined(text, start)):
        claims.block(number.start, end)
    else:
        claims.add("amount", Amount(sign * value * factor, currency), start, end)
    return True


def _currency(
    text: str, before: re.Match[str] | None, after: re.Match[str] | None, end: int, vocabulary: Vocabulary
) -> tuple[str, int]:
    """The currency, and where the amount ends.

    One before the number goes before one after it, which may belong to the next number ("€50 $60"); but both
    may say the same ("€50 EUR"), and a code says which dollar a plain $ is ("$50 CAD").
    """
    if before is None:
        return (_code(after[0], vocabulary), after.end()) if after is not None else ("", end)
    named = _code(before["named"] or before["mark"], vocabulary)
    if after is not None and not _MORE_DIGITS.match(text, after.end()):
        other = _code(after[0], vocabulary)
        if other == named or before["named"] == "$":
            return other, after.end()
    return named, end


def _code(written: str, vocabulary: Vocabulary) -> str:
    name = written.strip(_SPACES)
    return _SYMBOLS.get(name) or _CURRENCY_WORDS.get(name.lower()) or (name if name in _CODES else vocabulary.dollar)


def _sign(text: str, start: int) -> tuple[int, int]:
    """Where the number starts with its minus, and 1 or -1."""
    if start and text[start - 1] == "-" and (start == 1 or text[start - 2].isspace() or text[start - 2] == "("):
        return start - 1, -1
    return start, 1


def _joined(text: str, start: int) -> bool:
    """Whether the number continues something to its left."""
    return start > 0 and text[start - 1] in "-/:.,$€£¥" and not text[start].isalpha() and text[start] != "-"


def _magnitude(text: str, end: int, *, money: bool) -> tuple[int, int]:
    found = _MAGNITUDE.match(text, end) or (_MONEY_MAGNITUDE.match(text, end) if money else None)
    return (_MAGNITUDES[found[0].strip(_SPACES).lower()], found.end()) if found else (1, end)


def _is_one(text: str, number: PlainNumber) -> bool:
    return text[number.start : number.end].lower() == "one"


def _count(written: str) -> Decimal:
    spelled = _WORD_NUMBERS.get(written.lower())
    return Decimal(written) if spelled is None else Decimal(spelled)


def _parse(written: str, mark: str, *, money: bool = False, decimal_comma: bool = False) -> Decimal | None:
    """The value of a numeral or number word; None if it has no certain one."""
    spelled = _WORD_NUMBERS.get(written.lower())
    if spelled is not None:
        return Decimal(spelled)
    if len(written) > 32:
        return None
    marks = [char for char in written if not char.isdigit()]
    if not marks:
        return None if written[0] == "0" and len(written) > 1 else Decimal(written)
    last = marks[-1]
    if last in _THIN or len(marks) != len(set(marks)):
        whole, decimals = (written, "") if marks.count(last) > 1 or last in _THIN else _split(written, last)
    elif len(marks) == 1:
        return _single_mark(written, last, mark, money=money, decimal_comma=decimal_comma)
    else:
        whole, decimals = _split(written, last)
    groups = {char for char in whole if not char.isdigit()}
    if len(groups) != 1 or whole[0] == "0" or not _GROUPED[groups.pop()].fullmatch(whole):
        return None
    return Decimal("".join(char for char in whole if char.isdigit()) + (f".{decimals}" if decimals else ""))


def _single_mark(written: str, found: str, mark: str, *, money: bool, decimal_comma: bool) -> Decimal | None:
    whole, decimals = _split(written, found)
    if whole[0] == "0" and len(whole) > 1:
        return None
    looks_grouped = len(decimals) == 3 and len(whole) <= 3 and whole != "0"
    if found == mark:
        return None if looks_grouped and money else Decimal(f"{whole}.{decimals}")
    if looks_grouped:
        return Decimal(whole + decimals)
    return Decimal(f"{whole}.{decimals}") if decimal_comma and len(decimals) <= 2 else None


def _split(written: str, mark: str) -> tuple[str, str]:
    whole, _, decimals = written.rpartition(mark)
    return whole, decimals
