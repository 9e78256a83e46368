"""A desk: one person's way into a world, with the tools that are exposed there.

Agents work at a desk, whether they come over MCP or in process; MCP servers are built around one
(``servers.mcp_server``). Calls of tools that are not exposed are refused and stand in the journal like any other call.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from servers.errors import Problem, SpecError, suggest
from servers.image import Workplace
from servers.journal import Actor
from servers.tools import Tool
from servers.world import CallResult, World


@dataclass(frozen=True, slots=True, eq=False)
class Desk:
    """Who works where with which tools."""

    world: World
    actor: Actor
    tools: Mapping[str, Tool]
    notices: bool = True
    """Pending notices are told behind the next tool result."""
    think: int = 0
    """Simulated seconds that pass before each call, for outside agents whose thinking nobody else times."""

    def call(self, tool: str, arguments: Mapping[str, Any]) -> CallResult:
        """Call a tool as this desk's person; see ``World.call``."""
        if self.think:
            self.world.advance(self.think)
        return self.world.call(tool, arguments, self.actor, self.tools)

    def service_of(self, tool: str) -> str:
        """The name of the service that a tool of this desk belongs to."""
        return self.world.image.workplace.service_of(tool)

    def only(self, service: str) -> Desk:
        """The same desk with the tools of one service.

        Raises:
            KeyError: The desk has no tools of such a service.
        """
        found = {name: tool for name, tool in self.tools.items() if self.service_of(name) == service}
        if not found:
            raise KeyError(service)
        return replace(self, tools=found)


def agent_desk(world: World, exposed: Mapping[str, Tool], *, notices: bool = True, think: int = 0) -> Desk:
    """The desk of the agent that works for the world's principal."""
    return Desk(world, Actor("agent", world.image.principal), exposed, notices, think)


def expose(workplace: Workplace, names: Iterable[str] | None) -> dict[str, Tool]:
    """Choose tools by name, in the order of the services; None exposes all.

    Raises:
        SpecError: A name that is no tool here.
    """
    if names is None:
        return dict(workplace.tools)
    wanted = list(names)
    problems = [
        Problem("unknown_tool", f"tools[{index}]", f"no tool {name!r}", suggest(name, workplace.tools))
        for index, name in enumerate(wanted)
        if name not in workplace.tools
    ]
    if problems:
        raise SpecError(problems)
    return {name: tool for name, tool in workplace.tools.items() if name in set(wanted)}
