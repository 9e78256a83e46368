"""HTTP manners that the agent plane and the control plane share.

* ``HttpError``: a refusal with status, machine-readable code and words; ``error_response`` puts it on the
  wire, as a JSON-RPC error on the agent plane (MCP clients show its text), as ``{"error": {...}}`` elsewhere.
* ``EXCEPTION_HANDLERS``: for Starlette, so that every error leaves as typed JSON, never as a traceback.
* ``FrontGuard``: host names, origins and body sizes, checked before anything else runs.
* ``admin_only``: an endpoint behind a bearer token.

Not here: TLS, rate limits and CORS; a proxy in front does those.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, cast

from mcp_types import INVALID_REQUEST
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, ExceptionHandler, Message, Receive, Scope, Send

from servers.errors import CoworkEnvError, ServiceFault, SpecError

logger = logging.getLogger(__name__)

AGENT_PLANE = "/e/"
LOOPBACK = ("localhost", "127.0.0.1", "[::1]")
ANY_HOST = "*"

Endpoint = Callable[[Request], Awaitable[Response]]


class HttpError(CoworkEnvError):
    """A request that is refused."""

    def __init__(
        self,
        status: int,
        code: str,
        message: str,
        fix: str | None = None,
        *,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        """Refuse with HTTP ``status``; ``code`` is stable and machine-readable, ``fix`` says what to do."""
        self.status = status
        self.code = code
        self.message = message
        self.fix = fix
        self.headers = headers
        super().__init__(f"{message} {fix}" if fix else message)


def error_response(error: HttpError, path: str) -> Response:
    """Put a refusal on the wire, in the language of the plane that ``path`` belongs to."""
    if path.startswith(AGENT_PLANE):
        data = {"code": error.code, "fix": error.fix}
        body: dict[str, Any] = {
            "jsonrpc": "2.0",
            "id": None,
            "error": {"code": INVALID_REQUEST, "message": str(error), "data": data},
        }
    else:
        body = {"error": {"code": error.code, "message": error.message, "fix": error.fix}}
    return JSONResponse(body, status_code=error.status, headers=error.headers)


async def _on_http_error(request: Request, error: Exception) -> Response:
    return error_response(cast("HttpError", error), request.url.path)


async def _on_starlette_error(request: Request, error: Exception) -> Response:
    found = cast("HTTPException", error)
    codes = {404: "not_found", 405: "method_not_allowed"}
    words = {404: "There is nothing here.", 405: f"{request.method} is not served here."}
    code = codes.get(found.status_code, "refused")
    message = words.get(found.status_code, found.detail)
    return error_response(HttpError(found.status_code, code, message, headers=found.headers), request.url.path)


async def _on_spec_error(request: Request, error: Exception) -> Response:
    problems = [
        {"code": problem.code, "where": problem.where, "message": problem.message, "fix": problem.fix}
        for problem in cast("SpecError", error).problems
    ]
    body = {"error": {"code": "invalid", "message": str(error), "fix": None, "problems": problems}}
    return JSONResponse(body, status_code=422)


async def _on_refusal(request: Request, error: Exception) -> Response:
    return error_response(HttpError(503, "unavailable", str(error)), request.url.path)


async def _on_fault(request: Request, error: Exception) -> Response:
    logger.error("a workplace broke", exc_info=error)
    words = "Something broke in this workplace; it has no score any more."
    fault = HttpError(500, "episode_void", words, "End it and open another. The log of the server says what broke.")
    return error_response(fault, request.url.path)


async def _on_anything(request: Request, error: Exception) -> Response:
    fault = HttpError(500, "internal_error", "The server failed on this request.", "Its log says why.")
    return error_response(fault, request.url.path)


EXCEPTION_HANDLERS: Mapping[Any, ExceptionHandler] = {
    HttpError: _on_http_error,
    HTTPException: _on_starlette_error,
    SpecError: _on_spec_error,
    ServiceFault: _on_fault,
    CoworkEnvError: _on_refusal,
    Exception: _on_anything,
}


def admin_only(token: str, endpoint: Endpoint) -> Endpoint:
    """Let only those call ``endpoint`` who send ``Authorization: Bearer <token>``.

    The comparison takes constant time. Anyone else gets a 401 that says what to send.

    Raises:
        ValueError: The token is shorter than 16 characters, which could be guessed.
    """
    if len(token) < 16:
        raise ValueError("an admin token needs 16 characters or more; secrets.token_urlsafe() makes one")
    expected = token.encode()

    async def guarded(request: Request) -> Response:
        scheme, _, given = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer" or not secrets.compare_digest(given.strip().encode(), expected):
            raise HttpError(
                401,
                "admin_token_needed",
                "The control plane needs the admin token.",
                "Send it as: Authorization: Bearer <admin token>.",
                headers={"WWW-Authenticate": "Bearer"},
            )
        return await endpoint(request)

    return guarded


class FrontGuard:
    """ASGI middleware that turns away wrong hosts, foreign origins and oversized bodies.

    A page of a hostile site can make a browser send requests to a server on loopback under the site's own
    name (DNS rebinding), so only known host names are served, whatever the port. ``"*"`` among them serves
    any, for servers that are reached under names nobody can list; the tokens still protect them.

    Bodies are read whole before the application runs: whether a token is alive is decided when the last byte
    is here, and nothing is held for a client that sends slowly.
    """

    def __init__(self, app: ASGIApp, *, allowed_hosts: Iterable[str], max_body: int) -> None:
        self.app = app
        self.names = frozenset(map(_host_name, allowed_hosts))
        self.any_host = ANY_HOST in self.names
        self.max_body = max_body

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one ASGI connection."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        try:
            if self._has_body(scope):
                body = await self._read(receive)
                if body is None:
                    return  # the client left; there is nobody to answer
                receive = _replay(body, receive)
        except HttpError as error:
            await error_response(error, scope["path"])(scope, receive, send)
            return
        await self.app(scope, receive, send)

    def _has_body(self, scope: Scope) -> bool:
        """Check the headers and say whether a body follows."""
        named = has_body = False
        for name, value in scope["headers"]:
            if name == b"host":
                named = True
                self._check_name(value.decode("latin-1"), 421, "host")
            elif name == b"origin":
                self._check_name(value.decode("latin-1").partition("://")[2], 403, "origin")
            elif name == b"transfer-encoding":
                has_body = True
            elif name == b"content-length":
                has_body = True
                if int(value) > self.max_body:
                    raise self._too_large()
        if not named:
            self._check_name("", 421, "host")
        return has_body

    def _check_name(self, host: str, status: int, header: str) -> None:
        if not self.any_host and _host_name(host) not in self.names:
            raise HttpError(
                status,
                f"{header}_not_allowed",
                f"This server does not answer under the {header} name that was sent.",
                "Use an allowed name, or start the server with this name among its allowed hosts.",
            )

    async def _read(self, receive: Receive) -> bytes | None:
        parts: list[bytes] = []
        size = 0
        while True:
            message = await receive()
            if message["type"] != "http.request":
                return None
            part: bytes = message.get("body", b"")
            size += len(part)
            if size > self.max_body:
                raise self._too_large()
            parts.append(part)
            if not message.get("more_body", False):
                return parts[0] if len(parts) == 1 else b"".join(parts)

    def _too_large(self) -> HttpError:
        words = f"The request body is larger than {self.max_body:,} bytes."
        return HttpError(413, "body_too_large", words, "Send less in one request.")


def _host_name(host: str) -> str:
    """A host without its port, the way hosts are compared."""
    name = host.lower()
    if name.startswith("["):
        return name[: name.find("]") + 1]
    return f"[{name}]" if name.count(":") > 1 else name.partition(":")[0]


def _replay(body: bytes, receive: Receive) -> Receive:
    waiting = True

    async def replay() -> Message:
        nonlocal waiting
        if waiting:
            waiting = False
            return {"type": "http.request", "body": body, "more_body": False}
        return await receive()

    return replay
