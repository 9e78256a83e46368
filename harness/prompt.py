"""What an agent reads before it begins: for whom it works, what time it is, the standing rules.

Short on purpose: a compact student pays for every token in every episode. What the tools do stands in their
own descriptions.
"""

from __future__ import annotations

from datetime import datetime

from harness.environment import Environment
from servers.tools import zone


def system_prompt(environment: Environment) -> str:
    """The system message of an episode."""
    person = next(person for person in environment.cast if person.email == environment.principal)
    now = datetime.fromtimestamp(environment.start, zone(person.timezone))
    title = f", {person.title}" if person.title else ""
    who = f"You are the assistant of {person.name}{title} <{person.email}>."
    when = f"It is {now:%A}, {now.isoformat(timespec='minutes')} ({person.timezone})."
    how = (
        "Work with the tools. When you are done, or need to know something only your user can tell, "
        "say so in plain words."
    )
    lines = [f"{who} {when}", how]
    if environment.rules:
        lines.append("Rules:")
        lines += [f"- {rule}" for rule in environment.rules]
    return "\n".join(lines)
