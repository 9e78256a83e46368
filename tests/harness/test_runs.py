from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness import runs
from harness.agents.base import Agent
from harness.agents.scripted import ScriptedAgent, noop, oracle
from harness.environment import Environment, Step
from harness.episode import Limits
from harness.files import StorageError
from harness.replay import ReplayError, grade_run, replay
from harness.rundir import RunDirectory, Summary, episode_key, one_file_each
from servers.errors import InUse, SpecError
from tests.harness.mailroom import Moody, broken_user, mailroom, provider_down, says

ROOT = Path(__file__).parents[2]
THREE = [mailroom(f"mailroom-{number}") for number in range(3)]

# Runs in a process of its own, which some tests kill. ``before`` is what it does first.
RUN = """
import anyio, os, signal, sys
from pathlib import Path
from harness import files, runs
from harness.agents.scripted import noop, oracle
from tests.harness.mailroom import mailroom
def die(): os.kill(os.getpid(), signal.SIGKILL)
progress = None
{before}
environments = [mailroom(f"mailroom-{{number}}") for number in range(3)]
async def main():
    await runs.run(environments, [oracle(), noop()], Path(sys.argv[1]), trials=2, concurrency=4, on_progress=progress)
anyio.run(main)
"""
KILLED_BETWEEN_EPISODES = """
def progress(done, total, last):
    if done == 5: die()
"""
KILLED_INSIDE_A_WRITE = """
real = os.fsync
def fsync(descriptor):
    # Writes of several episodes interleave: what is certain is only how many have ended.
    if len(list(Path(sys.argv[1]).glob("summaries/*.json"))) >= 3: die()
    real(descriptor)
files.os.fsync = fsync
"""


def run_in_a_process(directory: Path, before: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", RUN.format(before=before), str(directory)]
    environment = {**os.environ, "PYTHONHASHSEED": "1", "PYTHONPATH": str(ROOT)}
    return subprocess.run(  # noqa: S603
        command, capture_output=True, encoding="utf-8", check=False, cwd=ROOT, timeout=100, env=environment
    )


def play(
    directory: Path, agents: Sequence[Agent], environments: Sequence[Environment] = THREE, **options: Any
) -> runs.RunResult:
    async def main() -> runs.RunResult:
        return await runs.run(environments, agents, directory, **options)

    return anyio.run(main)


def content(directory: Path) -> dict[str, Any]:
    """All that must be the same whenever a run is played: every file, without real time."""
    found: dict[str, Any] = {}
    for path in sorted(directory.rglob("*.json")):
        name = str(path.relative_to(directory))
        found[name] = path.read_bytes()
        if name.startswith("summaries"):
            found[name] = json.loads(found[name]) | {"wall_seconds": None}
    return found


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What a run leaves that nothing disturbed."""
    directory = tmp_path_factory.mktemp("undisturbed")
    play(directory, [oracle(), noop()], trials=2)
    return content(directory)


def stems(directory: Path, folder: str) -> set[str]:
    return {path.stem for path in (directory / folder).iterdir() if not path.name.startswith(".")}


# ---------------------------------------------------------------- running and resuming


def test_a_run_keeps_a_record_and_a_summary_of_each_episode(tmp_path: Path) -> None:
    result = play(tmp_path / "run", [oracle(), noop()], trials=2)
    assert (result.played, result.kept, result.statuses) == (12, 0, {"done": 12})
    assert stems(tmp_path / "run", "episodes") == stems(tmp_path / "run", "summaries")
    best = RunDirectory(tmp_path / "run").trajectory("mailroom-1__oracle__1")
    assert (best.environment, best.agent, best.trial, best.score and best.score.passed) == (
        "mailroom-1",
        "oracle",
        1,
        True,
    )
    assert [s.passed for s in runs.load_summaries(tmp_path / "run")] == [False, False, True, True] * 3


def test_a_summary_tells_what_lists_need(tmp_path: Path) -> None:
    one = ScriptedAgent(
        "clumsy", lambda _: [Step(call="mail_get_message", arguments={"message_id": "?"}), Step(say="No.")]
    )
    (summary,) = play(tmp_path, [one], [mailroom(level=3)]).summaries
    assert (summary.family, summary.level, summary.reason) == ("answers", 3, "agent_stop")
    assert (summary.steps, summary.calls, summary.refused, summary.missed) == (3, 1, 1, ["draft"])


def test_the_same_command_again_plays_nothing_and_changes_nothing(tmp_path: Path) -> None:
    play(tmp_path, [oracle()])
    before = {path: path.read_bytes() for path in tmp_path.rglob("*.json")}
    again = play(tmp_path, [oracle()])
    assert (again.played, again.kept) == (0, 3)
    assert {path: path.read_bytes() for path in tmp_path.rglob("*.json")} == before


@pytest.mark.parametrize(
    "before", [KILLED_BETWEEN_EPISODES, KILLED_INSIDE_A_WRITE], ids=["between_episodes", "inside_a_write"]
)
def test_a_killed_run_resumes_to_what_an_undisturbed_one_leaves(
    tmp_path: Path, before: str, undisturbed: dict[str, Any]
) -> None:
    killed = run_in_a_process(tmp_path / "killed", before)
    assert killed.returncode == -9, killed.stderr
    kept = len(runs.load_summaries(tmp_path / "killed"))
    assert 0 < kept < 12
    play(tmp_path / "killed", [oracle(), noop()], trials=2)
    assert content(tmp_path / "killed") == undisturbed


def test_a_record_without_its_summary_does_not_count(tmp_path: Path) -> None:
    play(tmp_path, [oracle()])
    (tmp_path / "summaries" / "mailroom-0__oracle__0.json").unlink()
    (tmp_path / "episodes" / "mailroom-1__oracle__0.json").unlink()
    assert play(tmp_path, [oracle()]).played == 2


def test_episodes_that_ended_for_outer_reasons_are_played_again(tmp_path: Path) -> None:
    first = play(tmp_path, [Moody([provider_down(), broken_user()])], concurrency=1)
    assert first.statuses == {"done": 1, "infra": 1, "invalid": 1}
    assert play(tmp_path, [Moody()]).statuses == {"done": 2, "invalid": 1}
    assert play(tmp_path, [Moody()]).played == 0
    assert play(tmp_path, [Moody()], retry_invalid=True).statuses == {"done": 3}


def test_a_study_grows_by_environments_agents_and_trials(tmp_path: Path) -> None:
    play(tmp_path, [oracle()], THREE[:1])
    assert play(tmp_path, [oracle(), noop()], THREE[:2], trials=2).kept == 1
    assert play(tmp_path, [noop()], THREE[2:]).played == 1
    manifest = RunDirectory(tmp_path).manifest()
    assert (sorted(manifest.agents), len(manifest.environments), manifest.trials) == (["noop", "oracle"], 3, 2)
    assert (manifest.planned, len(runs.load_summaries(tmp_path))) == (12, 9)


def test_as_many_episodes_as_allowed_run_at_once(tmp_path: Path) -> None:
    agent = Moody()
    play(tmp_path, [agent], trials=5, concurrency=4)
    assert agent.most == 4


def test_progress_counts_every_episode_that_is_there(tmp_path: Path) -> None:
    play(tmp_path, [oracle()], THREE[:1])
    told: list[tuple[int, int, Summary | None]] = []
    play(tmp_path, [oracle()], on_progress=lambda *news: told.append(news))
    assert [(done, total) for done, total, _ in told] == [(1, 3), (2, 3), (3, 3)]
    assert told[0][2] is None
    assert told[-1][2] is not None


# ---------------------------------------------------------------- seeds and names


def test_seeds_are_the_same_in_every_process_and_differ_between_episodes() -> None:
    assert runs.episode_seed(0, "mailroom", "oracle", 0) == 1850611592
    seeds = {runs.episode_seed(s, e, a, t) for s in range(3) for e in "ab" for a in "xy" for t in range(5)}
    assert len(seeds) == 60


@given(st.text(max_size=60), st.text(max_size=60))
def test_different_agents_never_share_a_file(first: str, second: str) -> None:
    keys = {episode_key("mailroom", name, 0) for name in (first, second)}
    assert len(keys) == len({first, second})
    assert all(len(key.encode()) < 60 and "/" not in key and "\\" not in key for key in keys)


def test_an_agent_may_be_called_like_a_model(tmp_path: Path) -> None:
    (summary,) = play(tmp_path, [says("openai/gpt-x:1", "Hello.")], THREE[:1]).summaries
    assert summary.agent == "openai/gpt-x:1"
    assert summary.key.startswith("mailroom-0__openai-gpt-x-1-")
    assert (tmp_path / "episodes" / f"{summary.key}.json").exists()


def test_names_that_differ_only_in_case_are_refused() -> None:
    with pytest.raises(SpecError, match="A__x__0 and a__x__0 would share one file"):
        one_file_each([episode_key("a", "x", 0), episode_key("A", "x", 0)])


# ---------------------------------------------------------------- what is refused


@dataclass(slots=True)
class Settled(Moody):
    """An agent with settings."""

    settings: Mapping[str, Any] = field(default_factory=dict[str, Any])


@pytest.mark.parametrize(
    ("agent", "environment", "options", "message"),
    [
        (noop(), mailroom(request="Something else."), {}, r"environments\.mailroom: digest \w{12} before, \w{12} now"),
        (noop(), mailroom(), {"seed": 7}, "seed: 0 before, 7 now"),
        (noop(), mailroom(), {"limits": Limits(episode=60)}, r"limits\.episode: 3600 s before, 60 s now"),
        (Settled(settings={"model": "b"}), mailroom(), {}, r"agents\.moody: model: 'a' before, 'b' now"),
    ],
)
def test_another_study_in_the_same_directory_is_refused(
    tmp_path: Path, agent: Agent, environment: Environment, options: dict[str, Any], message: str
) -> None:
    play(tmp_path, [noop(), Settled(settings={"model": "a"})], [mailroom()])
    before = content(tmp_path)
    with pytest.raises(SpecError, match=message) as refused:
        play(tmp_path, [agent], [environment, *THREE], **options)
    assert "Run into another directory" in str(refused.value)
    assert content(tmp_path) == before


def test_patience_with_a_provider_may_change_between_two_tries(tmp_path: Path) -> None:
    play(tmp_path, [Moody([provider_down()])], [mailroom()])
    assert play(tmp_path, [Moody()], [mailroom()], limits=Limits(message=1200)).statuses == {"done": 1}


def test_a_directory_of_something_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("important", encoding="utf-8")
    with pytest.raises(
        SpecError, match=r"no run, yet not empty either: thesis\.txt .*Choose a new or an empty directory"
    ):
        play(tmp_path, [noop()])
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]


def test_an_environment_that_does_not_fit_is_found_before_anything_is_played(tmp_path: Path) -> None:
    wrong = mailroom("wrong", services=[])
    with pytest.raises(SpecError, match="mail"):
        play(tmp_path / "run", [noop()], [*THREE, wrong])
    assert not (tmp_path / "run").exists()


def test_no_run_has_no_summaries(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match=r"there is no manifest\.json in it"):
        runs.load_summaries(tmp_path)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("summaries/mailroom-0__noop__0.json", '{"schema": ', "Delete it and run the same command again"),
        ("summaries/mailroom-0__noop__0.json", '{"schema": "coworkenv/summary/1"}', "environment: Field required"),
        ("summaries/notes.txt", "", "this file belongs to no run"),
        ("manifest.json", '{"schema": "coworkenv/run/9"}', "run into another directory"),
    ],
)
def test_broken_and_strange_files_are_named(tmp_path: Path, name: str, text: str, message: str) -> None:
    play(tmp_path, [noop()])
    (tmp_path / name).write_text(text, encoding="utf-8")
    for use in (lambda: runs.load_summaries(tmp_path), lambda: play(tmp_path, [noop()])):
        with pytest.raises(SpecError, match=f"(?i){message}") as broken:
            use()
        assert str(tmp_path / name) in str(broken.value)


def test_a_summary_under_the_name_of_another_episode_is_named(tmp_path: Path) -> None:
    play(tmp_path, [noop()])
    one, other = (tmp_path / "summaries" / f"mailroom-{number}__noop__0.json" for number in (0, 1))
    one.write_bytes(other.read_bytes())
    with pytest.raises(SpecError, match="this is the summary of mailroom-1__noop__0"):
        runs.load_summaries(tmp_path)


def test_unfinished_files_and_a_file_managers_droppings_are_no_part_of_a_run(tmp_path: Path) -> None:
    play(tmp_path, [noop()])
    for name in ("summaries/.tmp-0123", "episodes/.tmp-0123", "summaries/.DS_Store"):
        (tmp_path / name).write_text("{", encoding="utf-8")
    assert len(runs.load_summaries(tmp_path)) == 3


# ---------------------------------------------------------------- when things go wrong


def test_a_full_disk_stops_a_run_and_leaves_what_is_finished(tmp_path: Path, undisturbed: dict[str, Any]) -> None:
    # No file may grow beyond what a do-nothing episode needs, so records of the oracle do not fit.
    limit = max(len(text) for name, text in undisturbed.items() if name.startswith("episodes") and "noop" in name)
    before = f"import resource; resource.setrlimit(resource.RLIMIT_FSIZE, ({limit}, {limit}))"
    stopped = run_in_a_process(tmp_path / "run", before)
    assert stopped.returncode == 1
    assert "StorageError: cannot write" in stopped.stderr
    assert "free space and run the same command again" in stopped.stderr
    assert not list((tmp_path / "run").rglob(".tmp-*"))
    kept = runs.load_summaries(tmp_path / "run")
    assert {summary.agent for summary in kept} == {"noop"}
    play(tmp_path / "run", [oracle(), noop()], trials=2)
    assert content(tmp_path / "run") == undisturbed


def test_one_process_at_a_time_fills_a_directory(tmp_path: Path) -> None:
    with RunDirectory(tmp_path / "run").alone():
        refused = run_in_a_process(tmp_path / "run", "")
        with pytest.raises(InUse, match="another process fills this run"):
            play(tmp_path / "run", [noop()])
    assert refused.returncode == 1
    assert "InUse" in refused.stderr
    play(tmp_path / "run", [noop()])


def test_a_directory_that_cannot_be_made_is_a_storage_error(tmp_path: Path) -> None:
    play(tmp_path, [noop()], THREE[:1])
    shutil.rmtree(tmp_path / "episodes")
    (tmp_path / "episodes").write_text("", encoding="utf-8")
    agent = Moody()
    with pytest.raises(StorageError, match=r"cannot write .*episodes"):
        play(tmp_path, [agent])
    assert agent.closed == 1


def test_deleting_all_summaries_plays_everything_again(tmp_path: Path) -> None:
    play(tmp_path, [noop()])
    before = content(tmp_path)
    shutil.rmtree(tmp_path / "summaries")
    assert play(tmp_path, [noop()]).played == 3
    assert content(tmp_path) == before


def test_a_bug_stops_a_run_as_itself_and_closes_the_agents(tmp_path: Path) -> None:
    agent = Moody()

    def broken(done: int, total: int, last: Summary | None) -> None:
        if done == 2:
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        play(tmp_path, [agent], on_progress=broken, concurrency=1)
    assert agent.closed == 1
    assert len(runs.load_summaries(tmp_path)) == 2
    assert play(tmp_path, [Moody()]).kept == 2


def test_nothing_is_asked_of_nobody(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="trials and concurrency must be at least 1; got 0 and 64"):
        play(tmp_path, [noop()], trials=0)


# ---------------------------------------------------------------- replay


def words_then_nothing() -> ScriptedAgent:
    return says("talker", "Shall I?", "Then not.")


@pytest.fixture
def played(tmp_path: Path) -> Iterator[Path]:
    play(tmp_path / "run", [oracle(), noop(), Moody(), words_then_nothing()], THREE[:1])
    yield tmp_path / "run"


@pytest.mark.parametrize("agent", ["oracle", "noop", "moody", "talker"])
def test_a_replay_gives_the_same_bytes(played: Path, agent: str) -> None:
    recorded = RunDirectory(played).trajectory(f"mailroom-0__{agent}__0")
    assert anyio.run(replay, THREE[0], recorded) == recorded


def test_an_episode_that_was_cut_is_graded_as_it_stands(played: Path) -> None:
    whole = RunDirectory(played).trajectory("mailroom-0__oracle__0")
    end = len(whole.messages) - 3
    cut = whole.model_copy(
        update={
            "messages": whole.messages[:end],
            "state": whole.messages[end].state,
            "reason": "deadline",
            "truncated": True,
        }
    )
    again = anyio.run(replay, THREE[0], cut)
    assert (again.status, again.reason, again.truncated) == ("done", "deadline", True)
    assert again.score is not None
    assert again.score.total == 1.0


def test_a_replay_in_another_workplace_says_so(played: Path) -> None:
    recorded = RunDirectory(played).trajectory("mailroom-0__oracle__0")
    with pytest.raises(ReplayError, match=r"mailroom-0, oracle, trial 0: before message 3 .* not as it was"):
        anyio.run(replay, mailroom("mailroom-0", records={}), recorded)
    with pytest.raises(ReplayError, match="an episode of mailroom-0, not of mailroom-1"):
        anyio.run(replay, THREE[1], recorded)


def stricter() -> Environment:
    """The first environment with one more thing to do."""
    more = {"kind": "record", "id": "second", "type": "mail.draft", "count": {"min": 2}, "about": "Two drafts"}
    data = THREE[0].dump()
    return Environment.parse(data | {"checks": [*data["checks"], more]})


def grade_again(directory: Path, environment: Environment, *, write: bool = False) -> list[str]:
    async def main() -> list[str]:
        return [str(one) for one in await grade_run(directory, [environment], write=write) if one.differs]

    return anyio.run(main)


def test_changed_checks_are_applied_to_old_episodes(played: Path) -> None:
    before = content(played)
    assert grade_again(played, THREE[0]) == []
    lower = "mailroom-0__oracle__0: 1.00 before, 0.50, missed second now"
    assert lower in grade_again(played, stricter())
    assert content(played) == before


def test_new_grades_are_kept_on_demand_and_the_run_goes_on_with_them(played: Path) -> None:
    assert len(grade_again(played, stricter(), write=True)) == 4
    assert grade_again(played, stricter()) == []
    after = play(played, [oracle(), noop()], [stricter()], trials=2)
    assert (after.kept, after.played) == (2, 2)


def test_episodes_that_cannot_be_replayed_keep_their_grade(played: Path) -> None:
    before = content(played)
    problems = grade_again(played, mailroom("mailroom-0", records={}), write=True)
    assert any("before message 3" in problem for problem in problems)
    after = content(played)
    assert after["manifest.json"] == before["manifest.json"]
    assert after["episodes/mailroom-0__oracle__0.json"] == before["episodes/mailroom-0__oracle__0.json"]


def test_what_never_got_going_is_not_graded(tmp_path: Path) -> None:
    play(tmp_path, [Moody([provider_down()])], THREE[:1])
    assert grade_again(tmp_path, stricter(), write=True) == []
