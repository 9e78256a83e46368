"""The built-in services: a literal tuple, so that what there is can be read here and not discovered.

A new service is one module in ``servers/services`` and one line below.
"""

from __future__ import annotations

from collections.abc import Iterable

from servers.errors import Problem, SpecError, suggest
from servers.services.calendar import CALENDAR
from servers.services.chat import CHAT
from servers.services.directory import DIRECTORY
from servers.services.files import FILES
from servers.services.mail import MAIL
from servers.services.tickets import TICKETS
from servers.services.workplace import WORKPLACE
from servers.tools import Service

BUILT_IN: tuple[Service, ...] = (MAIL, CALENDAR, TICKETS, DIRECTORY, CHAT, FILES, WORKPLACE)


def services(names: Iterable[str]) -> tuple[Service, ...]:
    """The built-in services of these names, in the order of the catalogue.

    Raises:
        SpecError: A name that is no service.
    """
    known = {service.name: service for service in BUILT_IN}
    wanted = list(names)
    problems = [
        Problem("unknown_service", f"services[{index}]", f"no service {name!r}", suggest(name, known))
        for index, name in enumerate(wanted)
        if name not in known
    ]
    if problems:
        raise SpecError(problems)
    return tuple(service for service in BUILT_IN if service.name in wanted)
