"""What the command line says when something is wrong: what, where, what to do. And that nothing is lost."""

from __future__ import annotations

import json
import os
import signal
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness import pack
from harness.agents import catalogue
from harness.agents.base import Briefing, NoRecord, Session
from harness.errors import EpisodeFault
from harness.rundir import load_summaries
from synth.families.escalation import ESCALATION
from synth.families.ticket_routing import TICKET_ROUTING
from tests.command_line import Cowork, Ended, process, runner, started

ESCALATED = ESCALATION.make("refusals", 1)
ROUTED = TICKET_ROUTING.make("refusals", 1)
NOBODY = "nobody@nowhere.example"


@pytest.fixture
def cowork(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Cowork:
    return runner(monkeypatch, capsys)


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    pack.save(tmp_path / "mine", [ROUTED, ESCALATED], {})
    return tmp_path / "mine"


def refused(ended: Ended, *parts: object) -> None:
    """The command ended with 2, and said these things on standard error and nothing like a traceback."""
    assert ended.code == 2, ended
    assert "Traceback" not in ended.err
    for part in parts:
        assert str(part) in ended.words, (part, ended.words)


def files_below(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


# ------------------------------------------------------------------ words that are wrong


@pytest.mark.parametrize(
    ("words", "parts"),
    [
        (["serv"], ["there is no command 'serv'", "Did you mean serve?"]),
        (["sing"], ["there is no command 'sing'", "Valid: certify, demo, env"]),
        (["env", "lst"], ["No such command 'lst'", "list"]),
        (["serve", "PACK", "--prot", "80"], ["No such option '--prot'", "--port"]),
        (["serve"], ["Missing argument 'PACK'"]),
        (["run", "PACK"], ["Missing option '--agent'"]),
        (["run", "PACK", "--agent", "oracle", "--trials", "0"], ["'--trials'", "0 is not in the range x>=1"]),
        (["run", "PACK", "--agent", "orakel"], ["--agent: there is no agent 'orakel'", "litellm:MODEL"]),
        (["run", "PACK", "--agent", "litellm:"], ["there is no agent 'litellm:'"]),
        (["run", "PACK", "--agent", "oracle", "--id", "escalation"], ["--id: there is no environment", ESCALATED.id]),
        (["serve", "PACK", "--id", "elsewhere"], ["there is no environment 'elsewhere'", "Valid: ", ROUTED.id]),
        (["env", "show", "PACK", "--id", "elsewhere"], ["there is no environment 'elsewhere'"]),
        (["serve", "PACK", "--port", "70000"], ["'--port'", "70000 is not in the range 0<=x<=65535"]),
        (["serve", "PACK", "--admin-token", "guessable"], ["'--admin-token'", "at least 16 characters"]),
        (["synth", "--family", "escalaton"], ["--family: there is no family 'escalaton'", "Did you mean escalation?"]),
        (["synth", "--level", "9"], ["--level: there is no level 9", "Levels are 1 to "]),
        (["synth", "--count", "many"], ["'--count'", "'many' is not a valid integer"]),
        (["report", "PACK"], ["mine: this is no run", "environments.jsonl is in it"]),
        (["report", "nowhere"], ["nowhere: this is no run", "`coworkenv run`"]),
        (["grade", "nowhere", "--pack", "PACK"], ["nowhere: this is no run", "`coworkenv run`"]),
        (["import", "claw-eval", "nowhere"], ["nowhere: there are no tasks here", "task.yaml"]),
        (["certify", "nowhere"], ["nowhere: there is no such file", "`coworkenv synth` makes one"]),
    ],
    ids=lambda value: "-".join(value[:4]) if value[0].islower() else "",
)
def test_a_wrong_word_is_named_and_the_right_ones_are_shown(
    cowork: Cowork, mine: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], parts: list[str]
) -> None:
    monkeypatch.chdir(mine.parent)
    before = files_below(mine.parent)
    refused(cowork(*(mine if word == "PACK" else word for word in words)), *parts)
    assert files_below(mine.parent) == before


# ------------------------------------------------------------------ files that are wrong


def test_a_broken_line_of_a_pack_is_named_by_its_number(cowork: Cowork, mine: Path) -> None:
    file = mine / pack.ENVIRONMENTS
    first, second = file.read_text(encoding="utf-8").splitlines()
    file.write_text(f"{first}\n{second[:-7]}\n", encoding="utf-8")
    for words in (["env", "list", mine], ["certify", mine], ["run", mine, "--agent", "oracle", "--out", mine / "run"]):
        refused(cowork(*words), f"{file}:2: ", "no JSON")
    assert not (mine / "run").exists()


def test_yaml_that_is_none_is_named_by_line_and_column(cowork: Cowork, tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text("id: x\n  cast: [", encoding="utf-8")
    refused(cowork("env", "check", file), f"{file}: ", "no YAML", "line 2, column 7")


@pytest.mark.parametrize("content", [b"", b"\xff\xfe\x00", b"- 1\n- 2\n", b"just words"])
def test_a_file_of_something_else_is_refused(cowork: Cowork, tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "mine.yaml"
    file.write_bytes(content)
    refused(cowork("env", "check", file), file)


def changed(change: Callable[[dict[str, Any]], object]) -> dict[str, Any]:
    data = json.loads(json.dumps(ESCALATED.dump()))
    change(data)
    return data


@pytest.mark.parametrize(
    ("change", "parts"),
    [
        (lambda data: data.update(colour="red"), ["colour: unknown key"]),
        (lambda data: data["cast"][1].update(colour="red"), ["cast[1].colour: unknown key"]),
        (lambda data: data.pop("request"), ["request: Field required"]),
        (lambda data: data.update(principal=NOBODY), ["principal", NOBODY, "is not in the cast"]),
        (
            lambda data: data["records"]["mail.message"][0].update(in_reply_to="M-0"),
            ["records.mail.message[0].in_reply_to", "M-0"],
        ),
        (
            lambda data: data["records"]["mail.message"][0].update(colour="red"),
            ["records.mail.message[0].colour: unknown key"],
        ),
        (lambda data: data["records"].update({"mial.message": []}), ["records.mial.message", "mail.message"]),
        (lambda data: data.update(start="2026-02-30T09:00:00Z"), ["start", "2026-02-30"]),
        (lambda data: data["events"][0]["when"].update(delay="soon"), ["events[0].when.delay", "15m", "'soon'"]),
        (
            lambda data: data["events"][0]["do"][0].update(tool="mail_sendd"),
            ["events[0].do[0]", "mail_sendd", "mail_send"],
        ),
        (lambda data: data["checks"][0].update(kind="miracle"), ["checks[0]", "miracle"]),
        (lambda data: data["oracle"][0].update(call="fly"), ["oracle[0].call", "fly"]),
        (lambda data: data["services"].append("mial"), ["services", "mial", "mail"]),
    ],
)
def test_what_does_not_fit_is_named_by_its_path(
    cowork: Cowork, tmp_path: Path, change: Callable[[dict[str, Any]], object], parts: list[str]
) -> None:
    file = tmp_path / "mine.json"
    file.write_text(json.dumps(changed(change)), encoding="utf-8")
    refused(cowork("env", "check", file), *parts)
    refused(cowork("run", file, "--agent", "oracle", "--out", tmp_path / "run"), *parts)
    assert files_below(tmp_path) == ["mine.json"]


def test_every_problem_is_listed_for_people_and_for_programs(cowork: Cowork, tmp_path: Path) -> None:
    def twice(data: dict[str, Any]) -> None:
        data["records"]["tickets.ticket"][1].update(queue="NONE")
        data["records"]["tickets.ticket"][0].update(queue="NOPE")

    file = tmp_path / "mine.json"
    file.write_text(json.dumps(changed(twice)), encoding="utf-8")
    ended = cowork("env", "check", file, "--json")
    refused(ended, "records.tickets.ticket[1].queue", "records.tickets.ticket[0].queue")
    assert {problem["code"] for problem in ended.json["problems"]} == {"dangling_id"}
    assert len(ended.json["problems"]) == 2


def test_an_impossible_order_of_times_is_refused(cowork: Cowork, tmp_path: Path) -> None:
    file = tmp_path / "mine.json"
    late = "2099-01-01T00:00:00Z"
    file.write_text(
        json.dumps(changed(lambda d: d["records"]["mail.message"][0].update(sent_at=late))), encoding="utf-8"
    )
    refused(cowork("env", "check", file), "records.mail.message[0].sent_at", "Set a time before")


# ------------------------------------------------------------------ places that are wrong


@pytest.mark.parametrize("below", [(), ("folder",)], ids=["file", "below a file"])
def test_an_output_directory_that_is_a_file_is_refused_before_the_work(
    cowork: Cowork, mine: Path, below: tuple[str, ...]
) -> None:
    file = mine.parent / "precious"
    file.write_text("of mine", encoding="utf-8")
    out = file.joinpath(*below)
    ended = cowork("synth", "--count", 1, "--out", out)
    refused(ended, out, "file")
    assert "synthesize" not in ended.err  # no progress bar: nothing was begun
    refused(cowork("run", mine, "--agent", "oracle", "--out", out), out, "file")
    refused(cowork("serve", mine, "--port", 0, "--data", out), out, "file")
    assert file.read_text(encoding="utf-8") == "of mine"


def test_a_report_that_cannot_be_written_leaves_the_run_alone(cowork: Cowork, mine: Path) -> None:
    run = mine.parent / "run"
    cowork("run", mine, "--agent", "noop", "--out", run, "--json")
    before = files_below(run)
    refused(
        cowork("report", run, "--out", mine / "nowhere" / "report.html"), "cannot write", "create it, or check the path"
    )
    refused(cowork("report", run, "--out", mine), "cannot write", "there is a folder of this name")
    assert files_below(run) == before


def test_a_directory_with_other_files_is_not_taken_for_a_run(cowork: Cowork, mine: Path) -> None:
    refused(cowork("run", mine, "--agent", "oracle", "--out", mine), "this is no run", "empty directory")
    assert files_below(mine) == [pack.ENVIRONMENTS, pack.PACK]


def test_a_port_that_is_taken_is_refused(cowork: Cowork, mine: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        refused(
            cowork("serve", mine, "--port", port), f"127.0.0.1, port {port}", "another process listens there already"
        )


def test_a_host_that_is_not_of_this_machine_is_refused(cowork: Cowork, mine: Path) -> None:
    refused(
        cowork("serve", mine, "--host", "203.0.113.1", "--port", 0), "203.0.113.1", "Name an address of this machine"
    )


def test_a_data_directory_that_takes_no_files_is_refused(cowork: Cowork, mine: Path) -> None:
    if not Path("/proc/self").is_dir():
        pytest.skip("no folder here takes no files, not even from root")
    refused(cowork("serve", mine, "--port", 0, "--data", "/proc/self"), "/proc/self", "cannot keep a world there")


def test_the_world_of_another_environment_is_not_taken_over(cowork: Cowork, mine: Path) -> None:
    data = mine.parent / "data"
    data.mkdir()
    (data / f"{ROUTED.id}.db").write_bytes(b"notes of mine, no database at all")
    refused(cowork("serve", mine, "--port", 0, "--data", data), f"{ROUTED.id}.db", "cannot keep a world there")
    assert (data / f"{ROUTED.id}.db").read_bytes() == b"notes of mine, no database at all"


SMALL_DISK = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, ({0}, {0}))\n"


def test_a_full_disk_leaves_no_half_a_pack(tmp_path: Path) -> None:
    ended = process("synth", "--count", 1, "--out", tmp_path / "pack", before=SMALL_DISK.format(1000))
    refused(ended, "cannot write", pack.ENVIRONMENTS, "free space")
    assert files_below(tmp_path) == []


def test_a_full_disk_stops_a_run_and_the_same_command_finishes_it(cowork: Cowork, mine: Path) -> None:
    run = mine.parent / "run"
    words = ("run", mine, "--agent", "oracle", "--agent", "noop", "--out", run, "--concurrency", 1)
    largest = max(len(path.read_bytes()) for path in small_run(cowork, mine).glob("episodes/*"))
    ended = process(*words, before=SMALL_DISK.format(largest - 1))
    refused(ended, "cannot write", "free space and run the same command again")
    assert not [name for name in files_below(run) if ".tmp" in name]
    kept = len(load_summaries(run))
    assert kept < 4
    assert cowork(*words).code == 0
    assert episodes(run) == episodes(mine.parent / "whole")


# ------------------------------------------------------------------ providers that are away


class Unreachable(NoRecord):
    """An agent whose provider does not answer."""

    name = "unreachable"

    async def begin(self, briefing: Briefing) -> Session:
        raise EpisodeFault("infra", "provider", f"cannot be reached for {briefing.environment.id}")


def test_a_run_without_a_score_says_why_and_can_be_repeated(
    cowork: Cowork, mine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ("run", mine, "--agent", "noop", "--id", ROUTED.id, "--trials", 3, "--out", mine.parent / "run")
    with monkeypatch.context() as patch:
        patch.setitem(catalogue.SCRIPTED, "noop", Unreachable)
        reason = f"3 not scored, infra: provider: cannot be reached for {ROUTED.id}"
        refused(cowork(*words), reason, "The same command plays what ended infra again.")
        ended = cowork(*words, "--json")
        refused(ended, reason)
        assert ended.json["agents"][0]["statuses"]["infra"] == 3
        extended = cowork(*words, "--agent", "oracle")
        assert extended.code == 0  # something was scored; the rest is told
        assert reason in extended.err


# ------------------------------------------------------------------ processes that are stopped


def small_run(cowork: Cowork, mine: Path) -> Path:
    whole = mine.parent / "whole"
    assert cowork("run", mine, "--agent", "oracle", "--agent", "noop", "--out", whole, "--json").code == 0
    return whole


def episodes(run: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (run / "episodes").iterdir()}


def wait_for_episodes(run: Path, count: int) -> None:
    while not (run / "summaries").is_dir() or len(list((run / "summaries").glob("*.json"))) < count:
        time.sleep(0.005)  # another process plays them; the time limit of the test is the end of waiting


def test_a_killed_run_is_finished_by_the_same_command_with_the_same_results(cowork: Cowork, mine: Path) -> None:
    words = ("run", mine, "--agent", "oracle", "--agent", "noop", "--trials", 10, "--concurrency", 2)
    killed, whole = mine.parent / "killed", mine.parent / "whole"
    with started(*words, "--out", killed) as running:
        wait_for_episodes(killed, 3)
        running.kill()
        assert running.wait() == -signal.SIGKILL
    done = len(load_summaries(killed))
    assert 3 <= done < 40
    before = {path.name: path.stat().st_mtime_ns for path in (killed / "summaries").glob("[!.]*")}
    resumed = cowork(*words, "--out", killed, "--json").json
    assert {name: (killed / "summaries" / name).stat().st_mtime_ns for name in before} == before
    fresh = cowork(*words, "--out", whole, "--json").json
    assert {name: data for name, data in episodes(killed).items() if name[0] != "."} == episodes(whole)
    for one in (*resumed["agents"], *fresh["agents"]):
        one["effort"].pop("wall_seconds")
    assert resumed == fresh


@pytest.mark.skipif(os.name != "posix", reason="other systems have no SIGINT for other processes")
def test_ctrl_c_stops_a_run_and_keeps_what_is_done(mine: Path) -> None:
    run = mine.parent / "run"
    with started("run", mine, "--agent", "oracle", "--trials", 500, "--out", run) as running:
        wait_for_episodes(run, 2)
        running.send_signal(signal.SIGINT)
        _, said = running.communicate()
    assert running.returncode == 130
    assert "Traceback" not in said
    assert said.endswith("stopped\n")
    assert 2 <= len(load_summaries(run)) < 1000


@pytest.mark.skipif(os.name != "posix", reason="other systems have no SIGINT for other processes")
def test_ctrl_c_stops_a_synthesis_that_has_written_nothing(tmp_path: Path) -> None:
    with started("synth", "--count", 5000, "--out", tmp_path / "pack") as running:
        while not (tmp_path / "pack").exists():
            time.sleep(0.005)
        running.send_signal(signal.SIGINT)
        _, said = running.communicate()
    assert running.returncode == 130
    assert "Traceback" not in said
    assert files_below(tmp_path) == []
