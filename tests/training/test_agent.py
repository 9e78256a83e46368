"""A student plays whole episodes, and what a trajectory keeps of it is what it sampled."""

from __future__ import annotations

import json

import pytest

from harness import runs
from harness.agents.scripted import oracle
from harness.episode import messages_of, run_episode
from tests.training.students import Busy, Recorder, Script, routing, saved_student, tiny_model, tiny_tokenizer
from training.agent import LocalAgent, Sampling, StudentAgent, local_agent
from training.chat import ChatML
from training.engine import Generated
from training.engine_transformers import TransformersEngine
from training.errors import EngineUnavailableError, ModelFetchError
from training.ledger import TokenLedger

pytestmark = pytest.mark.anyio
TOKENIZER = tiny_tokenizer()
CHAT = ChatML(TOKENIZER)
ENVIRONMENT = routing(1)[0]
ROOMY = Sampling(new_tokens=200, context=4000)


def said(text: str, finish: str = "stop") -> Generated:
    ids = TOKENIZER.encode(text, add_special_tokens=False) + (list(CHAT.stop_ids) if finish == "stop" else [])
    return Generated(tuple(ids), tuple(-0.1 * n for n in range(len(ids))), finish)


async def solution() -> list[Generated]:
    trajectory = await run_episode(ENVIRONMENT, oracle())
    turns = [CHAT.assistant(message) for message in messages_of(trajectory) if message.role == "assistant"]
    return [Generated(tuple(ids), (-0.5,) * len(ids), "stop") for ids in turns]


async def play(turns, sampling=ROOMY):
    engine = Script(list(turns))
    return engine, await run_episode(ENVIRONMENT, StudentAgent("student", engine, CHAT, sampling))


def ledger(trajectory) -> TokenLedger:
    return TokenLedger.from_json(json.dumps(trajectory.extra["ledger"]))


async def test_a_student_that_samples_the_right_words_solves_its_task():
    turns = await solution()
    engine, trajectory = await play(turns)
    assert trajectory.score is not None
    assert trajectory.score.passed
    kept = ledger(trajectory)
    assert [asked.context for asked in engine.asked] == [kept.ids[: span.start] for span in kept.turns]
    assert trajectory.usage["completion_tokens"] == sum(len(turn.ids) for turn in turns)


async def test_a_trajectory_keeps_ids_and_probabilities_as_they_were_sampled():
    turns = [said('<tool_call>{"name":"desk_list"}</tool_call>'), said("I cannot find  it")]
    engine, trajectory = await play(turns)
    kept = ledger(trajectory)
    assert [kept.ids[span.start : span.end] for span in kept.turns] == [asked.given.ids for asked in engine.asked]
    row = kept.to_rollout()
    sampled = [p for p, mine in zip(row.logprobs, row.env_mask, strict=True) if mine]
    assert sampled == [p for asked in engine.asked for p in asked.given.logprobs]


async def test_a_call_that_cannot_be_read_is_answered_and_the_episode_goes_on():
    _, trajectory = await play([said("<tool_call>{oops</tool_call>"), *await solution()])
    assert trajectory.messages[3].is_error
    assert trajectory.score is not None
    assert trajectory.score.passed


async def test_a_turn_that_was_cut_off_is_closed_by_what_comes_next():
    engine, trajectory = await play([said('<tool_call>{"name":"desk', finish="length"), *await solution()])
    (stop,) = CHAT.stop_ids
    span = ledger(trajectory).turns[0]
    assert span.finish == "length"
    assert engine.asked[1].context[span.end] == stop
    assert ledger(trajectory).mask[span.end] == 0


async def test_a_student_that_runs_out_of_context_has_failed_and_is_scored():
    needed = len(ledger((await play(await solution()))[1]).ids)
    _, trajectory = await play(await solution(), Sampling(new_tokens=200, context=needed - 60))
    assert trajectory.status == "failed"
    assert "context budget" in trajectory.reason
    assert f"of {needed - 60} are left" in trajectory.reason
    assert trajectory.score is not None
    assert ledger(trajectory).turns


async def test_a_prompt_that_does_not_fit_fails_before_anything_is_sampled():
    engine, trajectory = await play([], Sampling(context=50))
    assert (trajectory.status, engine.asked) == ("failed", [])
    assert "context budget" in trajectory.reason


async def test_a_turn_gets_no_more_room_than_the_context_has_left():
    needed = len(ledger((await play(await solution()))[1]).ids)
    engine, _ = await play(await solution(), Sampling(new_tokens=200, context=needed))
    assert [asked.room for asked in engine.asked] == [min(200, needed - len(asked.context)) for asked in engine.asked]


async def test_an_engine_that_is_down_is_not_the_students_failure():
    turns = await solution()
    _, trajectory = await play([turns[0], EngineUnavailableError("nobody answers at http://gpu:8000")])
    assert (trajectory.status, trajectory.score) == ("infra", None)
    assert "nobody answers at http://gpu:8000" in trajectory.reason
    assert len(ledger(trajectory).turns) == 1


async def test_tokens_without_a_probability_are_not_the_students_failure():
    _, trajectory = await play([Generated((5, 6), (-0.5, float("nan")), "length")])
    assert (trajectory.status, trajectory.score) == ("infra", None)


async def test_a_real_model_plays_many_turns_and_repeats_itself_from_its_seed():
    async def episode(seed: int):
        engine = TransformersEngine(tiny_model(context=2048))
        async with engine.serving():
            recorder = Recorder(engine)
            student = StudentAgent("student", recorder, Busy(TOKENIZER), Sampling(1.0, 12, 2048))
            trajectory = await run_episode(ENVIRONMENT, student, seed=seed)
            whole = list(ledger(trajectory).ids)
            dense = [engine.score(whole[: s.end], start=s.start) for s in ledger(trajectory).turns]
        return recorder, trajectory, dense

    recorder, trajectory, dense = await episode(1)
    assert [message.role for message in trajectory.messages].count("tool") == Busy.calls
    assert len(recorder.asked) == Busy.calls + 1
    for asked, expected in zip(recorder.asked, dense, strict=True):
        assert asked.given.logprobs == pytest.approx(expected, abs=1e-4)
    assert len({asked.seed for asked in recorder.asked}) == len(recorder.asked)
    assert (await episode(1))[1] == trajectory
    assert (await episode(2))[1].extra != trajectory.extra


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return saved_student(tmp_path_factory.mktemp("students") / "tiny", context=1024)


async def test_a_student_from_a_folder_plays_many_episodes_at_once_and_is_let_go(folder, tmp_path):
    agent = LocalAgent("local:tiny", folder, Sampling(new_tokens=8, context=4000))
    await runs.run(routing(3), [agent], tmp_path / "run", trials=4, concurrency=12)
    summaries = runs.load_summaries(tmp_path / "run")
    assert len(summaries) == 12
    assert {summary.status for summary in summaries} <= {"done", "failed"}
    assert agent._student is None
    assert agent._owner is None


async def test_a_student_from_a_folder_never_outgrows_its_model(folder):
    agent = LocalAgent("local:tiny", folder, Sampling(new_tokens=8, context=4000))
    trajectory = await run_episode(ENVIRONMENT, agent)
    await agent.close()
    assert trajectory.extra["ledger"]["limit"] == 1024


async def test_a_student_that_was_never_asked_can_be_closed(folder):
    await local_agent("local:tiny", folder).close()


def test_a_folder_without_a_model_is_refused_before_a_run_starts(tmp_path):
    with pytest.raises(ModelFetchError, match=r"no model at .*coworkenv train fetch-model"):
        local_agent("local:nowhere", tmp_path / "nowhere")


async def test_a_damaged_model_voids_the_episode_and_says_why(tmp_path):
    folder = saved_student(tmp_path / "tiny")
    (folder / "model.safetensors").write_bytes(b"not weights")
    agent = local_agent("local:tiny", folder)
    trajectory = await run_episode(ENVIRONMENT, agent)
    await agent.close()
    assert (trajectory.status, trajectory.score) == ("infra", None)
    assert "cannot be opened" in trajectory.reason
