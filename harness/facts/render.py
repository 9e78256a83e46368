"""The same fact in other words: what an honest writer might put, and ``extract`` must read back.

Used to prove that graders keep harmless paraphrases: every style of every fact reads back as that fact, given
a vocabulary that knows the names, the id pattern and the reference date, with "." as its decimal mark.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, timedelta
from decimal import Decimal

from harness.facts.model import Amount, ClockTime, Fact, FactError

_MONTHS = (
    "January", "February", "March", "April", "May", "June",
    "July", "August", "September", "October", "November", "December",
)  # fmt: skip
_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_SYMBOLS: Mapping[str, str] = {
    "EUR": "€",
    "GBP": "£",
    "JPY": "¥",
    "INR": "₹",
    "USD": "US$",
    "CAD": "CA$",
    "AUD": "A$",
}
_WORDS = ("two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")
_UNITS = (("day", "d", 86_400), ("hour", "h", 3_600), ("minute", "min", 60), ("second", "sec", 1))
_NEAR = timedelta(days=150)


def styles(fact: Fact, reference: date | None = None) -> tuple[str, ...]:
    """The styles in which a fact can be written without loss; empty for an amount in fractions of a cent.

    Args:
        fact: The fact.
        reference: The reference date of the reader. Dates near it may also be written without their year.
    """
    return tuple(_phrasings(fact, reference))


def render(fact: Fact, style: str, reference: date | None = None) -> str:
    """Write a fact in one of its ``styles``.

    Raises:
        FactError: If this fact cannot be written in this style.
    """
    phrasings = _phrasings(fact, reference)
    if style not in phrasings:
        known = ", ".join(phrasings) or "none"
        raise FactError(f"{fact.kind} {fact.value} has no style {style!r}; it has {known}")
    return phrasings[style]


def _phrasings(fact: Fact, reference: date | None) -> Mapping[str, str]:
    match fact.value:
        case Amount() as amount:
            return _amount(amount)
        case ClockTime() as time:
            return _time(time)
        case date() as day:
            return _date(day, reference)
        case timedelta() as duration:
            return _duration(duration)
        case Decimal() as number:
            return _percent(number) if fact.kind == "percent" else _number(number)
        case str() as text:
            return {"plain": text, "bold": f"**{text}**", "quoted": f'"{text}"', "bracketed": f"({text})"}


def _amount(amount: Amount) -> Mapping[str, str]:
    value, code = amount.value, amount.currency
    if value != round(value, 2):
        return {}
    minus, size = ("-", -value) if value < 0 else ("", value)
    grouped = f"{size:,.2f}"
    continental = grouped.translate(str.maketrans(",.", ".,"))
    written = {
        "code_after": f"{minus}{grouped} {code}",
        "code_before": f"{code} {minus}{size:.2f}",
        "shortest": f"{minus}{_shortest(size)} {code}",
        "continental": f"{minus}{continental} {_SYMBOLS.get(code, code)}",
        "thin_spaces": f"{minus}{grouped.replace(',', chr(0x202F))} {code}",
    }
    if code in _SYMBOLS:
        written["symbol"] = f"{minus}{_SYMBOLS[code]}{grouped}"
        written["symbol_after"] = f"{minus}{grouped}{_SYMBOLS[code]}"
    if size >= 1000 and size % 100 == 0:
        written["thousands"] = f"{minus}{_shortest(size / 1000)}k {code}"
    return written


def _number(value: Decimal) -> Mapping[str, str]:
    written = {"plain": _shortest(value)}
    if value == value.to_integral_value():
        if abs(value) >= 1000:
            written["grouped"] = f"{int(value):,}"
        if 2 <= value <= 12:
            written["word"] = _WORDS[int(value) - 2]
    return written


def _percent(value: Decimal) -> Mapping[str, str]:
    number = _shortest(value)
    return {
        "sign": f"{number}%",
        "spaced": f"{number} %",
        "word": f"{number} percent",
        "words": f"{number} per cent",
    }


def _date(day: date, reference: date | None) -> Mapping[str, str]:
    written = {"iso": day.isoformat()}
    if not 1900 <= day.year <= 2099:
        return written
    month, weekday, number, year = _MONTHS[day.month - 1], _DAYS[day.weekday()], day.day, day.year
    ordinal = f"{number}{_ordinal_ending(number)}"
    written |= {
        "day_month": f"{number} {month} {year}",
        "day_month_short": f"{number} {month[:3]} {year}",
        "day_of_month": f"the {ordinal} of {month} {year}",
        "month_day": f"{month} {number}, {year}",
        "month_day_short": f"{month[:3]} {number}, {year}",
        "month_ordinal": f"{month[:3]}. {ordinal}, {year}",
        "weekday": f"{weekday}, {number} {month} {year}",
        "weekday_short": f"{weekday[:3]} {month[:3]} {number}, {year}",
        "weekday_iso": f"{weekday} {day.isoformat()}",
    }
    if reference is not None and abs(day - reference) <= _NEAR:
        written |= {
            "without_year": f"{number} {month}",
            "month_first_without_year": f"{month} {ordinal}",
            "weekday_without_year": f"{weekday}, {month} {number}",
        }
    return written


def _ordinal_ending(number: int) -> str:
    return "th" if 11 <= number % 100 <= 13 else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")


def _time(time: ClockTime) -> Mapping[str, str]:
    zone = ""
    if time.zone is not None:
        zone = f" UTC{time.zone}" if time.zone[0] in "+-" else f" {time.zone}"
    hour, half = time.hour % 12 or 12, "pm" if time.hour >= 12 else "am"
    minute = f"{time.minute:02d}"
    written = {
        "24h": f"{time.hour:02d}:{minute}{zone}",
        "24h_h": f"{time.hour:02d}h{minute}{zone}",
        "12h": f"{hour}:{minute} {half}{zone}",
        "12h_upper": f"{hour}:{minute} {half.upper()}{zone}",
        "12h_dots": f"{hour}:{minute} {half[0]}.m.{zone}",
        "12h_point": f"{hour}.{minute}{half}{zone}",
    }
    if time.minute == 0:
        written["12h_short"] = f"{hour}{half}{zone}"
    if zone:
        written["zone_in_brackets"] = f"{time.hour:02d}:{minute} ({zone.strip()})"
    if time.zone is not None and time.zone[0] == "+":
        written["24h_offset"] = f"{time.hour:02d}:{minute}{time.zone}"
    return written


def _duration(duration: timedelta) -> Mapping[str, str]:
    seconds = duration // timedelta(seconds=1)
    if duration != timedelta(seconds=seconds) or seconds <= 0:
        return {}
    parts: list[tuple[int, str, str]] = []
    rest = seconds
    for name, short, size in _UNITS:
        count, rest = divmod(rest, size)
        if count:
            parts.append((count, name, name if size == 86_400 else short))
    long = [f"{count} {name}{'s' if count != 1 else ''}" for count, name, _ in parts]
    written = {
        "long": " ".join(long),
        "and": " and ".join(long) if len(long) <= 2 else f"{', '.join(long[:-1])} and {long[-1]}",
        "short": " ".join(f"{count} {short}" for count, _, short in parts),
    }
    if len(parts) == 1:
        count, name, _ = parts[0]
        written["hyphen"] = f"{count}-{name}"
        if 2 <= count <= 12:
            written["word"] = f"{_WORDS[count - 2]} {name}s"
    if seconds % 60 == 0 and seconds < 60_000_000:
        written["minutes"] = f"{seconds // 60} minutes"
    if seconds % 900 == 0 and seconds < 3_600_000_000:
        written["decimal_hours"] = f"{_shortest(Decimal(seconds) / 3600)} hours"
    return written


def _shortest(value: Decimal) -> str:
    """Digits without an exponent or closing zeros."""
    text = f"{value:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text
