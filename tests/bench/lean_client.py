"""A client that costs as little as Python allows, so that a benchmark measures the server."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

MODERN = "2026-07-28"
TOOL = "directory_get"
ARGUMENTS = {"person": "Dana Fox"}


def tool_call(url: str, tool: str, arguments: dict[str, Any], *, session: str | None = None) -> bytes:
    """The bytes of one HTTP request that calls a tool: sessionless, or in a 2025 session."""
    params: dict[str, Any] = {"name": tool, "arguments": arguments}
    headers = {"Mcp-Method": "tools/call", "Mcp-Name": tool, "MCP-Protocol-Version": MODERN}
    if session is None:
        key = "io.modelcontextprotocol/"
        params["_meta"] = {
            f"{key}protocolVersion": MODERN,
            f"{key}clientInfo": {"name": "lean", "version": "1"},
            f"{key}clientCapabilities": {},
        }
    else:
        headers = {"Mcp-Session-Id": session, "MCP-Protocol-Version": "2025-11-25"}
    return request(url, {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}, headers)


def initialize() -> dict[str, Any]:
    """The message that opens a 2025 session."""
    params = {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "lean", "version": "1"},
    }
    return {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}


def request(url: str, message: dict[str, Any], headers: dict[str, str]) -> bytes:
    """The bytes of one HTTP request that posts a JSON-RPC message."""
    parts = urlsplit(url)
    body = json.dumps(message).encode()
    lines = [
        f"POST {parts.path} HTTP/1.1",
        f"Host: {parts.netloc}",
        "Content-Type: application/json",
        "Accept: application/json, text/event-stream",
        f"Content-Length: {len(body)}",
        *(f"{name}: {value}" for name, value in headers.items()),
    ]
    return ("\r\n".join(lines) + "\r\n\r\n").encode() + body


def complete(answer: bytes) -> bool:
    """Whether this is the whole of an HTTP answer that tells its length."""
    head, found, body = answer.partition(b"\r\n\r\n")
    _, _, rest = head.lower().partition(b"content-length:")
    return bool(found) and len(body) >= int(rest.partition(b"\r\n")[0])


@dataclass
class Load:
    """How many requests are still to be sent, and what came of the others."""

    left: int
    latencies: list[float] = field(default_factory=list)
    """Seconds from sending a request to having its answer."""
    last: bytes = b""
    """The last answer, headers and body."""


class _Connection(asyncio.Protocol):
    """Sends one request after the other, each when the answer to the one before is complete."""

    def __init__(self, payload: bytes, load: Load, done: asyncio.Future[None]) -> None:
        self.payload = payload
        self.load = load
        self.done = done
        self.buffer = b""
        self.sent = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self.send()

    def send(self) -> None:
        if self.load.left == 0:
            self.transport.close()
            return
        self.load.left -= 1
        self.sent = time.perf_counter()
        self.transport.write(self.payload)

    def data_received(self, data: bytes) -> None:
        self.buffer += data
        if complete(self.buffer):
            self.load.latencies.append(time.perf_counter() - self.sent)
            self.load.last, self.buffer = self.buffer, b""
            self.send()

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.done.done():
            self.done.set_result(None)


async def send_all(url: str, payloads: Sequence[bytes], requests: int) -> Load:
    """Send ``requests`` requests over one connection per payload; gives what came of them."""
    parts = urlsplit(url)
    loop = asyncio.get_running_loop()
    load = Load(requests)
    ends: list[asyncio.Future[None]] = []
    for payload in payloads:
        end = loop.create_future()
        ends.append(end)
        await loop.create_connection(
            lambda payload=payload, end=end: _Connection(payload, load, end), parts.hostname, parts.port
        )
    await asyncio.gather(*ends)
    return load
