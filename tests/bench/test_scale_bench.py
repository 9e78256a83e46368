"""Many of something: live episodes in one process, certified environments in a second, and the anchor of both.

The anchor is a process per mock service (``tests.bench.one_service``), which is what a workplace of eight
services costs eight times an episode where services are programs of their own.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from typing import Any

import anyio
import mcp
import pytest

from harness.live import LiveEpisode
from servers.mcp_server import desk_server
from synth.author import synthesize
from tests.bench.workload import READS, busy
from tests.command_line import ROOT, environment

pytestmark = pytest.mark.timeout(900)
COUNT = 1_000
ACCEPTED = 8
FIRST_ANSWER = "from nothing to the first answer over MCP, wall time"


@pytest.mark.benchmark(group=FIRST_ANSWER)
def test_workplace_of_eight_services(benchmark: Any) -> None:
    busy_one = busy(all_tools=True)

    async def answer() -> None:
        episode = LiveEpisode.open(busy_one)
        async with mcp.Client(desk_server(episode.desk, on_fault=episode.faults.append)) as client:
            result = await client.call_tool("tickets_get", READS["tickets_get"])
            assert not result.is_error
        episode.world.close()

    anyio.run(answer)
    benchmark.pedantic(anyio.run, (answer,), rounds=30)


@pytest.mark.benchmark(group=FIRST_ANSWER)
def test_anchor_one_process_for_one_service(benchmark: Any) -> None:
    words = ["-m", "tests.bench.one_service"]
    server = mcp.StdioServerParameters(command=sys.executable, args=words, env=environment(), cwd=ROOT)
    waited: list[float] = []

    async def answer() -> None:
        begun = time.perf_counter()
        async with mcp.Client(server) as client:
            result = await client.call_tool("get", {"id": "T-7"})
            waited.append(time.perf_counter() - begun)
            assert result.structured_content == {"id": "T-7", "title": "Matter 7"}

    benchmark.pedantic(anyio.run, (answer,), rounds=5)
    benchmark.extra_info["without_the_end_ms"] = [round(seconds * 1e3) for seconds in waited]


@pytest.mark.benchmark(group=f"{COUNT} live episodes over HTTP, opened and called once (budget 1 GiB for all)")
def test_live_episodes(benchmark: Any) -> None:
    """The budget is memory: it stands behind the name in the table."""

    def measure() -> dict[str, float]:
        words = [sys.executable, "-m", "tests.bench.live_episodes", str(COUNT)]
        done = subprocess.run(words, cwd=ROOT, capture_output=True, encoding="utf-8", check=True)  # noqa: S603 - ours
        return json.loads(done.stdout)

    weighed = benchmark.pedantic(measure, rounds=1)
    benchmark.extra_info |= weighed
    benchmark.stats.name += f" [{weighed['process_mib']:.0f} MiB, {weighed['per_episode_kib']:.0f} KiB each]"


@pytest.mark.benchmark(
    group=f"write and certify {ACCEPTED} environments, processor time (budget 20 a second: {ACCEPTED / 20} s)",
    timer=time.process_time,
)
def test_certified_environments(benchmark: Any) -> None:
    anyio.run(synthesize, ACCEPTED, "warm")
    seeds = iter(range(1_000))

    def write() -> None:
        result = anyio.run(synthesize, ACCEPTED, f"bench-{next(seeds)}")
        assert len(result.accepted) == ACCEPTED

    benchmark.pedantic(write, rounds=3)
