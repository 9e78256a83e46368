"""A mock service the way many benchmarks run theirs: a process of its own that speaks MCP over stdio.

A stand-in, and a lean one: one tool over a dictionary, on the SDK's low-level server, without a database, a web
framework or a fixture to load. What it takes to start is the least that a process per service costs here.
"""

from __future__ import annotations

from typing import Any

import anyio
import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server

RECORDS = {f"T-{number}": {"id": f"T-{number}", "title": f"Matter {number}"} for number in range(75)}
SCHEMA = {"type": "object", "properties": {"id": {"type": "string"}}, "required": ["id"]}
Context = ServerRequestContext[Any]


async def list_tools(context: Context, params: types.PaginatedRequestParams | None) -> types.ListToolsResult:
    return types.ListToolsResult(tools=[types.Tool(name="get", input_schema=SCHEMA)])


async def call_tool(context: Context, params: types.CallToolRequestParams) -> types.CallToolResult:
    found = RECORDS[str((params.arguments or {})["id"])]
    return types.CallToolResult(content=[types.TextContent(text=str(found))], structured_content=found)


async def main() -> None:
    server: Server[Any] = Server("one-service", on_list_tools=list_tools, on_call_tool=call_tool)
    async with stdio_server() as (requests, answers):
        await server.run(requests, answers, server.create_initialization_options())


if __name__ == "__main__":
    anyio.run(main)
