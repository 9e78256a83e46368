"""Calls and whole episodes over in-memory MCP, next to the SDK alone.

Times are processor time of this process; a round of calls is one hundred of them.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import anyio.from_thread
import mcp
import mcp_types as types
import pytest
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server

from harness.agents import scripted
from harness.environment import Environment
from harness.episode import MCP_VERSION, run_episode
from servers.desk import agent_desk
from servers.errors import ServiceFault
from servers.mcp_server import desk_server
from servers.world import World
from tests.bench.workload import READS, WRITES, busy

pytestmark = pytest.mark.benchmark(timer=time.process_time)
CALLS = 100
READ, WRITE = "tickets_get", "mail_create_draft"


def broke(fault: ServiceFault) -> None:
    raise AssertionError(fault)


def ours(environment: Environment) -> Server[Any]:
    return desk_server(agent_desk(World.open(environment.image), environment.exposed), on_fault=broke)


def bare(environment: Environment) -> Server[Any]:
    """The SDK alone: it lists the same tools, and always gives the same answer."""
    listed = [
        types.Tool(name=tool.name, description=tool.description, input_schema=tool.input_schema)
        for tool in environment.exposed.values()
    ]
    result = agent_desk(World.open(environment.image), environment.exposed).call(READ, READS[READ])
    answer = types.CallToolResult(content=[types.TextContent(text=result.text)], structured_content=result.value)

    async def list_tools(
        context: ServerRequestContext[Any], params: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        return types.ListToolsResult(tools=listed)

    async def call_tool(
        context: ServerRequestContext[Any], params: types.CallToolRequestParams
    ) -> types.CallToolResult:
        return answer

    return Server("bare", on_list_tools=list_tools, on_call_tool=call_tool)


@contextmanager
def connected(server: Server[Any], mode: str) -> Iterator[tuple[anyio.from_thread.BlockingPortal, mcp.Client]]:
    with (
        anyio.from_thread.start_blocking_portal() as portal,
        portal.wrap_async_context_manager(mcp.Client(server, mode=mode)) as client,
    ):
        yield portal, client


@pytest.mark.benchmark(group=f"{CALLS} calls over in-memory MCP (budget 0.4 ms each: 40 ms)")
@pytest.mark.parametrize("mode", [MCP_VERSION, "legacy"])
@pytest.mark.parametrize("what", ["anchor: the SDK alone", f"read: {READ}", f"write: {WRITE}"])
def test_calls(benchmark: Any, what: str, mode: str) -> None:
    environment = busy(all_tools=True)
    tool, arguments = (WRITE, WRITES[WRITE]) if WRITE in what else (READ, READS[READ])

    async def hundred() -> None:
        for _ in range(CALLS):
            result = await client.call_tool(tool, arguments)
            assert not result.is_error

    with connected(bare(environment) if "SDK" in what else ours(environment), mode) as (portal, client):
        benchmark.pedantic(portal.call, (hundred,), rounds=10, warmup_rounds=1)


@pytest.mark.benchmark(
    group="oracle episode of 10 calls over in-memory MCP, opening and grading included (budget 8 ms)"
)
@pytest.mark.parametrize("tools", ["8 tools", "all 60 tools"])
def test_episode(benchmark: Any, tools: str) -> None:
    environment = busy(all_tools=tools != "8 tools")
    oracle = scripted.oracle()

    async def play() -> None:
        trajectory = await run_episode(environment, oracle)
        assert trajectory.score is not None
        assert trajectory.score.passed

    with anyio.from_thread.start_blocking_portal() as portal:
        benchmark.pedantic(portal.call, (play,), rounds=60, warmup_rounds=5)
