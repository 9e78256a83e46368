from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import anyio
import anyio.abc
import httpx2
import mcp
import pytest
from anyio.streams.buffered import BufferedByteReceiveStream
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from servers.desk import Desk
from servers.errors import Problem, ServiceFault, SpecError
from servers.gateway import Gateway, ListenError, PortInUseError, asgi_app, serve
from servers.mcp_server import BROKEN
from servers.web import HttpError, admin_only
from tests.bench.lean_client import complete, initialize, request, tool_call
from tests.servers.notebook import AUTHORED, NOTES, notebook
from tests.support import McpDesk, desk

pytestmark = pytest.mark.anyio

MODES = ["auto", "2026-07-28", "legacy"]
ERAS = [None, "2025-11-25"]
ADMIN = "an-admin-token-of-a-test"
JSON = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
REPOSITORY = Path(__file__).parents[2]


@asynccontextmanager
async def serving(gateway: Gateway, routes: Sequence[BaseRoute] = ()) -> AsyncIterator[str]:
    """Serve a gateway on a free port; gives the base URL."""

    async def run(*, task_status: anyio.abc.TaskStatus[str]) -> None:
        await serve(asgi_app(gateway, routes), on_ready=task_status.started)

    async with anyio.create_task_group() as tasks:
        yield await tasks.start(run)
        tasks.cancel_scope.cancel()


@asynccontextmanager
async def browser() -> AsyncIterator[httpx2.AsyncClient]:
    """A plain HTTP client, and one that MCP clients can share: making a TLS context for each is slow."""
    async with httpx2.AsyncClient(verify=False, timeout=20) as http:
        yield http


@asynccontextmanager
async def connected(http: httpx2.AsyncClient, url: str, mode: str) -> AsyncIterator[McpDesk]:
    """Work at a desk over HTTP."""
    async with mcp.Client(streamable_http_client(url, http_client=http), mode=mode) as client:  # type: ignore[arg-type]
        yield McpDesk(client)


def open_desk(gateway: Gateway) -> tuple[Desk, str]:
    """A desk in a fresh office with notes, and the path to it."""
    where = desk(notebook())
    return where, gateway.path(gateway.open(where, on_fault=_no_faults))


def token_of(path: str) -> str:
    return path.split("/")[2]


def notes_of(where: Desk) -> set[str]:
    """The ids of the notes that somebody added."""
    return {change.key for change in where.world.changes() if change.type == "notes.note"}


def _no_faults(fault: ServiceFault) -> None:
    raise fault


async def send(url: str, *payloads: bytes) -> bytes:
    """Send bytes over one connection, and give the answer: head and body."""
    parts = urlsplit(url)
    async with await anyio.connect_tcp(parts.hostname or "", parts.port or 0) as stream:
        for payload in payloads:
            await stream.send(payload)
        answer = b""
        while not complete(answer):
            answer += await stream.receive()
    return answer


async def session_of(http: httpx2.AsyncClient, url: str) -> str:
    """Open a 2025 session; gives its id."""
    answer = await http.post(url, json=initialize(), headers=JSON)
    assert answer.status_code == 200, answer.text
    session = answer.headers["mcp-session-id"]
    await http.post(
        url,
        json={"jsonrpc": "2.0", "method": "notifications/initialized"},
        headers=JSON | {"Mcp-Session-Id": session},
    )
    return session


def put(note_id: str) -> dict[str, Any]:
    """A message that writes a note, as a 2025 client sends it."""
    params = {"name": "notes_put", "arguments": {"note_id": note_id}}
    return {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params}


@pytest.mark.parametrize("mode", MODES)
async def test_an_agent_works_at_its_desk_over_http(mode: str) -> None:
    gateway = Gateway()
    where, path = open_desk(gateway)
    async with serving(gateway) as url, browser() as http, connected(http, url + path, mode) as agent:
        listed = await agent.client.list_tools()
        assert [tool.name for tool in listed.tools] == list(where.tools)
        await agent.ok("notes_put", note_id="n1", text="buy milk")
        assert (await agent.ok("notes_show", note_id="n1"))["text"] == "buy milk"
        assert "there is no note 'n2'" in await agent.refused("notes_show", note_id="n2")
        assert "note_id is required" in await agent.refused("notes_show")
    assert [entry.tool for entry in where.world.journal()] == ["notes_put", *["notes_show"] * 3]


@pytest.mark.parametrize("mode", MODES)
async def test_an_endpoint_of_one_service_has_the_tools_of_that_service_and_the_same_world(mode: str) -> None:
    gateway = Gateway()
    _, path = open_desk(gateway)
    paths = gateway.service_paths(token_of(path))
    assert list(paths) == ["notes", "workplace", "directory"]
    async with (
        serving(gateway) as url,
        browser() as http,
        connected(http, url + path, mode) as everything,
        connected(http, url + paths["notes"], mode) as notes,
    ):
        listed = await notes.client.list_tools()
        assert {tool.name for tool in listed.tools} == {tool.name for tool in NOTES.tools}
        assert "there is no tool 'directory_get'" in await notes.refused("directory_get", person="Nora Lind")
        await everything.ok("notes_put", note_id="n1")
        await notes.ok("notes_show", note_id="n1")


async def test_an_unknown_service_of_a_live_episode_names_those_that_there_are() -> None:
    gateway = Gateway()
    _, path = open_desk(gateway)
    async with serving(gateway) as url, browser() as http:
        answer = await http.post(url + gateway.path(token_of(path), "mails"), json=put("n1"), headers=JSON)
    assert answer.status_code == 404
    error = answer.json()["error"]
    assert error["data"]["code"] == "unknown_service"
    assert "notes" in error["message"]


async def test_fifty_episodes_with_clients_at_the_same_time_never_see_each_other() -> None:
    gateway = Gateway()
    episodes = [open_desk(gateway) for _ in range(50)]
    seen: dict[str, str] = {}

    async def work(http: httpx2.AsyncClient, url: str, path: str, mode: str) -> None:
        async with connected(http, url + path, mode) as agent:
            for step in range(2):
                note = f"{token_of(path)}-{step}"
                await agent.ok("notes_put", note_id=note, text=path)
                assert (await agent.ok("notes_show", note_id=note))["text"] == path
            seen[path] = (await agent.ok("notes_fresh"))["note_id"]

    limits = httpx2.Limits(max_connections=None)
    async with (
        serving(gateway) as url,
        httpx2.AsyncClient(verify=False, limits=limits, timeout=60) as http,
        anyio.create_task_group() as tasks,
    ):
        for index, (_, path) in enumerate(episodes):
            tasks.start_soon(work, http, url, path, MODES[index % len(MODES)])
    for where, path in episodes:
        assert notes_of(where) == {f"{token_of(path)}-{step}" for step in range(2)} | {seen[path]}
        assert where.world.journal_length == 5
    assert len(set(seen.values())) == 1, "ids depend on an episode's own calls only"


@pytest.mark.parametrize("mode", MODES)
async def test_a_token_is_dead_at_once_also_for_clients_that_are_connected(mode: str) -> None:
    gateway = Gateway()
    where, path = open_desk(gateway)
    async with serving(gateway) as url, browser() as http:
        async with connected(http, url + path, mode) as agent:
            await agent.ok("notes_put", note_id="n1")
            gateway.close(token_of(path))
            gateway.close(token_of(path))
            with pytest.raises(MCPError, match="it has ended"):
                await agent.client.call_tool("notes_put", {"note_id": "n2"})
        refusal = pytest.RaisesExc(MCPError, match="Ask whoever runs the episodes for a new address")
        with pytest.RaisesGroup(refusal, flatten_subgroups=True):
            async with connected(http, url + path, "legacy"):
                pass
    assert len(gateway) == 0
    assert [entry.tool for entry in where.world.journal()] == ["notes_put"]


@pytest.mark.parametrize("suffix", ["/mcp", "/notes/mcp", "/nonsense/mcp"])
async def test_a_dead_token_and_one_that_never_was_look_the_same_and_tell_nothing(suffix: str) -> None:
    gateway = Gateway()
    open_desk(gateway)
    _, path = open_desk(gateway)
    dead = token_of(path)
    gateway.close(dead)
    async with serving(gateway) as url, browser() as http:
        for method in ("POST", "GET", "DELETE"):
            answers = [
                await http.request(method, f"{url}/e/{token}{suffix}", json=put("n1"), headers=JSON)
                for token in (dead, "x" * 43, dead[:-1])
            ]
            assert {answer.status_code for answer in answers} == {404}
            assert len({answer.text for answer in answers}) == 1
            error = answers[0].json()["error"]
            assert error["data"] == {
                "code": "unknown_token",
                "fix": "Ask whoever runs the episodes for a new address.",
            }
            assert dead not in answers[0].text


async def test_a_session_id_of_one_episode_opens_nothing_in_another() -> None:
    gateway = Gateway()
    victim, path = open_desk(gateway)
    other, elsewhere = open_desk(gateway)
    async with serving(gateway) as url, browser() as http:
        session = await session_of(http, url + path)
        stolen = JSON | {"Mcp-Session-Id": session, "MCP-Protocol-Version": "2025-11-25"}
        for attacked in (elsewhere, gateway.path(token_of(elsewhere), "notes"), gateway.path("x" * 43)):
            for method in ("POST", "GET", "DELETE"):
                answer = await http.request(method, url + attacked, json=put("stolen"), headers=stolen)
                assert answer.status_code == 404
        answer = await http.post(url + path, json=put("mine"), headers=stolen)
        assert not answer.json()["result"]["isError"]
    assert notes_of(victim) == {"mine"}
    assert other.world.journal() == []


async def test_a_session_of_one_service_does_not_open_another_service_of_the_same_episode() -> None:
    gateway = Gateway()
    where, path = open_desk(gateway)
    paths = gateway.service_paths(token_of(path))
    async with serving(gateway) as url, browser() as http:
        session = await session_of(http, url + paths["directory"])
        headers = JSON | {"Mcp-Session-Id": session}
        answer = await http.post(url + paths["notes"], json=put("n1"), headers=headers)
    assert answer.status_code == 404
    assert where.world.journal() == []


@pytest.mark.parametrize("era", ERAS)
async def test_a_call_whose_last_byte_comes_after_the_token_died_is_not_made(era: str | None) -> None:
    gateway = Gateway()
    where, path = open_desk(gateway)
    async with serving(gateway) as url, browser() as http:
        session = await session_of(http, url + path) if era else None
        call = tool_call(url + path, "notes_put", {"note_id": "late"}, session=session)
        parts = urlsplit(url)
        async with await anyio.connect_tcp(parts.hostname or "", parts.port or 0) as stream:
            await stream.send(call[:-5])
            await http.get(url + "/healthz")  # by now the server has read what was sent before
            gateway.close(token_of(path))
            await stream.send(call[-5:])
            answer = await stream.receive()
    assert answer.startswith(b"HTTP/1.1 404")
    assert where.world.journal() == []


async def test_closing_a_token_ends_the_streams_that_its_clients_listen_to() -> None:
    gateway = Gateway()
    _, path = open_desk(gateway)
    async with serving(gateway) as url, browser() as http:
        session = await session_of(http, url + path)
        async with http.stream("GET", url + path, headers=JSON | {"Mcp-Session-Id": session}) as stream:
            assert stream.status_code == 200
            gateway.close(token_of(path))
            assert await stream.aread() == b""


async def test_a_broken_tool_is_told_to_its_own_episode_and_not_to_the_agent() -> None:
    gateway = Gateway()
    faults: list[ServiceFault] = []
    token = gateway.open(desk(notebook()), on_fault=faults.append)
    open_desk(gateway)
    path = gateway.path(token)
    async with serving(gateway) as url, browser() as http, connected(http, url + path, "auto") as agent:
        assert await agent.refused("notes_crash", note_id="a") == BROKEN
    assert ["out of ink" in str(fault) for fault in faults] == [True]


@pytest.mark.parametrize("era", [*ERAS, "2026-07-28"])
async def test_bad_json_is_refused_as_a_json_rpc_error(era: str | None) -> None:
    gateway = Gateway()
    where, path = open_desk(gateway)
    async with serving(gateway) as url, browser() as http:
        session = {"Mcp-Session-Id": await session_of(http, url + path)} if era == "2025-11-25" else {}
        headers = JSON | session | ({"MCP-Protocol-Version": era} if era else {})
        for body in (b"{", b"[]", b'"tools/call"', b"\xff\xfe", b"[" * 100_000):
            answer = await http.post(url + path, content=body, headers=headers)
            assert answer.status_code == 400
            assert answer.json()["error"]["code"] < 0
            assert "Traceback" not in answer.text
    assert where.world.journal() == []


@pytest.mark.parametrize("era", ERAS)
async def test_arguments_that_are_no_object_are_refused_and_the_session_lives_on(era: str | None) -> None:
    gateway = Gateway()
    _, path = open_desk(gateway)
    async with serving(gateway) as url, browser() as http:
        session = await session_of(http, url + path) if era else None
        for arguments in ([1], "x", 3):
            head, _, body = tool_call(url + path, "notes_show", {}, session=session).partition(b"\r\n\r\n")
            message = json.loads(body)
            message["params"]["arguments"] = arguments
            headers = dict(line.split(": ", 1) for line in head.decode().split("\r\n")[1:])
            del headers["Content-Length"]
            answer = await http.post(url + path, json=message, headers=headers)
            assert answer.json()["error"]["message"].startswith("Invalid")
        call = tool_call(url + path, "notes_show", {"note_id": "a"}, session=session)
        assert b'"isError":false' in await send(url, call)


async def test_an_oversized_body_is_refused_whether_or_not_its_length_is_told() -> None:
    gateway = Gateway(max_body=2_000)
    where, path = open_desk(gateway)
    told = request("http://127.0.0.1" + path, put("x" * 2_000), {})
    head = told.partition(b"\r\n\r\n")[0].split(b"\r\nContent-Length")[0]
    untold = head + b"\r\nTransfer-Encoding: chunked\r\n\r\n" + b"400\r\n" + b"x" * 1024 + b"\r\n"
    async with serving(gateway) as url:
        answers = [await send(url, told), await send(url, untold, b"400\r\n" + b"x" * 1024 + b"\r\n")]
        for answer in answers:
            head, _, body = answer.partition(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 413")
            assert "2,000 bytes" in json.loads(body)["error"]["message"]
        fits = request(url + path, initialize(), {})
        assert (await send(url, fits)).startswith(b"HTTP/1.1 200")
    assert where.world.journal() == []


async def test_a_page_of_another_site_reaches_nothing_through_a_rebound_name() -> None:
    gateway = Gateway()
    where, path = open_desk(gateway)
    refused = [
        ({"Host": "attacker.example"}, 421, "host_not_allowed"),
        ({"Host": "localhost.attacker.example:80"}, 421, "host_not_allowed"),
        ({"Host": ""}, 421, "host_not_allowed"),
        ({"Origin": "https://attacker.example"}, 403, "origin_not_allowed"),
        ({"Origin": "null"}, 403, "origin_not_allowed"),
    ]
    async with serving(gateway, [Route("/control", _hello)]) as url, browser() as http:
        for plane in (path, "/healthz", "/control"):
            for headers, status, code in refused:
                answer = await http.post(url + plane, json=initialize(), headers=JSON | headers)
                error = answer.json()["error"]
                assert (answer.status_code, error.get("data", error)["code"]) == (status, code)
                assert "allowed hosts" in answer.text
        own = await http.post(url + path, json=initialize(), headers=JSON | {"Origin": url})
        assert own.status_code == 200
    assert where.world.journal() == []


@pytest.mark.parametrize(
    ("hosts", "reached", "refused"),
    [
        (
            ["Gateway:8000"],
            [
                {"Host": "gateway"},
                {"Host": "GATEWAY:80"},
                {"Host": "gateway", "Origin": "http://gateway:3000"},
            ],
            [{"Host": "127.0.0.1"}, {"Host": "gateway", "Origin": "http://127.0.0.1"}],
        ),
        (["::1"], [{"Host": "[::1]:8000"}, {"Host": "[::1]"}], [{"Host": "[::2]:8000"}]),
        (["*"], [{"Host": "whatever.example", "Origin": "https://elsewhere.example"}], []),
    ],
)
async def test_a_server_is_reached_under_the_names_that_were_allowed(
    hosts: list[str], reached: list[dict[str, str]], refused: list[dict[str, str]]
) -> None:
    async with serving(Gateway(allowed_hosts=hosts)) as url, browser() as http:
        for headers in reached:
            assert (await http.get(url + "/healthz", headers=headers)).status_code == 200
        for headers in refused:
            assert (await http.get(url + "/healthz", headers=headers)).status_code in (403, 421)


async def test_health_is_told_without_telling_more() -> None:
    gateway = Gateway()
    open_desk(gateway)
    async with serving(gateway) as url, browser() as http:
        answer = await http.get(url + "/healthz")
        assert (answer.status_code, answer.json()) == (200, {"status": "ok"})
        nothing = await http.get(url + "/")
        assert (nothing.status_code, nothing.json()["error"]["code"]) == (404, "not_found")
        assert (await http.post(url + "/healthz")).json()["error"]["code"] == "method_not_allowed"


async def test_a_workplace_can_come_back_under_its_old_address() -> None:
    gateway = Gateway()
    where, path = open_desk(gateway)
    with pytest.raises(ValueError, match="in use"):
        gateway.open(where, on_fault=_no_faults, token=token_of(path))
    with pytest.raises(ValueError, match="at least 32 characters"):
        gateway.open(where, on_fault=_no_faults, token="guessable")
    gateway.close(token_of(path))
    with pytest.raises(KeyError):
        gateway.service_paths(token_of(path))
    assert gateway.open(where, on_fault=_no_faults, token=token_of(path)) == token_of(path)
    async with serving(gateway) as url, browser() as http, connected(http, url + path, "auto") as agent:
        await agent.ok("notes_show", note_id=AUTHORED[0]["id"])


async def _hello(request: Request) -> Response:
    return JSONResponse({"hello": request.method})


async def _refuse(request: Request) -> Response:
    if request.method == "PUT":
        raise SpecError([Problem("unknown_key", "tasks[0].titel", "unknown key", "Did you mean title?")])
    raise HttpError(409, "busy", "It runs.", "Wait.")


async def test_the_control_plane_needs_the_admin_token_and_refuses_in_typed_json() -> None:
    guarded = [
        Route("/control", admin_only(ADMIN, _hello)),
        Route("/refuse", admin_only(ADMIN, _refuse), methods=["POST", "PUT"]),
    ]
    async with serving(Gateway(), guarded) as url, browser() as http:
        near = (f"Bearer {ADMIN}x", f"Bearer {ADMIN[:-1]}", "Bearer", f"Basic {ADMIN}", ADMIN, "")
        for given in (None, *near):
            headers = {} if given is None else {"Authorization": given}
            answer = await http.get(url + "/control", headers=headers)
            assert (answer.status_code, answer.json()["error"]["code"]) == (401, "admin_token_needed")
            assert answer.headers["www-authenticate"] == "Bearer"
            assert ADMIN not in answer.text
        admin = {"Authorization": f"bearer {ADMIN}"}
        assert (await http.get(url + "/control", headers=admin)).json() == {"hello": "GET"}
        busy = await http.post(url + "/refuse", headers=admin)
        assert busy.status_code == 409
        assert busy.json() == {"error": {"code": "busy", "message": "It runs.", "fix": "Wait."}}
        wrong = await http.put(url + "/refuse", headers=admin)
        assert wrong.status_code == 422
        assert wrong.json()["error"]["problems"] == [
            {
                "code": "unknown_key",
                "where": "tasks[0].titel",
                "message": "unknown key",
                "fix": "Did you mean title?",
            }
        ]
    with pytest.raises(ValueError, match="16 characters"):
        admin_only("short", _hello)


async def test_a_port_in_use_is_named_with_what_to_do() -> None:
    async with serving(Gateway()) as url:
        port = urlsplit(url).port or 0
        with pytest.raises(PortInUseError, match=rf"127\.0\.0\.1, port {port}: another process .* another port"):
            await serve(asgi_app(Gateway()), port=port)
    for host, beyond in (("192.0.2.1", 0), ("127.0.0.1", 65536), ("no.such.host.invalid", 0)):
        with pytest.raises(ListenError, match=f"{host}, port {beyond}: cannot listen there"):
            await serve(asgi_app(Gateway()), host=host, port=beyond)


SERVER = """
import sys
import anyio
from servers.gateway import Gateway, asgi_app, fast_loop, serve
from tests.servers.notebook import notebook
from tests.support import desk

async def main():
    gateway = Gateway()
    here = desk(notebook())
    path = gateway.path(gateway.open(here, on_fault=print))
    await serve(asgi_app(gateway), on_ready=lambda url: print(url + path, file=sys.stderr, flush=True))
    print(f"stopped after {here.world.journal_length} calls", file=sys.stderr)

anyio.run(main, backend_options=fast_loop())
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_stops_the_server_cleanly_and_it_writes_nothing_itself(number: int) -> None:
    async with await anyio.open_process([sys.executable, "-c", SERVER], cwd=REPOSITORY) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        words = BufferedByteReceiveStream(process.stderr)
        url = (await words.receive_until(b"\n", 200)).decode()
        async with browser() as http, connected(http, url, "legacy") as agent:
            await agent.ok("notes_put", note_id="n1")
            process.send_signal(number)
            assert await words.receive_until(b"\n", 2_000) == b"stopped after 1 calls"
        assert await process.wait() == 0
        assert [data async for data in process.stdout] == []


STDIO = """
import anyio
from servers.stdio import serve_stdio
from servers.tools import Arguments, Service, tool
from tests.servers.notebook import NOTES
from tests.support import desk, office

def noisy(call, arguments):
    print("this must not reach the client")
    return {"said": "nothing"}

async def main():
    noise = Service("noise", "Noise", "For tests.", (), (tool("noise_make", Arguments, noisy),))
    await serve_stdio(desk(office([NOTES, noise])), on_fault=print)

anyio.run(main)
"""


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_a_client_that_speaks_only_stdio_works_at_a_desk(mode: str, tmp_path: Path) -> None:
    script = tmp_path / "server.py"
    script.write_text(STDIO, encoding="utf-8")
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    server = mcp.StdioServerParameters(command=sys.executable, args=[str(script)], env=environment)
    async with mcp.Client(server, mode=mode) as client:  # type: ignore[arg-type]
        agent = McpDesk(client)
        await agent.ok("notes_put", note_id="n1", text="over stdio")
        assert (await agent.ok("notes_show", note_id="n1"))["text"] == "over stdio"
        assert (await agent.ok("noise_make"))["said"] == "nothing"
        assert "Did you mean notes_show" in await agent.refused("notes_shw", note_id="n1")
