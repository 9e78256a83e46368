"""A whole episode: who ends it and why, what is scored, what everybody is told."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from threading import Event
from typing import Any

import anyio
import pytest

from harness.agents.base import Agent, AgentTurn, Briefing, NoRecord, Session
from harness.agents.scripted import ScriptedAgent, claim, noop, oracle, read_only
from harness.checks import CompiledChecks
from harness.environment import Environment, Step
from harness.episode import Limits, run_episode
from harness.errors import EpisodeFault
from harness.messages import Message, ToolCall
from harness.outcome import Outcome
from harness.trajectory import Trajectory
from servers.errors import SpecError
from synth.families import FAMILIES
from tests.harness.notebook_case import IMAGE, around
from tests.servers.notebook import notebook
from tests.support import OMAR

TICK = {"call": "notes_edit", "arguments": {"note_id": "a", "done": True}}


def play(environment: Environment, agent: Agent, **limits: float) -> Trajectory:
    async def episode() -> Trajectory:
        return await run_episode(environment, agent, limits=Limits(**limits))

    return anyio.run(episode)


def script(*given: dict[str, Any]) -> ScriptedAgent:
    """An agent that plays these steps."""
    return ScriptedAgent("script", lambda _: [Step.model_validate(step) for step in given])


def total(trajectory: Trajectory) -> float:
    assert trajectory.score is not None, trajectory.reason
    return trajectory.score.total


def told(trajectory: Trajectory, text: str) -> int:
    """How often the agent read a text."""
    return sum(message.content.count(text) for message in trajectory.messages if message.role in ("tool", "user"))


@dataclass(slots=True)
class Acting(NoRecord):
    """An agent that does whatever ``perform`` does, message by message."""

    name: str = "acting"
    heard: list[Message] = field(default_factory=list[Message])

    async def begin(self, briefing: Briefing) -> Session:
        return self

    async def act(self, news: Sequence[Message]) -> AgentTurn:
        self.heard += news
        return await self.perform()

    async def perform(self) -> AgentTurn:
        raise NotImplementedError


class Silent(Acting):
    """Never answers."""

    async def perform(self) -> AgentTurn:
        await anyio.sleep_forever()
        raise AssertionError


class Raising(Acting):
    """Breaks."""

    error: Exception = RuntimeError("lost my way")

    async def perform(self) -> AgentTurn:
        raise self.error


@pytest.mark.parametrize("seed", ["1", "2", "3"])
@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_the_oracle_scores_1_and_who_does_nothing_0(family: Any, seed: str) -> None:
    for level in range(1, family.levels + 1):
        environment = family.make(seed, level)
        best = play(environment, oracle())
        assert (best.status, total(best), best.truncated) == ("done", 1, False)
        assert best.score is not None
        assert best.score.passed
        for idle in (noop(), claim(), read_only()):
            trajectory = play(environment, idle)
            assert trajectory.status == "done"
            assert trajectory.score is not None
            assert trajectory.score.model_dump(exclude={"gate"}) == {
                "total": 0,
                "completion": 0,
                "constraint": 0,
                "communication": 0,
                "robustness": 0,
                "efficiency": 0,
                "passed": False,
            }


def test_the_agent_reads_the_system_message_the_request_and_then_only_news() -> None:
    class Listening(Acting):
        async def perform(self) -> AgentTurn:
            if len(self.heard) == 2:
                call = ToolCall("1", "notes_show", {"note_id": "a"})
                return AgentTurn(Message("assistant", "", (call,)))
            return AgentTurn(Message("assistant", "Fine."))

    agent = Listening()
    trajectory = play(around(IMAGE, rules=["Be kind."]), agent)
    assert [message.role for message in agent.heard] == ["system", "user", "tool"]
    assert "Nora Lind" in agent.heard[0].content
    assert "- Be kind." in agent.heard[0].content
    assert agent.heard[1].content == "Tick off note a."
    assert '"alpha"' in agent.heard[2].content
    assert [message.role for message in trajectory.messages] == ["system", "user", "assistant", "tool", "assistant"]


def test_the_agent_sees_its_tools_and_no_others() -> None:
    environment = around(IMAGE, tools=["notes_show", "notes_edit"])
    trajectory = play(environment, script({"call": "notes_drop", "arguments": {"note_id": "a"}}, {"say": "Gone."}))
    assert [tool["name"] for tool in trajectory.tools] == ["notes_edit", "notes_show"]
    assert trajectory.messages[3].is_error
    assert "there is no tool 'notes_drop'" in trajectory.messages[3].content
    assert trajectory.journal[0].error is not None


def test_a_budget_of_messages_cuts_the_episode() -> None:
    environment = around(IMAGE, budget={"steps": 2})
    show = {"call": "notes_show", "arguments": {"note_id": "b"}}
    trajectory = play(environment, script(TICK, show, show, {"say": "Done."}))
    assert (trajectory.status, trajectory.reason, trajectory.truncated) == ("done", "max_steps", True)
    assert total(trajectory) == 1
    assert len(trajectory.journal) == 2


def test_a_budget_of_turns_cuts_the_episode() -> None:
    facts = [{"id": "colour", "text": "Blue.", "topics": ["colour"]}]
    environment = around(IMAGE, budget={"turns": 2}, user={"facts": facts})
    ask = {"say": "Which colour?"}
    trajectory = play(environment, script(ask, ask, ask, TICK))
    assert (trajectory.status, trajectory.reason, trajectory.truncated) == ("done", "max_turns", True)
    assert total(trajectory) == 0


def test_a_message_that_does_not_come_is_infra_and_not_scored() -> None:
    trajectory = play(around(IMAGE), Silent(), message=0.02)
    assert (trajectory.status, trajectory.score) == ("infra", None)
    assert "no message within 0.02 s" in trajectory.reason


def test_at_the_deadline_the_episode_is_cut_and_graded_as_it_stands() -> None:
    class Stuck(Acting):
        async def perform(self) -> AgentTurn:
            if len(self.heard) == 2:
                call = ToolCall("1", "notes_edit", {"note_id": "a", "done": True})
                return AgentTurn(Message("assistant", "", (call,)))
            await anyio.sleep_forever()
            raise AssertionError

    trajectory = play(around(IMAGE), Stuck(), episode=0.5)
    assert (trajectory.status, trajectory.reason, trajectory.truncated) == ("done", "deadline", True)
    assert total(trajectory) == 1


def test_time_in_a_queue_does_not_count_towards_the_deadline() -> None:
    deadlines: list[float] = []

    class Queued(Acting):
        async def perform(self) -> AgentTurn:
            deadlines.append(anyio.current_effective_deadline())
            call = ToolCall(str(len(deadlines)), "notes_show", {"note_id": "a"})
            return AgentTurn(Message("assistant", "", (call,)), queued=7, finished=len(deadlines) == 3)

    assert play(around(IMAGE), Queued(), episode=100, message=10_000).reason == "agent_stop"
    assert [round(later - deadlines[0], 6) for later in deadlines] == [0, 7, 14]


def test_an_agent_that_breaks_has_failed_and_is_scored() -> None:
    trajectory = play(around(IMAGE), Raising())
    assert (trajectory.status, trajectory.reason) == ("failed", "agent: RuntimeError: lost my way")
    assert total(trajectory) == 0


def test_a_script_whose_reference_leads_nowhere_has_failed() -> None:
    trajectory = play(around(IMAGE), script({"call": "notes_show", "arguments": {"note_id": "$x.id"}}))
    assert trajectory.status == "failed"
    assert "$x.id" in trajectory.reason


@pytest.mark.parametrize("status", ["infra", "invalid", "failed"])
def test_an_agent_says_itself_whose_fault_it_was(status: Any) -> None:
    agent = Raising()
    agent.error = EpisodeFault(status, "provider", "down")
    trajectory = play(around(IMAGE), agent)
    assert (trajectory.status, trajectory.reason) == (status, "provider: down")
    assert (trajectory.score is None) == (status != "failed")


def test_an_agent_that_cannot_begin_has_failed() -> None:
    class Unready(Acting):
        async def begin(self, briefing: Briefing) -> Session:
            raise OSError("no weights")

    assert play(around(IMAGE), Unready()).reason == "agent: OSError: no weights"


def test_a_tool_that_breaks_voids_the_episode() -> None:
    crash = {"call": "notes_crash", "arguments": {"note_id": "a"}}
    trajectory = play(around(IMAGE), script(TICK, crash, {"say": "Done."}))
    assert (trajectory.status, trajectory.score) == ("invalid", None)
    assert "notes_crash broke" in trajectory.reason
    assert "out of ink" in trajectory.reason
    assert [entry.tool for entry in trajectory.journal] == ["notes_edit"]


@pytest.mark.parametrize("moment", [{"after": "10s"}, {"after_turn": 1}, {"after_call": {"tool": "notes_edit"}}])
def test_an_event_whose_tool_breaks_voids_the_episode(moment: dict[str, Any]) -> None:
    event = {"id": "e", "when": moment, "do": [{"by": OMAR, "tool": "notes_crash", "arguments": {"note_id": "b"}}]}
    trajectory = play(around(notebook(event)), script(TICK, {"say": "Done."}))
    assert (trajectory.status, trajectory.score) == ("invalid", None)
    assert "out of ink" in trajectory.reason


def test_a_grader_that_breaks_voids_the_episode() -> None:
    def broken(outcome: Outcome) -> str | None:
        raise LookupError("cannot tell")

    environment = around(IMAGE)
    environment.__dict__["compiled_checks"] = CompiledChecks(((environment.checks[0], broken),))
    trajectory = play(environment, oracle())
    assert (trajectory.status, trajectory.score) == ("invalid", None)
    assert trajectory.reason == "grader: done: LookupError: cannot tell"
    assert trajectory.checks[0].verdict == "ERROR"


def test_a_grader_that_takes_too_long_voids_the_episode() -> None:
    finish = Event()

    def slow(outcome: Outcome) -> str | None:
        finish.wait(10)
        return None

    environment = around(IMAGE)
    environment.__dict__["compiled_checks"] = CompiledChecks(((environment.checks[0], slow),))
    trajectory = play(environment, oracle(), grade=0.02)
    finish.set()
    assert (trajectory.status, trajectory.score) == ("invalid", None)
    assert "no grade within 0.02 s" in trajectory.reason


def test_an_environment_that_does_not_fit_together_is_refused_before_anything_happens() -> None:
    with pytest.raises(SpecError, match="no tool 'notes_shwo'"):
        play(around(IMAGE, tools=["notes_shwo"]), oracle())


LATE = {
    "id": "late",
    "when": {"after_call": {"tool": "notes_show"}, "delay": "1m"},
    "do": [{"by": OMAR, "tool": "notes_edit", "arguments": {"note_id": "c", "text": "Omar's"}}],
}
SHOW = {"call": "notes_show", "arguments": {"note_id": "c"}}
WAIT = {"call": "workplace_wait", "arguments": {"minutes": 5}}


def test_a_silent_event_happens_without_a_notice() -> None:
    environment = around(notebook(LATE))
    trajectory = play(environment, script(SHOW, WAIT, SHOW, {"say": "Done."}))
    assert "Omar's" in trajectory.messages[7].content
    assert told(trajectory, "[notice]") == 0
    assert trajectory.messages[5].content.count('"notices":[]') == 1
    [event] = [entry for entry in trajectory.journal if entry.event == "late"]
    assert (event.person, event.actor, event.changes[0].key) == (OMAR, "coworker", "c")


@pytest.mark.parametrize("behind_results", [True, False])
@pytest.mark.parametrize("pull", [True, False])
@pytest.mark.parametrize("answer", [True, False])
def test_a_loud_event_is_told_exactly_once(behind_results: bool, pull: bool, answer: bool) -> None:
    image = notebook({**LATE, "notice": "Omar wrote in c."})
    facts = [{"id": "colour", "text": "Blue.", "topics": ["colour"]}]
    environment = around(image, notices=behind_results, user={"facts": facts}, budget={"think": "40s"})
    first = [SHOW, SHOW] + ([WAIT] if pull else []) + ([{"say": "Which colour?"}] if answer else [])
    trajectory = play(environment, script(*first, SHOW, WAIT, {"say": "Done."}))
    assert told(trajectory, "Omar wrote in c.") == 1


def test_a_notice_behind_a_result_does_not_hide_the_result_from_a_script() -> None:
    image = notebook({**LATE, "when": {"after_call": {"tool": "notes_fresh"}}, "notice": "Omar wrote in c."})
    fresh = {"call": "notes_fresh", "bind": "new"}
    edit = {"call": "notes_edit", "arguments": {"note_id": "$new.note_id", "text": "mine"}}
    trajectory = play(around(image), script(fresh, edit, TICK, {"say": "Done."}))
    assert "[notice] Omar wrote in c." in trajectory.messages[3].content
    assert (trajectory.status, trajectory.journal[-2].error) == ("done", None)
    assert total(trajectory) == 1


def test_a_correction_of_the_user_reaches_the_agent() -> None:
    environment = around(IMAGE, user={"corrections": [{"turn": 1, "text": "Not a, I meant b."}]})
    trajectory = play(environment, script({"say": "Shall I?"}, TICK, {"say": "Done."}))
    assert trajectory.messages[3].role == "user"
    assert trajectory.messages[3].content == "Not a, I meant b."
    assert trajectory.reason == "user_stop"


@pytest.mark.parametrize("asks_first", [True, False])
def test_what_the_user_told_and_when_is_known_to_the_checks(asks_first: bool) -> None:
    facts = [{"id": "colour", "text": "Blue.", "topics": ["colour"]}]
    asked = {"kind": "asked", "id": "asked", "fact": "colour", "before": {"tool": "notes_edit"}, "guard": True}
    environment = around(IMAGE, user={"facts": facts}, checks=[*around(IMAGE).dump()["checks"], asked])
    question = {"say": "Which colour?"}
    played = [question, TICK] if asks_first else [TICK, question]
    trajectory = play(environment, script(*played, {"say": "Done."}))
    assert total(trajectory) == (1 if asks_first else 0)
    assert told(trajectory, "Blue.") == 1


def test_a_call_that_could_not_be_read_is_answered_and_not_made() -> None:
    class Garbled(Acting):
        async def perform(self) -> AgentTurn:
            if len(self.heard) == 2:
                return AgentTurn(Message("assistant", "", (ToolCall("1", "notes_drop", {}, problem="no JSON"),)))
            return AgentTurn(Message("assistant", "Sorry."))

    agent = Garbled()
    trajectory = play(around(IMAGE), agent)
    assert (agent.heard[2].content, agent.heard[2].is_error) == ("no JSON", True)
    assert trajectory.journal == []


def test_simulated_time_moves_with_every_message_and_call() -> None:
    trajectory = play(around(IMAGE, budget={"think": "20s"}), script(TICK, {"say": "Done."}))
    times = [message.at for message in trajectory.messages]
    assert times[:3] == ["2026-03-02T08:00:00Z"] * 3
    assert times[3] == "2026-03-02T08:00:21Z"


def test_a_trajectory_is_written_down_and_read_back() -> None:
    trajectory = play(FAMILIES[0].make("1", 1), oracle())
    assert Trajectory.model_validate_json(trajectory.model_dump_json(by_alias=True)) == trajectory
