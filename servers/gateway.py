"""Many episodes behind one HTTP server.

* ``Gateway`` puts desks behind unguessable tokens: ``/e/{token}/mcp`` has all tools of a desk,
  ``/e/{token}/{service}/mcp`` those of one service, as one server per application. Clients of both protocol
  eras are served: 2025 sessions with ``Mcp-Session-Id``, and sessionless 2026-07-28.
* ``asgi_app`` makes an application of a gateway, with room for the routes of a control plane.
* ``serve`` runs it until it is told to stop.

An episode is found by the token in the path and by nothing else. Every endpoint keeps its own sessions, so a
session id of one episode is unknown in every other. All worlds live on one event loop: a call runs from start
to end without giving way, so different episodes interleave only between calls. ``open`` and ``close`` belong
on that loop too.

Not promised: sessions survive neither a restart nor the end of their episode, and closing a token leaves the
world alone; whoever opened the desk closes it.
"""

from __future__ import annotations

import errno
import os
import re
import secrets
import signal
import socket
import threading
from collections.abc import AsyncGenerator, Callable, Generator, Iterable, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from importlib.util import find_spec
from types import FrameType
from typing import Literal

import anyio
import uvicorn
import uvicorn.server
from anyio.abc import TaskGroup
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.server.transport_security import TransportSecuritySettings
from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_REQUEST
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route
from starlette.types import Receive, Scope, Send

from servers.desk import Desk
from servers.errors import CoworkEnvError, ServiceFault, suggest
from servers.mcp_server import Context, make_server
from servers.web import AGENT_PLANE, EXCEPTION_HANDLERS, LOOPBACK, FrontGuard, HttpError, error_response

MAX_BODY = 4 * 1024 * 1024
MAX_SESSIONS = 100
SESSION_IDLE = 6 * 3600.0
KEEP_ALIVE = 75
GRACE = 3
BACKLOG = 2048
TOKEN = re.compile(r"[A-Za-z0-9_-]{32,}")

DEAD = "There is no episode under this address: it has ended, or the address is wrong."
DEAD_FIX = "Ask whoever runs the episodes for a new address."
# The guard in front has checked host and origin already.
CHECKED = TransportSecuritySettings(enable_dns_rebinding_protection=False)

OnFault = Callable[[ServiceFault], None]


class _Door:
    """One MCP endpoint of an episode: a server, and the sessions of its 2025 clients."""

    def __init__(self, desk: Desk, on_fault: OnFault, name: str, max_body: int) -> None:
        self.desk = desk
        self.ready = anyio.Event()
        self.closed = anyio.Event()
        self.manager = StreamableHTTPSessionManager(
            make_server(self._find, on_fault=on_fault, name=name),
            json_response=True,
            security_settings=CHECKED,
            max_request_body_size=max_body,
            session_idle_timeout=SESSION_IDLE,
            max_sessions=MAX_SESSIONS,
        )

    def _find(self, context: Context) -> Desk:
        if self.closed.is_set():
            # A request that was let in before the token died may reach its handler after.
            raise MCPError(INVALID_REQUEST, f"{DEAD} {DEAD_FIX}")
        return self.desk

    async def keep_open(self) -> None:
        """Host the sessions until the door is closed; leaving cancels whatever they were doing."""
        async with self.manager.run():
            self.ready.set()
            await self.closed.wait()


@dataclass(slots=True, eq=False)
class _Episode:
    desk: Desk
    on_fault: OnFault
    doors: dict[str | None, _Door] = field(default_factory=dict[str | None, _Door])
    """By service; None is the door to all tools. Made when first used."""


class Gateway:
    """Desks behind tokens, as an ASGI application for the routes ``/e/...``."""

    def __init__(self, *, allowed_hosts: Iterable[str] = LOOPBACK, max_body: int = MAX_BODY) -> None:
        """A gateway without episodes.

        Args:
            allowed_hosts: Host names under which the server answers; ``"*"`` for any. See ``FrontGuard``.
            max_body: Largest request body, bytes.
        """
        self.allowed_hosts = tuple(allowed_hosts)
        self.max_body = max_body
        # A plain dict, though its lookups do not take constant time: keys are compared only after their
        # salted hashes are equal, so timing does not tell how much of a guess is right: 256 bits stay 256.
        self._episodes: dict[str, _Episode] = {}
        self._tasks: TaskGroup | None = None

    def __len__(self) -> int:
        return len(self._episodes)

    def open(self, desk: Desk, *, on_fault: OnFault, token: str | None = None) -> str:
        """Let clients reach a desk; gives the token of its address.

        Args:
            desk: Who works where with which tools.
            on_fault: Told when a tool breaks; the episode is void then.
            token: One of earlier, for a workplace that comes back under its old address; else a new one.

        Raises:
            ValueError: The token is in use, or shorter than 32 URL-safe characters.
        """
        if token is None:
            token = secrets.token_urlsafe(32)
        if TOKEN.fullmatch(token) is None:
            raise ValueError("a token needs at least 32 characters out of A-Z, a-z, 0-9, - and _")
        if token in self._episodes:
            raise ValueError("the token is in use")
        self._episodes[token] = _Episode(desk, on_fault)
        return token

    def close(self, token: str) -> None:
        """Let nobody through any more from now on, open sessions included; closing twice does nothing."""
        episode = self._episodes.pop(token, None)
        if episode is not None:
            for door in episode.doors.values():
                door.closed.set()

    @staticmethod
    def path(token: str, service: str | None = None) -> str:
        """Where a desk is served: all its tools, or those of one service."""
        return f"{AGENT_PLANE}{token}/mcp" if service is None else f"{AGENT_PLANE}{token}/{service}/mcp"

    def service_paths(self, token: str) -> dict[str, str]:
        """Where each service of an open desk is served, by name of the service.

        Raises:
            KeyError: The token is dead.
        """
        return {service: self.path(token, service) for service in _services(self._episodes[token].desk)}

    @asynccontextmanager
    async def run(self) -> AsyncGenerator[None]:
        """Host the sessions of all episodes; ``asgi_app`` enters this when the server starts."""
        async with anyio.create_task_group() as tasks:
            self._tasks = tasks
            try:
                yield
            finally:
                self._tasks = None
                for token in list(self._episodes):
                    self.close(token)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request of the agent plane."""
        try:
            door = await self._door(**scope["path_params"])
        except HttpError as error:
            await error_response(error, scope["path"])(scope, receive, send)
            return
        await door.manager.handle_request(scope, receive, send)

    async def _door(self, token: str, service: str | None = None) -> _Door:
        episode = self._episodes.get(token)
        if episode is None:
            raise HttpError(404, "unknown_token", DEAD, DEAD_FIX)
        door = episode.doors.get(service)
        if door is None:
            door = episode.doors[service] = self._new_door(episode, service)
        if not door.ready.is_set():
            await door.ready.wait()
        if door.closed.is_set():
            raise HttpError(404, "unknown_token", DEAD, DEAD_FIX)
        return door

    def _new_door(self, episode: _Episode, service: str | None) -> _Door:
        if self._tasks is None:
            raise RuntimeError("the gateway is not running: enter Gateway.run(), as asgi_app's lifespan does")
        desk = episode.desk
        if service is not None:
            try:
                desk = desk.only(service)
            except KeyError:
                words = f"There is no service {service!r} here."
                raise HttpError(404, "unknown_service", words, suggest(service, _services(desk))) from None
        door = _Door(desk, episode.on_fault, service or "coworkenv", self.max_body)
        self._tasks.start_soon(door.keep_open)
        return door


def _services(desk: Desk) -> list[str]:
    """The services that a desk has tools of, in the order of the tools."""
    return list(dict.fromkeys(map(desk.service_of, desk.tools)))


async def _healthz(request: Request) -> Response:
    return JSONResponse({"status": "ok"})


def asgi_app(gateway: Gateway, extra_routes: Sequence[BaseRoute] = ()) -> Starlette:
    """The application of a gateway: the agent plane, ``GET /healthz`` and whatever a control plane adds.

    Every error leaves as typed JSON (``servers.web``); endpoints of ``extra_routes`` raise ``HttpError`` or
    ``SpecError``.
    """

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncGenerator[None]:
        async with gateway.run():
            yield

    return Starlette(
        routes=[
            Route(AGENT_PLANE + "{token}/mcp", gateway),
            Route(AGENT_PLANE + "{token}/{service}/mcp", gateway),
            Route("/healthz", _healthz, methods=["GET"]),
            *extra_routes,
        ],
        middleware=[Middleware(FrontGuard, allowed_hosts=gateway.allowed_hosts, max_body=gateway.max_body)],
        exception_handlers=EXCEPTION_HANDLERS,
        lifespan=lifespan,
    )


class ListenError(CoworkEnvError):
    """A server cannot be had at this host and port."""


class PortInUseError(ListenError):
    """Another process listens there already."""


async def serve(
    app: Starlette, *, host: str = "127.0.0.1", port: int = 0, on_ready: Callable[[str], None] | None = None
) -> None:
    """Serve until SIGINT or SIGTERM, or until this task is cancelled; running requests may finish.

    Args:
        app: What to serve.
        host: Address to listen at.
        port: Port to listen at; 0 takes a free one.
        on_ready: Called with the base URL (``http://127.0.0.1:43121``) as soon as requests are answered.

    Raises:
        PortInUseError: Another process has the port.
        ListenError: The address is not of this machine, or the port needs more rights.
    """
    listener = _listen(host, port)
    url = _url(host, listener.getsockname()[1])
    config = uvicorn.Config(
        app,
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,  # addresses hold tokens
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=KEEP_ALIVE,
        timeout_graceful_shutdown=GRACE,
        backlog=BACKLOG,
    )
    server = _HttpServer(config, lambda: on_ready(url) if on_ready is not None else None)

    async def run() -> None:
        # Cancelled half-way, uvicorn would leave sockets open: it is told to stop, and waited for.
        with anyio.CancelScope(shield=True):
            await server.serve(sockets=[listener])
        tasks.cancel_scope.cancel()

    try:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(run)
            try:
                await anyio.sleep_forever()
            finally:
                server.should_exit = True
    finally:
        listener.close()


class _HttpServer(uvicorn.Server):
    """Says when it is ready, and ends with a plain return when a signal stops it."""

    def __init__(self, config: uvicorn.Config, ready: Callable[[], object]) -> None:
        super().__init__(config)
        self._ready = ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._ready()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        # The application ends before its connections do, not after: clients that listen to a stream would
        # hold them open. Ending it once more does nothing.
        for server in self.servers:
            server.close()
        await self.lifespan.shutdown()
        await super().shutdown(sockets)

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        """Let signals end the server; uvicorn would raise them again, and nobody could clean up."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        stop = self._on_signal()
        before = {number: signal.signal(number, stop) for number in uvicorn.server.HANDLED_SIGNALS}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _on_signal(self) -> Callable[[int, FrameType | None], None]:
        # Not a method: sse_starlette looks for the server behind the handler, and would cut streams half-way.
        def stop(number: int, frame: FrameType | None) -> None:
            self.force_exit = self.should_exit  # the second signal is in earnest
            self.should_exit = True

        return stop


def _listen(host: str, port: int) -> socket.socket:
    # asyncio turns Nagle's algorithm off only for sockets made for TCP; left on, it costs each answer 40 ms.
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        if os.name == "posix":
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(BACKLOG)
    except (OSError, OverflowError) as error:
        listener.close()
        where = f"{host}, port {port}"
        if isinstance(error, OSError) and error.errno == errno.EADDRINUSE:
            raise PortInUseError(
                f"{where}: another process listens there already. Stop it, or name another port (0 takes any free one)."
            ) from None
        raise ListenError(
            f"{where}: cannot listen there ({error}). "
            "Name an address of this machine (127.0.0.1, 0.0.0.0) and a port from 1024 to 65535."
        ) from None
    return listener


def _url(host: str, port: int) -> str:
    reachable = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104 - compared, not bound
    shown = f"[{reachable}]" if ":" in reachable else reachable
    return f"http://{shown}:{port}"


def fast_loop() -> dict[Literal["use_uvloop"], bool]:
    """Options for ``anyio.run(..., backend_options=...)``: uvloop, if it is there, serves more calls."""
    return {"use_uvloop": find_spec("uvloop") is not None}
