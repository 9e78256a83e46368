"""Records from outside: what ids and types cannot show to be wrong, and what an author need not write.

``check`` finds impossible events; ``prepare`` completes good ones: the zone of the organizer, rules in
canonical form, and the starts of changed occurrences among those that their series excludes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, cast

from servers.errors import Problem, suggest
from servers.people import Person
from servers.records import Record, iso_utc
from servers.services.calendar.access import ADDRESS, MOST_PEOPLE, own_domains
from servers.services.calendar.editing import LONGEST_REPEATED
from servers.services.calendar.moments import (
    DAY,
    FIRST_INSTANT,
    LAST_INSTANT,
    LONGEST,
    day_of,
    known_zone,
    midnight,
    zone_problem,
)
from servers.services.calendar.records import Event, occurrence_id
from servers.services.calendar.recurrence import Series, is_occurrence, occurrences, parse_rule
from servers.services.calendar.series import start_problem
from servers.services.calendar.store import ALL
from servers.world import World

People = Mapping[str, Person]


def check(records: Mapping[str, Mapping[str, Record]], start: int) -> list[Problem]:
    """Find events that cannot be, or that name people whom nobody knows."""
    people = cast("People", records.get(Person.type_name, {}))
    events = cast("Mapping[str, Event]", records.get(Event.type_name, {}))
    domains = own_domains(people.values())
    problems: list[Problem] = []
    for index, event in enumerate(events.values()):
        where = f"records.{Event.type_name}[{index}]"
        timezone = _timezone(event, people)
        if not known_zone(timezone):
            problems.append(Problem("unknown_timezone", f"{where}.timezone", zone_problem(timezone)))
            continue
        problems += _people_problems(event, where, people, domains)
        wrong_times = list(_time_problems(event, where, timezone))
        problems += wrong_times or _series_problems(event, where, events, people)
    return problems


def prepare(world: World) -> None:
    """Complete the events of a new image."""
    events = {event.id: event for event in world.select(ALL)}
    excluded: dict[str, set[int]] = {}
    for event in events.values():
        if event.series_id is not None and event.original_start is not None:
            excluded.setdefault(event.series_id, set()).add(event.original_start)
    for event in events.values():
        values: dict[str, Any] = {
            "timezone": _timezone(event, world.people),
            "recurrence": parse_rule(event.recurrence).text() if event.recurrence else "",
            "excluded": sorted({*event.excluded, *excluded.get(event.id, ())}),
        }
        if any(getattr(event, name) != value for name, value in values.items()):
            world.update(event, **values)


def _timezone(event: Event, people: People) -> str:
    if event.timezone:
        return event.timezone
    organizer = people.get(event.organizer)
    return organizer.timezone if organizer else "UTC"


def _people_problems(event: Event, where: str, people: People, domains: set[str]) -> Iterator[Problem]:
    addresses = [attendee["email"] for attendee in event.attendees]
    for email, path in [
        (event.organizer, "organizer"),
        *((a, f"attendees[{n}]") for n, a in enumerate(addresses)),
    ]:
        if email in people:
            continue
        known = next((other for other in people if other.casefold() == email.casefold()), None)
        if known is not None:
            yield Problem(
                "unknown_person",
                f"{where}.{path}",
                f"{email!r} is written {known!r} in the cast",
                f"Write {known}.",
            )
        elif ADDRESS.fullmatch(email) is None:
            yield Problem("bad_address", f"{where}.{path}", f"{email!r} is no mail address")
        elif email.casefold().rpartition("@")[2] in domains:
            yield Problem(
                "unknown_person",
                f"{where}.{path}",
                f"no colleague has the address {email!r}",
                suggest(email, people),
            )
    if len(set(addresses)) < len(addresses):
        yield Problem("duplicate_attendee", f"{where}.attendees", "somebody is invited twice")
    if len(addresses) > MOST_PEOPLE:
        yield Problem("too_many_attendees", f"{where}.attendees", f"{len(addresses)} people; at most {MOST_PEOPLE}")


def _time_problems(event: Event, where: str, timezone: str) -> Iterator[Problem]:
    if not (_in_calendar(event.start) and _in_calendar(event.end)):
        yield Problem("impossible_time", f"{where}.start", "the calendar goes from 1970 to 2100")
        return
    if event.end <= event.start:
        yield Problem(
            "impossible_time",
            f"{where}.end",
            f"the end {iso_utc(event.end)} is not after {iso_utc(event.start)}",
        )
    longest = LONGEST_REPEATED if event.recurrence else LONGEST
    if event.end - event.start > longest:
        yield Problem("impossible_time", f"{where}.end", f"the event lasts longer than {longest // DAY} days")
    for name in ("start", "end") if event.all_day else ():
        instant = cast("int", getattr(event, name))
        if midnight(day_of(instant, timezone), timezone) != instant:
            yield Problem(
                "impossible_time",
                f"{where}.{name}",
                f"an all-day event begins and ends at midnight in {timezone}",
            )


def _series_problems(event: Event, where: str, events: Mapping[str, Event], people: People) -> Iterator[Problem]:
    if event.recurrence:
        yield from _rule_problems(event, where, Series(event.recurrence, event.start, _timezone(event, people)))
    elif event.excluded:
        yield Problem("not_a_series", f"{where}.excluded", "only an event with recurrence excludes occurrences")
    if (event.series_id is None) != (event.original_start is None):
        yield Problem("half_an_occurrence", f"{where}.series_id", "series_id and original_start go together")
    if event.series_id is None or event.original_start is None:
        return
    if event.recurrence:
        yield Problem("not_a_series", f"{where}.recurrence", "a changed occurrence does not recur itself")
    expected = occurrence_id(event.series_id, event.original_start)
    if event.id != expected:
        yield Problem(
            "wrong_id",
            f"{where}.id",
            "a changed occurrence keeps the id of the occurrence",
            f"Write {expected}.",
        )
    series = events[event.series_id]
    plan = Series(series.recurrence, series.start, _timezone(series, people))
    if _sound(series, plan) and not _happens(plan, event.original_start):
        where = f"{where}.original_start"
        words = f"{event.series_id!r} does not happen then"
        yield Problem("no_occurrence", where, words, _nearest(plan, event.original_start))


def _rule_problems(event: Event, where: str, series: Series) -> Iterator[Problem]:
    try:
        parse_rule(event.recurrence)
    except ValueError as error:
        yield Problem("bad_recurrence", f"{where}.recurrence", str(error))
        return
    problem = start_problem(series)
    if problem is not None:
        yield Problem("bad_recurrence", f"{where}.recurrence", problem)
    for number, gone in enumerate(event.excluded):
        if not _happens(series, gone):
            where_gone = f"{where}.excluded[{number}]"
            yield Problem("no_occurrence", where_gone, "the series does not happen then", _nearest(series, gone))


def _sound(event: Event, series: Series) -> bool:
    """Whether a series can be expanded; what is wrong with one that cannot is reported where it stands."""
    if not (series.recurrence and known_zone(series.timezone) and _in_calendar(event.start)):
        return False
    try:
        parse_rule(series.recurrence)
    except ValueError:
        return False
    return True


def _happens(series: Series, start: int) -> bool:
    return _in_calendar(start) and is_occurrence(series, start)


def _nearest(series: Series, start: int) -> str | None:
    near = occurrences(series, start - DAY, start + DAY) if _in_calendar(start) else []
    return f"Write {iso_utc(near[0])}." if near else None


def _in_calendar(instant: int) -> bool:
    return FIRST_INSTANT + DAY <= instant < LAST_INSTANT
