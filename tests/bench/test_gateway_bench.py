"""HTTP tool calls a second against one gateway process; the budget is 2,000 with 64 connections.

Run with ``pytest tests/bench/test_gateway_bench.py --benchmark-only``. A round is ``CALLS`` calls. Before each round
of the gateway the same load goes to the SDK's bare server, so that the ratio of the two holds on a busy machine
too; processor time per call is the server's own. uvloop and httptools are used where they are installed.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import psutil
import pytest

from tests.bench.lean_client import ARGUMENTS, TOOL, complete, initialize, request, send_all, tool_call

CALLS = 1_000
ROUNDS = 5
REPOSITORY = Path(__file__).parents[2]


@dataclass
class Measured:
    """A server process under load, and what its rounds took."""

    url: str
    process: psutil.Process
    payloads: list[bytes]
    rates: list[float] = field(default_factory=list[float])
    """Calls a second, one of each round."""
    latencies: list[float] = field(default_factory=list[float])
    """Seconds from request to answer, of all calls."""
    processor: list[float] = field(default_factory=list[float])
    """Seconds of the server's processor time per call, one of each round."""

    def round(self) -> None:
        """Make ``CALLS`` calls, each connection one after the other."""
        before, start = self._processor_time(), time.perf_counter()
        load = asyncio.run(send_all(self.url, self.payloads, CALLS))
        self.rates.append(CALLS / (time.perf_counter() - start))
        self.processor.append((self._processor_time() - before) / CALLS)
        self.latencies += load.latencies
        assert len(load.latencies) == CALLS
        assert complete(load.last)
        assert b'"isError":true' not in load.last
        assert b"dana.fox@northwind.example" in load.last

    def _processor_time(self) -> float:
        spent = self.process.cpu_times()
        return spent.user + spent.system


@contextmanager
def server(kind: str, era: str, connections: int) -> Iterator[Measured]:
    """A server in a process of its own, warmed up."""
    command = [sys.executable, "-m", "tests.bench.gateway_server", kind]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=REPOSITORY) as process:  # noqa: S603 - ours
        try:
            assert process.stdout is not None
            url = process.stdout.readline().strip()
            payloads = [payload(url, era) for _ in range(connections)]
            measured = Measured(url, psutil.Process(process.pid), payloads)
            asyncio.run(send_all(url, payloads, 300))
            yield measured
        finally:
            process.terminate()


def payload(url: str, era: str) -> bytes:
    """The call that one connection makes over and over: sessionless, or in a session of its own."""
    if era == "sessionless":
        return tool_call(url, TOOL, ARGUMENTS)
    opened = asyncio.run(send_all(url, [request(url, initialize(), {})], 1)).last
    head = opened.partition(b"\r\n\r\n")[0].decode()
    headers = dict(line.split(": ", 1) for line in head.split("\r\n")[1:])
    return tool_call(url, TOOL, ARGUMENTS, session=headers["mcp-session-id"])


@pytest.mark.parametrize(("era", "connections"), [("sessionless", 64), ("session", 64), ("sessionless", 1)])
def test_http_tool_calls(benchmark: Any, era: str, connections: int) -> None:
    with server("bare", era, connections) as bare, server("gateway", era, connections) as gateway:
        benchmark.pedantic(gateway.round, setup=bare.round, rounds=ROUNDS)
    benchmark.extra_info |= {
        "calls_per_second": round(median(gateway.rates)),
        "p50_ms": round(median(gateway.latencies) * 1e3, 2),
        "server_cpu_us_per_call": round(median(gateway.processor) * 1e6),
        "bare_sdk_calls_per_second": round(median(bare.rates)),
        "bare_sdk_cpu_us_per_call": round(median(bare.processor) * 1e6),
        "rate_over_bare_sdk": round(median(gateway.rates) / median(bare.rates), 2),
    }
