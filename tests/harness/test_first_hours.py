"""What people meet in their first hours: packs that are not lost, commands that run as printed, words that help."""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path
from typing import Any

import mcp
import pytest
import yaml

from harness import pack
from harness.agents import catalogue
from harness.agents.base import Briefing, NoRecord, Session
from harness.environment import Environment
from harness.errors import EpisodeFault
from harness.invocation import install, program
from harness.live import LiveEpisode
from harness.talk import talking_desk
from harness.user import UserFact, UserSpec
from servers.errors import SpecError
from servers.mcp_server import desk_server
from synth.families.escalation import ESCALATION
from synth.families.ticket_routing import TICKET_ROUTING
from tests.command_line import ROOT, START, Cowork, environment, runner, started

ROUTED = TICKET_ROUTING.make("first-hours", 1)
FLOOR = UserFact(id="floor", text="On the third floor.", topics=["floor"])
ASKING = ROUTED.model_copy(update={"user": UserSpec(facts=[FLOOR])})
TASKS = ROOT / "tests" / "data" / "claw_eval" / "tasks"


@pytest.fixture
def cowork(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Cowork:
    return runner(monkeypatch, capsys)


# ------------------------------------------------------------------ everything that is wrong, at once


def broken(change: dict[str, Any]) -> list[str]:
    """Where the problems are of an environment with these parts changed."""
    with pytest.raises(SpecError) as raised:
        Environment.parse({**ESCALATION.make("first-hours", 1).dump(), **change}).validate_all()
    return [problem.where for problem in raised.value.problems]


def test_no_mistake_hides_another_one() -> None:
    data = ESCALATION.make("first-hours", 1).dump()
    data["oracle"][0]["call"] = "fly"
    data["checks"][0]["type"] = "tickets.tikcet"
    assert {"oracle[0].call", "checks[0].type"} <= set(broken(data))
    data["tools"].append("flie")
    data["records"]["tickets.ticket"][1]["queue"] = "NONE"
    data["events"][0]["do"][0]["tool"] = "mail_sendd"
    places = broken(data)
    assert len(places) == len(set(places))
    wanted = {"records.tickets.ticket[1].queue", "oracle[0].call", "checks[0].type", "events[0].do[0].tool"}
    assert wanted <= set(places)
    assert any(place.startswith("tools[") for place in places)
    assert all(place in wanted or place.startswith("tools[") for place in places)  # and nothing is made up


# ------------------------------------------------------------------ packs


SMALL = ("synth", "--count", 1, "--family", "ticket_routing", "--level", 1)


def test_a_pack_is_never_replaced_silently(cowork: Cowork, tmp_path: Path) -> None:
    out = tmp_path / "pack"
    assert cowork(*SMALL, "--seed", "a", "--out", out).code == 0
    before = {path.name: path.read_bytes() for path in out.iterdir()}
    for words in ((*SMALL, "--seed", "b"), ("import", "claw-eval", TASKS)):
        ended = cowork(*words, "--out", out)
        assert ended.code == 2
        assert "another pack is there already (" in ended.words
        assert "--replace" in ended.words
        assert {path.name: path.read_bytes() for path in out.iterdir()} == before
    assert cowork(*SMALL, "--seed", "a", "--out", out).code == 0
    assert {path.name: path.read_bytes() for path in out.iterdir()} == before  # the same seed, the same bytes
    assert cowork(*SMALL, "--seed", "b", "--out", out, "--replace").code == 0
    assert (out / pack.ENVIRONMENTS).read_bytes() != before[pack.ENVIRONMENTS]


def test_a_pack_made_by_hand_is_not_replaced(cowork: Cowork, tmp_path: Path) -> None:
    pack.save(tmp_path, [ROUTED], {})
    assert "not known how" in cowork(*SMALL, "--out", tmp_path).words
    (tmp_path / pack.PACK).write_text("[", encoding="utf-8")
    assert "not known how" in cowork(*SMALL, "--out", tmp_path).words
    assert pack.load(tmp_path) == [ROUTED]


def test_requests_that_look_like_markup_are_shown_as_they_are(cowork: Cowork, tmp_path: Path) -> None:
    odd = ROUTED.model_copy(update={"request": "Close [/foo] and [bold]this[/bold] :smile:", "family": "[/family]"})
    pack.save(tmp_path / "pack", [odd], {})
    listed = cowork("env", "list", tmp_path / "pack")
    assert listed.code == 0
    shown = " ".join(listed.out.replace("│", " ").split())
    assert all(word in shown for word in ("[/foo]", "[bold]this[/bold]", ":smile:", "[/family]"))
    assert cowork("certify", tmp_path / "pack").code in {0, 2}
    ran = cowork("run", tmp_path / "pack", "--agent", "noop", "--out", tmp_path / "run")
    assert ran.code == 0
    assert "[/family]" in ran.out


# ------------------------------------------------------------------ imports


def test_a_bad_task_is_skipped_and_the_others_are_imported(cowork: Cowork, tmp_path: Path) -> None:
    bad = {
        "A-date": "task_id: a\nprompt: {text: x\n",
        "B-twice": (TASKS / "T900_sample" / "task.yaml").read_text(encoding="utf-8"),
        "C-id": "task_id: no blanks please\nprompt: {text: x}\n",
        "D-list": "- 1\n",
    }
    for name, text in {**bad, "good": "task_id: good\nprompt: {text: Do it.}\n"}.items():
        (tmp_path / "tasks" / name).mkdir(parents=True)
        (tmp_path / "tasks" / name / "task.yaml").write_text(text, encoding="utf-8")
    (tmp_path / "tasks" / "A-twin").mkdir()
    (tmp_path / "tasks" / "A-twin" / "task.yaml").write_text(bad["B-twice"], encoding="utf-8")
    out = tmp_path / "pack"
    ended = cowork("import", "claw-eval", tmp_path / "tasks", "--out", out)
    assert ended.code == 2
    assert "2 imported, 4 skipped" in ended.out
    assert "skipped A-date: this is no YAML that can be read: line 3, column 1" in ended.words
    assert "skipped B-twice: task_id: " in ended.words
    assert "is the id of A-twin too" in ended.words
    assert "skipped C-id: id: " in ended.words
    assert "skipped D-list: expected a mapping of keys (got [1])" in ended.words
    assert len(pack.load(out)) == 2
    again = cowork("import", "claw-eval", tmp_path / "tasks", "--out", out, "--json")
    assert (again.code, again.json["imported"], set(again.json["skipped"])) == (2, 2, set(bad))
    lonely = cowork("import", "claw-eval", tmp_path / "tasks" / "D-list", "--out", tmp_path / "nothing")
    assert (lonely.code, "0 imported, 1 skipped" in lonely.out) == (2, True)
    assert not list((tmp_path / "nothing").iterdir())


# ------------------------------------------------------------------ runs


class Away(NoRecord):
    """An agent whose provider does not answer."""

    name = "away"

    async def begin(self, briefing: Briefing) -> Session:
        raise EpisodeFault("infra", "provider", "no route to host [/x] " + "and so on " * 100)


def test_a_run_without_answers_says_why_in_a_few_words(
    cowork: Cowork, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pack.save(tmp_path / "pack", [ROUTED], {})
    monkeypatch.setitem(catalogue.SCRIPTED, "noop", Away)
    ended = cowork("run", tmp_path / "pack", "--agent", "noop", "--trials", 2, "--out", tmp_path / "run")
    assert ended.code == 2
    [line] = [line for line in ended.err.splitlines() if "not scored" in line]
    assert line.startswith("2 not scored, infra: provider: no route to host [/x] and so on")
    assert len(line) < 240


# ------------------------------------------------------------------ commands that run as printed


@pytest.mark.skipif(os.name != "posix", reason="other systems find programs otherwise")
def test_printed_commands_call_the_program_as_it_was_called(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = tmp_path / ".venv" / "bin" / "coworkenv"
    script.parent.mkdir(parents=True)
    script.touch(mode=0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", [".venv/bin/coworkenv", "demo"])
    assert program() == ".venv/bin/coworkenv"
    monkeypatch.setenv("PATH", str(script.parent))
    assert program() == "coworkenv"
    other = tmp_path / "a folder" / "coworkenv"
    monkeypatch.setattr(sys, "argv", [str(other)])
    assert program() == f"'{other}'"


def test_extras_are_installed_with_the_pip_of_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("bin").mkdir()
    Path("bin/pip").touch()
    monkeypatch.setattr(sys, "argv", ["bin/coworkenv"])
    assert (program(), install("models")) == ("bin/coworkenv", "bin/pip install -e '.[models]'")
    assert install("train") == "bin/pip install -c constraints-cpu.txt -e '.[train]'"
    monkeypatch.setattr(sys, "argv", ["/usr/lib/pytest/__main__.py"])
    assert (program(), install("models")) == ("coworkenv", "pip install -e '.[models]'")


def test_the_configuration_for_stdio_in_the_readme_depends_on_no_folder() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    [snippet] = [block for block in re.findall(r"```json\n(.*?)```", text, re.DOTALL) if "--stdio" in block]
    served = json.loads(snippet)["mcpServers"]["workplace"]
    assert served["command"].startswith("/")
    assert served["args"][1].startswith("/")
    assert "coworkenv[" not in text


# ------------------------------------------------------------------ talking to the user over MCP


@pytest.mark.anyio
async def test_a_client_that_has_only_mcp_can_talk_to_its_user() -> None:
    episode = LiveEpisode.open(ASKING)
    desk = talking_desk(episode.desk, episode.say)
    async with mcp.Client(desk_server(desk, on_fault=episode.faults.append)) as client:
        names = [tool.name for tool in (await client.list_tools()).tools]
        assert names == [*ASKING.exposed, "user_message"]
        answer = await client.call_tool("user_message", {"text": "On which floor?"})
        assert not answer.is_error
        assert answer.structured_content == {"answer": FLOOR.text, "ended": False}
        assert (await client.call_tool("user_message", {"text": 1})).is_error
        alone = await client.call_tool("user_message", {"text": "I have booked it."})
        assert alone.structured_content == {"answer": "", "ended": True}
    assert [one.fact for one in episode.disclosures] == [FLOOR.id]
    assert [message.role for message in episode.messages] == ["assistant", "user", "assistant"]
    assert episode.world.turn == 2
    assert episode.world.journal_length == 0  # words to the user are no calls
    assert list(desk.only("user").tools) == ["user_message"]
    assert not episode.faults
    episode.world.close()


@pytest.mark.anyio
async def test_talking_over_standard_input_and_output(tmp_path: Path) -> None:
    pack.save(tmp_path, [ASKING], {})
    words = ["-c", START, "serve", str(tmp_path), "--stdio", "--talk"]
    here = mcp.StdioServerParameters(command=sys.executable, args=words, env=environment())
    async with mcp.Client(here) as client:
        answer = await client.call_tool("user_message", {"text": "All done."})
    assert answer.structured_content is not None
    assert answer.structured_content.keys() == {"answer", "ended"}


def test_what_the_readme_shows_as_yaml_is_read() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert all(yaml.safe_load(block) for block in re.findall(r"```yaml\n(.*?)```", text, re.DOTALL))


def test_a_reader_who_leaves_early_gets_no_traceback() -> None:
    with started("env", "schema") as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert "Traceback" not in process.stderr.read()
        assert process.wait(timeout=60) == 1
