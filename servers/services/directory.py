"""Directory: who is who, who reports to whom, and several people of one name.

Shows the cast (``servers.people``). It holds no records of its own and changes nothing.
"""

from __future__ import annotations

from pydantic import Field

from servers.paging import page
from servers.people import Person, find_person
from servers.tools import Arguments, Call, JsonObject, Service, tool


class SearchPeople(Arguments):
    """Search the people directory. All given filters must fit; several people may share a name."""

    query: str = Field(default="", description="Words of a name, title, department or mail address")
    department: str | None = Field(default=None, description="Exact department")
    role: str | None = Field(default=None, description="A role such as approver")
    page_size: int = Field(default=10, ge=1, le=25, description="People per page, at most 25")
    cursor: str | None = Field(default=None, description="next_cursor of the previous page")


class GetPerson(Arguments):
    """Get one person's full directory entry, with manager and direct reports."""

    person: str = Field(description="Mail address, or a name that only one person has")


def search_people(call: Call, args: SearchPeople) -> JsonObject:
    """Find people by words, department and role."""
    words = args.query.casefold().split()
    found = [person for person in call.world.people.values() if _fits(person, words, args)]
    found.sort(key=lambda person: (person.name, person.email))
    scope = f"{args.query}\0{args.department}\0{args.role}"
    result = page(call, scope, found, key=lambda person: person.email, size=args.page_size, cursor=args.cursor)
    return {
        "people": [_summary(person) for person in result.items],
        "total": result.total,
        "next_cursor": result.next_cursor,
    }


def get_person(call: Call, args: GetPerson) -> JsonObject:
    """Show one person."""
    person = find_person(call, args.person)
    people = call.world.people
    manager = people.get(person.manager or "")
    reports = sorted(other.email for other in people.values() if other.manager == person.email)
    return {
        **_summary(person),
        "timezone": person.timezone,
        "local_time": call.local(call.now, person.timezone),
        "location": person.location,
        "phone": person.phone,
        "roles": person.roles,
        "manager": None if manager is None else _summary(manager),
        "direct_reports": reports,
    }


def _fits(person: Person, words: list[str], args: SearchPeople) -> bool:
    if args.department is not None and person.department.casefold() != args.department.casefold():
        return False
    if args.role is not None and args.role not in person.roles:
        return False
    text = f"{person.name} {person.title} {person.department} {person.email}".casefold()
    return all(word in text for word in words)


def _summary(person: Person) -> JsonObject:
    return {
        "name": person.name,
        "email": person.email,
        "title": person.title,
        "department": person.department,
        "external": person.external,
    }


DIRECTORY = Service(
    name="directory",
    title="People directory",
    summary="People, roles, managers; names can be ambiguous.",
    records=(Person,),
    tools=(
        tool("directory_search", SearchPeople, search_people),
        tool("directory_get", GetPerson, get_person),
    ),
)
