"""The cast of a task: who the agent works for, and everybody whom contacts and mails name."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from email.utils import parseaddr
from typing import Any, cast

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


def cast_of(principal: str, timezone: str, mails: Records, contacts: Records, words: Vocabulary) -> tuple[Person, ...]:
    """Everybody with a mail address, the principal first."""
    home = principal.rpartition("@")[2]
    known = {str(contact.get("email")): contact for contact in contacts}
    names = {principal: "" if mails else words.principal.name, **dict.fromkeys(known, "")}
    for mail in mails:
        for name, address in _addresses(mail.get("from")):
            names.setdefault(address, name)
    people: list[Person] = []
    for address, name in names.items():
        if ADDRESS.fullmatch(address):
            about = known.get(address, {})
            person = Person(
                email=address,
                name=_text(about, "name") or name.strip() or _named(address),
                title=_text(about, "title"),
                department=_text(about, "department"),
                location=_text(about, "location"),
                phone=_text(about, "phone"),
                timezone=timezone,
                external=address.rpartition("@")[2] != home,
            )
            people.append(person)
    return tuple(people)


def _text(record: Mapping[str, Any], name: str) -> str:
    value = record.get(name)
    return "" if value is None else str(value).strip()


def _addresses(value: object) -> Iterable[tuple[str, str]]:
    texts: list[object] = list(value.split(",")) if isinstance(value, str) else []
    if isinstance(value, list):
        texts = cast("list[object]", value)
    for text in texts:
        name, address = parseaddr(str(text))
        if ADDRESS.fullmatch(address):
            yield name, address


def _local(address: str) -> str:
    return address.partition("@")[0].casefold()


def _named(address: str) -> str:
    local = address.partition("@")[0]
    return " ".join(part.capitalize() for part in re.split(r"[._-]+", local) if part) or address
