"""Whom a recipient means, and how an address is shown.

A recipient may be written as ``Name <a@b.c>``, as a bare address, or as a name that only one person inside
has. Addresses are kept bare: as the cast writes them, or in small letters when the cast does not know them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from servers.errors import ToolError, suggest
from servers.people import find_person
from servers.services.mail.records import ADDRESS_PATTERN
from servers.tools import Call

_ADDRESS = re.compile(ADDRESS_PATTERN)
_NAMED = re.compile(r"[^<>]*<\s*([^<>\s]+)\s*>\s*")


@dataclass(frozen=True, slots=True)
class Recipients:
    """Whom a message goes to; nobody twice."""

    to: list[str]
    cc: list[str]
    bcc: list[str]

    @property
    def everyone(self) -> list[str]:
        """All of them, in order."""
        return [*self.to, *self.cc, *self.bcc]


def recipients(to: Iterable[str], cc: Iterable[str] = (), bcc: Iterable[str] = ()) -> Recipients:
    """Sort addresses into fields; who stands in several stays in the first."""
    seen: set[str] = set()
    fields: list[list[str]] = []
    for field in (to, cc, bcc):
        fields.append([address for address in dict.fromkeys(field) if address not in seen])
        seen.update(fields[-1])
    return Recipients(*fields)


def resolve_all(call: Call, texts: Sequence[str]) -> list[str]:
    """The addresses that recipients mean, in order.

    Raises:
        ToolError: See ``resolve``.
    """
    return [resolve(call, text) for text in texts]


def resolve(call: Call, text: str) -> str:
    """The address that a recipient means.

    Raises:
        ToolError: It is no address, an address of ours that nobody has, or a name of nobody or several.
    """
    named = _NAMED.fullmatch(text)
    address = text.strip() if named is None else named[1]
    if address in call.world.people:
        return address
    if "@" not in address:
        if named is not None:
            raise _no_address(call, text)
        return find_person(call, address, internal=True).email
    address = address.lower()
    if _ADDRESS.fullmatch(address) is None or len(address) > 254:
        raise _no_address(call, text)
    people = call.world.people.values()
    for person in people:
        if person.email.lower() == address:
            return person.email
    domain = address.rsplit("@", 1)[1]
    ours = [person.email for person in people if not person.external]
    if any(email.lower().endswith(f"@{domain}") for email in ours):
        raise call.refuse(f"nobody at {domain} has the address {address}. {suggest(address, ours)}")
    return address


def shown(call: Call, address: str) -> str:
    """An address with the name that belongs to it, where the cast knows one."""
    person = call.world.people.get(address)
    return address if person is None else f"{person.name} <{address}>"


def shown_all(call: Call, addresses: Iterable[str]) -> list[str]:
    """Addresses with names."""
    return [shown(call, address) for address in addresses]


def _no_address(call: Call, text: str) -> ToolError:
    return call.refuse(
        f"{text!r:.80} is not a recipient. Write one recipient per item: a mail address, "
        f"'Name <address>', or a coworker's name."
    )
