"""One desk on stdin and stdout, for MCP clients that speak nothing else.

While it is served, stray output of this process goes to stderr; only MCP messages reach stdout. For many
episodes in one process there is ``servers.gateway``.
"""

from __future__ import annotations

from collections.abc import Callable

from mcp.server.stdio import stdio_server

from servers.desk import Desk
from servers.errors import ServiceFault
from servers.mcp_server import desk_server


async def serve_stdio(desk: Desk, *, on_fault: Callable[[ServiceFault], None], name: str = "coworkenv") -> None:
    """Serve a desk until the client closes stdin; clients of both protocol eras are understood.

    Args:
        desk: Who works where with which tools.
        on_fault: Told when a tool breaks; the episode is void then.
        name: How the server calls itself.
    """
    server = desk_server(desk, on_fault=on_fault, name=name)
    async with stdio_server() as (requests, answers):
        await server.run(requests, answers, server.create_initialization_options())
