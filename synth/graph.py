"""The world graph: one seeded source of people, organisations and their relations.

Every service's records are projected from it, so the same customer has the same contact, account manager and
tier in mail, tickets and calendar. Nothing here knows a workflow; families (``synth.families``) pick from it
what they need.
"""

from __future__ import annotations

import random
import re
import unicodedata
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from functools import cache
from importlib import resources
from typing import Any
from zoneinfo import ZoneInfo

import yaml

from servers.people import Person
from synth.streams import stream


@dataclass(frozen=True, slots=True)
class Customer:
    """An organisation that buys from the employer."""

    name: str
    domain: str
    tier: str
    """``vip`` or ``standard``."""
    contact: Person
    manager: Person
    """The account manager, one of the employer's people."""


@dataclass(frozen=True, slots=True)
class WorldGraph:
    """Everything that services show a part of."""

    seed: str
    company: str
    domain: str
    people: tuple[Person, ...]
    """The employer's people; the first is the head of everything."""
    customers: tuple[Customer, ...]
    principal: Person
    start: int
    """A working day's morning in the principal's zone, seconds since 1970 UTC."""

    @property
    def zone(self) -> ZoneInfo:
        """The principal's time zone."""
        return ZoneInfo(self.principal.timezone)

    @property
    def today(self) -> date:
        """The principal's date when the episode begins."""
        return datetime.fromtimestamp(self.start, self.zone).date()

    @property
    def cast(self) -> tuple[Person, ...]:
        """Everyone, customers' contacts included."""
        return self.people + tuple(customer.contact for customer in self.customers)

    def stream(self, *path: str | int) -> random.Random:
        """A random stream of this world."""
        return stream(self.seed, *path)

    def department(self, name: str) -> list[Person]:
        """The people of a department."""
        return [person for person in self.people if person.department == name]

    def at(self, day: int, clock: str) -> int:
        """The instant of a local time, ``day`` days after the first day of the episode."""
        moment = datetime.combine(self.today + timedelta(days=day), time.fromisoformat(clock), self.zone)
        return int(moment.timestamp())


def build_graph(seed: str, *, people: int = 14, customers: int = 6) -> WorldGraph:
    """Draw a world from a seed."""
    draw = stream(seed, "graph")
    names = data("people.yaml")
    companies = data("companies.yaml")
    company: str = draw.choice(companies["employers"])
    domain = _domain(companies, company)
    staff = _staff(draw, names, domain, people)
    sales = [person for person in staff if person.department == "Sales"]
    clients: list[Customer] = []
    taken = {person.name for person in staff}
    for index, name in enumerate(draw.sample(companies["customers"], customers)):
        full = _fresh_name(draw, names, taken)
        contact = Person(
            email=_address(full, _domain(companies, name)),
            name=full,
            title=draw.choice(["Buyer", "Plant manager", "Office manager", "IT lead"]),
            timezone="Europe/Berlin",
            external=True,
        )
        tier = "vip" if index < 2 else "standard"
        clients.append(Customer(name, _domain(companies, name), tier, contact, draw.choice(sales)))
    principal = draw.choice([person for person in staff[1:] if person.department in ("Sales", "Support", "Operations")])
    monday = date(2026, 3, 2) + timedelta(weeks=draw.randrange(40))
    day = monday + timedelta(days=draw.randrange(3))
    start = datetime.combine(day, time(9, draw.choice([0, 5, 10, 20])), ZoneInfo(principal.timezone))
    return WorldGraph(seed, company, domain, tuple(staff), tuple(clients), principal, int(start.timestamp()))


def _staff(draw: random.Random, names: dict[str, Any], domain: str, count: int) -> list[Person]:
    offices: list[list[Any]] = names["offices"]
    departments: dict[str, list[str]] = names["departments"]
    taken: set[str] = set()
    head: Person | None = None
    leads: dict[str, Person] = {}
    staff: list[Person] = []
    for index in range(count):
        full = _fresh_name(draw, names, taken)
        _, zone, place = draw.choices(offices, weights=[office[0] for office in offices])[0]
        department = list(departments)[(index - 1) % len(departments)] if index else "Operations"
        title = "Managing director" if index == 0 else draw.choice(departments[department])
        manager = leads.get(department, head)
        person = Person(
            email=_address(full, domain),
            name=full,
            title=title,
            department=department,
            manager=None if manager is None else manager.email,
            timezone=zone,
            location=place,
            roles=["approver"] if index == 0 or department not in leads else [],
        )
        head = head or person
        if index:
            leads.setdefault(department, person)
        staff.append(person)
    return staff


def _fresh_name(draw: random.Random, names: dict[str, Any], taken: set[str]) -> str:
    while True:
        full = f"{draw.choice(names['given'])} {draw.choice(names['family'])}"
        if full not in taken:
            taken.add(full)
            return full


def _address(name: str, domain: str) -> str:
    return f"{_slug(name, '.')}@{domain}"


def _domain(companies: dict[str, Any], company: str) -> str:
    return str(companies["domain"]).format(slug=_slug(company, "-"))


def _slug(text: str, joint: str) -> str:
    plain = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode().lower()
    return re.sub(r"[^a-z0-9]+", joint, plain).strip(joint)


@cache
def data(name: str) -> dict[str, Any]:
    """A data file of this package; read once per process. Do not change what you get."""
    text = resources.files("synth").joinpath("data", name).read_text(encoding="utf-8")
    return yaml.safe_load(text)
