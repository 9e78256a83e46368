"""``coworkenv serve`` as people and their agents meet it: in a process of its own, over HTTP and over stdio."""

from __future__ import annotations

import json
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import httpx2
import mcp
import pytest

from harness import pack
from harness.environment import Environment
from synth.families.escalation import ESCALATION
from synth.families.ticket_routing import TICKET_ROUTING
from tests.command_line import command, environment, started

ROUTED = TICKET_ROUTING.make("serving", 1)
ESCALATED = ESCALATION.make("serving", 1)
TOKEN = "an-admin-token-of-mine"


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    pack.save(tmp_path / "mine", [ROUTED, ESCALATED], {})
    return tmp_path / "mine"


@dataclass(frozen=True)
class Served:
    """A server that runs, with the admin's connection to it."""

    facts: dict[str, Any]
    """What it printed."""
    http: httpx2.Client
    process: subprocess.Popen[str]

    def post(self, path: str, body: Any = None, status: int = 200) -> Any:
        answer = self.http.post(path, json={} if body is None else body)
        assert answer.status_code == status, answer.text
        return answer.json()


@contextmanager
def served(*words: object) -> Iterator[Served]:
    with started("serve", *words, "--port", 0, "--admin-token", TOKEN, "--json") as process:
        assert process.stdout is not None
        assert process.stderr is not None
        said = process.stdout.readline()
        assert said, process.stderr.read()
        facts = json.loads(said)
        headers = {"Authorization": f"Bearer {TOKEN}"}
        with httpx2.Client(base_url=facts["control"], headers=headers) as http:
            yield Served(facts, http, process)


async def work(url: str, environment: Environment, mode: str = "2026-07-28") -> None:
    """Do over MCP what the oracle does; what it says is told nobody."""
    async with mcp.Client(url, mode=mode) as client:
        for step in environment.oracle:
            if step.call is not None:
                result = await client.call_tool(step.call, step.arguments)
                assert not result.is_error, result.content


@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
def test_an_agent_connects_with_the_printed_configuration_in_both_eras(mine: Path, mode: str) -> None:
    with started("serve", mine, "--port", 0) as process:
        assert process.stdout is not None
        lines: list[str] = []
        while not lines or not lines[-1].startswith("Ctrl-C"):
            lines.append(process.stdout.readline())
        said = "".join(lines)
        assert ROUTED.request in said
        config = json.loads(said[said.index("{\n") : said.index("\n}\n") + 2])
        server = config["mcpServers"]["workplace"]
        assert server["type"] == "http"
        anyio.run(work, server["url"], ROUTED, mode)
        tell, grade = (shlex.split(text.split("\n\n")[0]) for text in said.split("curl -X POST ")[1:])
        told = httpx2.post(tell[-1], headers=dict([tell[1].split(": ")]), content=tell[tell.index("-d") + 1])
        assert told.json().keys() == {"reply", "stop"}
        graded = httpx2.post(grade[-1], headers=dict([grade[1].split(": ")]))
        checks = {check["id"]: check["verdict"] for check in graded.json()["checks"]}
        assert checks["assigned"] == checks["nothing-else"] == "PASS"


def test_the_control_plane_takes_an_episode_from_its_opening_to_its_grade(mine: Path) -> None:
    with served(mine) as server:
        listed = server.http.get("/environments").json()["environments"]
        assert [row["id"] for row in listed] == [ROUTED.id, ESCALATED.id]
        opened = server.post("/episodes", {"environment": ROUTED.id}, 201)
        assert opened["episode"] != server.facts["episode"]
        assert opened["mcp"] != server.facts["mcp"]
        assert opened["request"] == ROUTED.request
        assert {one["episode"] for one in server.http.get("/episodes").json()["episodes"]} == {
            opened["episode"],
            server.facts["episode"],
        }
        anyio.run(work, opened["mcp_by_service"]["desk"], ROUTED)
        path = f"/episodes/{opened['episode']}"
        words = next(step.say for step in reversed(ROUTED.oracle) if step.say is not None)
        assert server.post(f"{path}/message", {"text": words})["stop"] is True
        graded = server.post(f"{path}/grade")
        assert graded["score"]["total"] == 1
        assert {check["verdict"] for check in graded["checks"]} == {"PASS"}
        unsolved = server.post(f"/episodes/{server.facts['episode']}/grade")
        assert unsolved["score"]["total"] == 0


def test_an_address_dies_with_its_episode_and_only_with_it(mine: Path) -> None:
    with served(mine) as server:
        first, second = server.facts, server.post("/episodes", {"environment": ROUTED.id}, 201)
        server.post(f"/episodes/{first['episode']}/grade")
        answer = httpx2.post(first["mcp"], json={"jsonrpc": "2.0", "id": 1, "method": "ping"})
        assert answer.status_code == 404
        assert "has ended" in answer.json()["error"]["message"]
        anyio.run(work, second["mcp"], ROUTED)
        assert server.http.delete(f"/episodes/{second['episode']}").status_code == 204
        assert httpx2.post(second["mcp"], json={}).status_code == 404
        assert server.http.get("/episodes").json() == {"episodes": []}


def test_the_control_plane_refuses_strangers_and_what_it_cannot_read(mine: Path) -> None:
    with served(mine) as server:
        here = f"/episodes/{server.facts['episode']}"
        for method, path in (
            ("GET", "/environments"),
            ("POST", "/episodes"),
            ("POST", f"{here}/grade"),
            ("DELETE", here),
        ):
            for header in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": f"Basic {TOKEN}"}):
                answer = httpx2.request(method, server.facts["control"] + path, headers=header)
                assert answer.status_code == 401
                assert answer.json()["error"]["code"] == "admin_token_needed"
        near = server.post("/episodes", {"environment": ROUTED.id[:-1]}, 404)
        assert ROUTED.id in near["error"]["fix"]
        assert server.post("/episodes", {"environment": 3}, 422)["error"]["code"] == "invalid"
        assert server.post("/episodes", [], 400)["error"]["code"] == "no_json"
        assert server.post("/episodes/nowhere/grade", None, 404)["error"]["code"] == "unknown_episode"
        assert server.post(f"{here}/advance", {"seconds": -1}, 422)["error"]["code"] == "invalid"
        assert server.post(f"{here}/advance", {"seconds": True}, 422)["error"]["code"] == "invalid"
        assert server.post(f"{here}/message", {"text": ""}, 422)["error"]["code"] == "invalid"
        assert server.http.get("/healthz").json() == {"status": "ok"}
        assert server.http.get(server.facts["mcp"].partition("/e/")[1] + "wrong/mcp").status_code == 404


def test_time_passes_when_told_and_brings_events(mine: Path) -> None:
    with served(mine, "--id", ESCALATED.id) as server:
        path = f"/episodes/{server.facts['episode']}"
        now = server.post(f"{path}/advance", {"seconds": 3600})["now"]
        assert now == ESCALATED.start + 3600
        assert server.post(f"{path}/advance", {"seconds": 60})["now"] == now + 60


def test_a_workplace_in_files_survives_a_restart_under_its_old_address(mine: Path) -> None:
    data = mine.parent / "data"
    with served(mine, "--data", data) as server:
        first = server.facts
        anyio.run(work, first["mcp"], ROUTED)
        calls = server.http.get("/episodes").json()["episodes"][0]["calls"]
        assert calls == sum(step.call is not None for step in ROUTED.oracle)
        server.process.kill()  # no farewell
    with served(mine, "--data", data) as server:
        again = server.facts
        assert (again["episode"], again["calls"]) == (first["episode"], calls)
        assert again["mcp"].partition("/e/")[2] == first["mcp"].partition("/e/")[2]
        checks = server.post(f"/episodes/{again['episode']}/grade")["checks"]
        assert {check["id"]: check["verdict"] for check in checks}["assigned"] == "PASS"
        fresh = server.post("/episodes", {"environment": ROUTED.id}, 201)
        assert fresh["calls"] == 0
        assert fresh["mcp"] != again["mcp"]  # the old address stays dead
        assert server.post("/episodes", {"environment": ROUTED.id}, 409)["error"]["code"] == "already_open"
    assert (data / f"{ROUTED.id}.ended").exists()
    with served(mine, "--data", data) as server:
        assert server.facts["mcp"].partition("/e/")[2] == fresh["mcp"].partition("/e/")[2]


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_a_server_that_is_told_to_stop_ends_without_a_word(mine: Path, how: signal.Signals) -> None:
    with served(mine) as server:
        server.process.send_signal(how)
        out, err = server.process.communicate()
    assert (server.process.returncode, out, err) == (0, "", "")


def test_a_desk_on_standard_input_and_output(mine: Path, tmp_path: Path) -> None:
    async def over_stdio() -> None:
        words = command("serve", mine, "--id", ESCALATED.id, "--stdio")
        here = mcp.StdioServerParameters(command=sys.executable, args=words[1:], env=environment())
        for mode in ("legacy", "auto"):
            async with mcp.Client(here, mode=mode) as client:
                listed = await client.list_tools()
                assert {tool.name for tool in listed.tools} == set(ESCALATED.exposed)
                found = await client.call_tool("directory_search", {"query": "a"})
                assert not found.is_error
                refused = await client.call_tool("directory_get", {})
                assert refused.is_error

    anyio.run(over_stdio)
