"""Serving a desk over MCP with the SDK's low-level server.

Tool schemas are compiled once per process (``mcp_tool``) and only bound to a desk here, because registering sixty tools
for every episode would cost more than the episode. ``desk_server`` serves one desk over any transport of the SDK (in
memory, stdio); ``servers.gateway`` serves many desks over HTTP with the same two handlers.

A refusal is a result with ``is_error`` and a text that helps, never a protocol error. When a tool of ours breaks, the
agent reads that the tool is not available; the fault is kept in ``Faults`` and voids the episode.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server

from servers.desk import Desk
from servers.errors import ServiceFault, WorldClosed
from servers.tools import Tool

logger = logging.getLogger(__name__)

Context = ServerRequestContext[Any]
FindDesk = Callable[[Context], Desk]
VERSION = "1"
BROKEN = "The tool is not available because of a fault in the workplace. Go on without it."


@lru_cache(maxsize=4096)
def mcp_tool(tool: Tool) -> types.Tool:
    """A tool as MCP lists it, with true annotations; made once per process."""
    return types.Tool(
        name=tool.name,
        description=tool.description,
        input_schema=tool.input_schema,
        annotations=types.ToolAnnotations(
            read_only_hint=tool.effect == "read",
            destructive_hint=tool.effect == "destroy",
            idempotent_hint=tool.idempotent,
            open_world_hint=False,
        ),
    )


def desk_server(desk: Desk, *, on_fault: Callable[[ServiceFault], None], name: str = "coworkenv") -> Server[Any]:
    """An MCP server for one desk, for ``mcp.Client(server)`` in memory or over stdio."""
    return make_server(lambda _: desk, on_fault=on_fault, name=name)


def make_server(find: FindDesk, *, on_fault: Callable[[ServiceFault], None], name: str = "coworkenv") -> Server[Any]:
    """An MCP server that looks up the desk of each request with ``find``."""

    async def list_tools(context: Context, params: types.PaginatedRequestParams | None) -> types.ListToolsResult:
        return types.ListToolsResult(tools=[mcp_tool(tool) for tool in find(context).tools.values()])

    async def call_tool(context: Context, params: types.CallToolRequestParams) -> types.CallToolResult:
        return answer(find(context), params, on_fault)

    server: Server[Any] = Server(name, version=VERSION, on_list_tools=list_tools, on_call_tool=call_tool)
    # Only a span per message for OpenTelemetry, which nobody collects here and every call would pay for.
    server.middleware.clear()
    # Else the SDK lists all tools before each call over HTTP, to compare arguments with Mcp-Param headers. No schema
    # here asks for any.
    server.get_tool_input_schema = _no_headers
    return server


def _no_headers(tool: str) -> None:
    """No argument of any tool travels in a header."""


def answer(
    desk: Desk, params: types.CallToolRequestParams, on_fault: Callable[[ServiceFault], None]
) -> types.CallToolResult:
    """Run one call at a desk and put the result into MCP's form, pending notices behind it."""
    try:
        result = desk.call(params.name, params.arguments or {})
        notices = desk.world.take_notices() if desk.notices else []
    except ServiceFault as fault:
        logger.exception("a tool broke")
        on_fault(fault)
        return types.CallToolResult(content=[types.TextContent(text=BROKEN)], is_error=True)
    except WorldClosed as closed:
        return types.CallToolResult(content=[types.TextContent(text=str(closed))], is_error=True)
    content: list[types.ContentBlock] = [types.TextContent(text=result.text)]
    content += [types.TextContent(text=f"[notice] {notice}") for notice in notices]
    if result.ok:
        return types.CallToolResult(content=content, structured_content=result.value)
    return types.CallToolResult(content=content, is_error=True)
