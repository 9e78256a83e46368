"""What the gateway benchmark talks to: a gateway with one office, or the SDK's bare server.

``python -m tests.bench.gateway_server gateway|bare`` prints the URL of its MCP endpoint when it is ready, and
serves until it is told to stop.
"""

from __future__ import annotations

import sys
from typing import Any

import anyio
import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server

from servers.errors import ServiceFault
from servers.gateway import Gateway, asgi_app, fast_loop, serve
from servers.services.directory import DIRECTORY
from servers.services.workplace import WORKPLACE
from tests.bench.lean_client import ARGUMENTS, TOOL
from tests.support import desk, office


def _fail(fault: ServiceFault) -> None:
    raise SystemExit(str(fault))


async def gateway() -> None:
    """One office behind a gateway."""
    many = Gateway()
    token = many.open(desk(office([WORKPLACE, DIRECTORY])), on_fault=_fail)
    await serve(asgi_app(many), on_ready=lambda url: print(url + many.path(token), flush=True))


async def bare() -> None:
    """The SDK alone, with one tool that always gives the same answer: the anchor."""
    result = desk(office([DIRECTORY])).call(TOOL, ARGUMENTS)

    async def list_tools(
        context: ServerRequestContext[Any], params: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        return types.ListToolsResult(tools=[types.Tool(name=TOOL, input_schema={"type": "object"})])

    async def call_tool(
        context: ServerRequestContext[Any], params: types.CallToolRequestParams
    ) -> types.CallToolResult:
        content: list[types.ContentBlock] = [types.TextContent(text=result.text)]
        return types.CallToolResult(content=content, structured_content=result.value)

    server = Server("bare", on_list_tools=list_tools, on_call_tool=call_tool)
    app = server.streamable_http_app(json_response=True)
    await serve(app, on_ready=lambda url: print(url + "/mcp", flush=True))


if __name__ == "__main__":
    anyio.run({"gateway": gateway, "bare": bare}[sys.argv[1]], backend_options=fast_loop())
