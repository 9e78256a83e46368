"""What several tests need: a small office, and a desk over a real MCP client."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import mcp

from servers.desk import Desk, agent_desk, expose
from servers.errors import ServiceFault
from servers.events import EventSpec
from servers.image import Image, build_image
from servers.journal import Actor
from servers.mcp_server import desk_server
from servers.records import parse_instant
from servers.tools import Service
from servers.world import World

NORA = "nora.lind@northwind.example"
OMAR = "omar.haddad@northwind.example"
PRIYA = "priya.raman@northwind.example"
DANA = "dana.fox@northwind.example"
DANA_K = "dana.kim@northwind.example"
KLARA = "klara.voss@alpenrad.example"
START = "2026-03-02T09:00:00+01:00"  # a Monday

PEOPLE: list[dict[str, Any]] = [
    {
        "email": NORA,
        "name": "Nora Lind",
        "title": "Account manager",
        "department": "Sales",
        "manager": PRIYA,
        "timezone": "Europe/Berlin",
    },
    {
        "email": OMAR,
        "name": "Omar Haddad",
        "title": "Support engineer",
        "department": "Support",
        "manager": PRIYA,
        "timezone": "Europe/Berlin",
    },
    {
        "email": PRIYA,
        "name": "Priya Raman",
        "title": "Head of operations",
        "department": "Operations",
        "timezone": "America/New_York",
        "roles": ["approver"],
    },
    {
        "email": DANA,
        "name": "Dana Fox",
        "title": "Designer",
        "department": "Product",
        "manager": PRIYA,
        "timezone": "Asia/Tokyo",
    },
    {
        "email": DANA_K,
        "name": "Dana Kim",
        "title": "Analyst",
        "department": "Finance",
        "manager": PRIYA,
        "timezone": "Europe/Berlin",
    },
    {"email": KLARA, "name": "Klara Voss", "title": "Buyer", "timezone": "Europe/Vienna", "external": True},
]


def office(
    services: Sequence[Service],
    records: Mapping[str, Sequence[Mapping[str, Any]]] | None = None,
    *,
    events: Sequence[Mapping[str, Any]] = (),
    people: Sequence[Mapping[str, Any]] = PEOPLE,
    principal: str = NORA,
    start: str = START,
    seed: str = "office",
) -> Image:
    """The image of a small office with the given services and records; Nora is the principal."""
    return build_image(
        services,
        people=people,
        records=records or {},
        principal=principal,
        start=parse_instant(start),
        seed=seed,
        events=[EventSpec.model_validate(event) for event in events],
    )


def desk(image: Image, tools: Sequence[str] | None = None) -> Desk:
    """A fresh world and the agent's desk in it."""
    return agent_desk(World.open(image), expose(image.workplace, tools))


def act(world: World, person: str, tool: str, **arguments: Any) -> dict[str, Any]:
    """Let a coworker call a tool; the call has to succeed."""
    result = world.call(tool, arguments, Actor("coworker", person))
    assert result.ok, result.text
    assert result.value is not None
    return result.value


class McpDesk:
    """An agent's connection over the real MCP client."""

    def __init__(self, client: mcp.Client) -> None:
        self.client = client

    async def ok(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """Call a tool that has to succeed; gives its result."""
        result = await self.client.call_tool(tool, arguments)
        assert not result.is_error, result.content
        value = json.loads(result.content[0].text)  # type: ignore[union-attr]
        assert value == result.structured_content
        return value

    async def refused(self, tool: str, **arguments: Any) -> str:
        """Call a tool that has to refuse; gives its words."""
        result = await self.client.call_tool(tool, arguments)
        assert result.is_error, result.content
        return result.content[0].text  # type: ignore[union-attr]


@asynccontextmanager
async def over_mcp(where: Desk, mode: str = "2026-07-28") -> AsyncIterator[McpDesk]:
    """Work at a desk over an in-memory MCP connection."""
    faults: list[ServiceFault] = []
    async with mcp.Client(desk_server(where, on_fault=faults.append), mode=mode) as client:  # type: ignore[arg-type]
        yield McpDesk(client)
    assert not faults, faults
