"""A server that speaks OpenAI's wire format on the loopback, in a thread, and says what a test puts into its mouth."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import anyio
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route


@dataclass(frozen=True)
class Said:
    """One HTTP answer."""

    body: Any
    """JSON, or text that goes out as it is."""
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    never: bool = False
    """The answer does not come while the server runs."""


def words(text: str | None, **message: Any) -> Said:
    """An answer in words."""
    return answer({"role": "assistant", "content": text, **message})


def calls(*requested: tuple[str, Any], finish: str = "tool_calls") -> Said:
    """An answer that asks for calls; arguments that are no text are written as JSON."""
    wire = [
        {
            "id": f"c{number}",
            "type": "function",
            "function": {"name": name, "arguments": given if isinstance(given, str) else json.dumps(given)},
        }
        for number, (name, given) in enumerate(requested)
    ]
    return answer({"role": "assistant", "content": None, "tool_calls": wire}, finish)


def answer(message: dict[str, Any], finish: str = "stop") -> Said:
    """An answer with this message."""
    choice = {"index": 0, "finish_reason": finish, "message": message}
    usage = {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110}
    return Said(
        {"id": "1", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice], "usage": usage}
    )


def refusal(status: int, message: str, headers: Mapping[str, str] | None = None, **error: Any) -> Said:
    """An error in OpenAI's form."""
    return Said({"error": {"message": message, **error}}, status, headers or {})


class ModelServer:
    """What the thread serves; ``script`` is used up answer by answer, the last one stays."""

    def __init__(self) -> None:
        self.address = ""
        self.script: list[Said] = []
        self.requests: list[dict[str, Any]] = []
        self.keys: list[str] = []

    def says(self, *script: Said) -> None:
        """Begin a new script and forget what was asked before."""
        self.script = list(script)
        self.requests.clear()
        self.keys.clear()

    async def respond(self, request: Request) -> Response:
        """Answer one request."""
        self.requests.append(await request.json())
        self.keys.append(request.headers.get("authorization", ""))
        said = self.script.pop(0) if len(self.script) > 1 else self.script[0]
        if said.never:
            while (await request.receive())["type"] != "http.disconnect":
                await anyio.lowlevel.checkpoint()
        body = said.body if isinstance(said.body, str) else json.dumps(said.body)
        return Response(body, said.status, said.headers, media_type="application/json")


@contextmanager
def serving() -> Iterator[ModelServer]:
    """Run a server on a free port; it is always stopped."""
    server = ModelServer()
    app = Starlette(routes=[Route("/v1/chat/completions", server.respond, methods=["POST"])])
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen(64)
        server.address = f"http://127.0.0.1:{listening.getsockname()[1]}/v1"
        config = uvicorn.Config(app, log_level="error", lifespan="off", date_header=False, timeout_graceful_shutdown=1)
        running = uvicorn.Server(config)
        thread = threading.Thread(target=running.run, kwargs={"sockets": [listening]})
        thread.start()
        try:
            yield server
        finally:
            running.should_exit = True
            thread.join()


def free_port() -> int:
    """A port on which nobody listens."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def roles(messages: Sequence[Mapping[str, Any]]) -> list[str]:
    """Who said each message of a request."""
    return [message["role"] for message in messages]
