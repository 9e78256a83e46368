"""The cast of a task: who the agent works for, and everybody whom contacts and mails name."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from email.utils import parseaddr
from typing import Any

from servers.people import Person
from synth.importers.claw_eval.vocabulary import Vocabulary

ADDRESS = re.compile(r"[^@\s]+@[^@\s]+\.[^@\s]+")
Records = Sequence[Mapping[str, Any]]


def principal_of(mails: Records, contacts: Records, words: Vocabulary) -> str:
    """The address that most mails are written to; shared addresses only when there is no other.

    Without mails it is an address of our own, at the organisation of most contacts.
    """
    addresses = Counter(address for mail in mails for _, address in _addresses(mail.get("to")))
    single = {address: count for address, count in addresses.items() if _local(address) not in words.lists}
    ranked = single or addresses
    if ranked:
        return max(ranked, key=lambda address: (ranked[address], address))
    local, _, home = words.principal.email.partition("@")
    homes = Counter(
        address.rpartition("@")[2] for contact in contacts for _, address in _addresses(contact.get("email"))
    )
    return f"{local}@{max(homes, key=lambda name: (homes[name], name)) if homes else home}"


def cast_of(
    principal: str, timezone: str, mails: Records, contacts: Records, words: Vocabulary
) -> tuple[Person, ...]:
    """Everybody with a mail address, the principal first."""
    people: dict[str, Person] = {}
    home = principal.rpartition("@")[2]

    def add(address: str, name: str, **more: str) -> None:
        if ADDRESS.fullmatch(address) and address not in people:
            outside = address.rpartition("@")[2] != home
            shown = name.strip() or _named(address)
            people[address] = Person(email=address, name=shown, timezone=timezone, external=outside, **more)

    known = {str(contact.get("email")): contact for contact in contacts}
    own = known.get(principal, {})
    fallback = "" if mails else words.principal.name
    add(principal, _text(own, "name") or fallback, **_about(own))
    for address, contact in known.items():
        add(address, _text(contact, "name"), **_about(contact))
    for mail in mails:
        for name, address in _addresses(mail.get("from")):
            add(address, name)
    return tuple(people.values())


def _about(contact: Mapping[str, Any]) -> dict[str, str]:
    return {name: _text(contact, name) for name in ("title", "department", "location", "phone")}


def _text(record: Mapping[str, Any], name: str) -> str:
    value = record.get(name)
    return "" if value is None else str(value)


def _addresses(value: object) -> Iterable[tuple[str, str]]:
    texts = value.split(",") if isinstance(value, str) else value if isinstance(value, list) else []
    for text in texts:  # pyright: ignore[reportUnknownVariableType] - a list of anything
        name, address = parseaddr(str(text))  # pyright: ignore[reportUnknownArgumentType]
        if ADDRESS.fullmatch(address):
            yield name, address


def _local(address: str) -> str:
    return address.partition("@")[0].casefold()


def _named(address: str) -> str:
    return (
        " ".join(part.capitalize() for part in re.split(r"[._-]+", address.partition("@")[0]) if part)
        or address
    )
