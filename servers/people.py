"""People: the cast of a workplace, known to every service.

A person is identified by the mail address. Everyone who can act in the workplace (the principal, coworkers,
customers) is in the cast; the directory service shows it, and all other services look names up in it.
"""

from __future__ import annotations

from typing import ClassVar
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import Field, field_validator

from servers.errors import ToolError
from servers.records import Record
from servers.tools import Call


class Person(Record):
    """Someone in or around the workplace."""

    type_name: ClassVar[str] = "directory.person"
    key: ClassVar[str] = "email"

    email: str = Field(pattern=r"^[^@\s]+@[^@\s]+\.[^@\s]+$")
    name: str = Field(min_length=1)
    title: str = ""
    department: str = ""
    manager: str | None = None
    """Mail address of the manager."""
    timezone: str = "UTC"
    """IANA name."""
    location: str = ""
    phone: str = ""
    roles: list[str] = Field(default_factory=list[str])
    """Rights and duties that tools and policies refer to, such as ``approver`` or ``ticket_admin``."""
    external: bool = False
    """Outside the organisation: no mailbox rules, calendars or channels of ours."""

    @field_validator("timezone")
    @classmethod
    def _known_zone(cls, value: str) -> str:
        try:
            ZoneInfo(value)
        except (ZoneInfoNotFoundError, ValueError, OSError):  # "Europe" is a directory
            raise ValueError("expected an IANA time zone such as Europe/Berlin") from None
        return value


def find_person(call: Call, text: str, *, internal: bool = False) -> Person:
    """Look someone up by mail address or by full or first name.

    Raises:
        ToolError: Nobody fits (the closest are listed) or several do (all are listed).
    """
    everyone = [person for person in call.world.people.values() if not (internal and person.external)]
    wanted = text.strip().casefold()
    exact = [person for person in everyone if person.email.casefold() == wanted]
    named = exact or [person for person in everyone if person.name.casefold() == wanted]
    found = named or [person for person in everyone if wanted in person.name.casefold().split()]
    if len(found) == 1:
        return found[0]
    if found:
        options = ", ".join(f"{person.name} <{person.email}>" for person in found)
        raise call.refuse(f"{text!r} fits several people: {options}. Use the mail address.")
    raise _nobody(call, text, everyone)


def _nobody(call: Call, text: str, everyone: list[Person]) -> ToolError:
    from difflib import get_close_matches  # noqa: PLC0415 - only on the failing path

    names = {person.name.casefold(): person for person in everyone} | {p.email.casefold(): p for p in everyone}
    close = dict.fromkeys(
        names[match].email for match in get_close_matches(text.casefold(), list(names), n=4, cutoff=0.5)
    )
    hint = f" Did you mean {' or '.join(close)}?" if close else ""
    return call.refuse(f"there is nobody called {text!r} here.{hint}")
