"""Demonstrations and rollouts of one conversation are one and the same token sequence."""

from __future__ import annotations

import json

import anyio
import pytest

from harness.agents.scripted import noop, oracle
from harness.episode import messages_of, run_episode
from harness.messages import ToolSpec
from synth.families import FAMILIES
from tests.training.students import Script, routing, tiny_tokenizer
from training.agent import Sampling, StudentAgent
from training.chat import ChatML, spoken, tool_list
from training.demonstrations import check_fit, demonstrate, ledger_of
from training.engine import Generated
from training.errors import DemonstrationError, SettingsError
from training.ledger import IGNORED, TokenLedger

TOKENIZER = tiny_tokenizer()
CHAT = ChatML(TOKENIZER)
LONG = 100_000


@pytest.fixture(scope="module", params=FAMILIES, ids=lambda family: family.name)
def solved(request):
    environment = request.param.make("demonstrations", 1)
    return environment, anyio.run(run_episode, environment, oracle())


def rendered(trajectory) -> list[int]:
    """The whole conversation written at once, as the format would be explained to somebody."""
    system, *rest = messages_of(trajectory)
    tools = tool_list([ToolSpec(t["name"], t["description"], t["input_schema"]) for t in trajectory.tools])
    text = f"<|im_start|>system\n{system.content}\n\n{tools}<|im_end|>\n"
    for message in rest:
        said = TOKENIZER.decode(CHAT.assistant(message)[:-1]) if message.role == "assistant" else spoken(message)
        text += f"<|im_start|>{message.role}\n{said}<|im_end|>\n"
    # The newline after the last end-of-turn token is written before the next turn, and there is none.
    return TOKENIZER.encode(text.removesuffix("\n"), add_special_tokens=False)


def test_a_row_is_the_conversation_rendered_as_a_whole(solved):
    _, trajectory = solved
    assert ledger_of(trajectory, CHAT).to_sft().input_ids == rendered(trajectory)


def test_exactly_the_turns_of_the_assistant_are_learned(solved):
    _, trajectory = solved
    row = ledger_of(trajectory, CHAT).to_sft()
    learned = [label for label in row.labels if label != IGNORED]
    turns = [message for message in messages_of(trajectory) if message.role == "assistant"]
    assert learned == [token for turn in turns for token in CHAT.assistant(turn)]
    assert all(label in {IGNORED, token} for token, label in zip(row.input_ids, row.labels, strict=True))


def test_a_student_that_samples_what_the_oracle_said_lives_the_row_that_is_trained(solved):
    environment, trajectory = solved
    turns = [CHAT.assistant(message) for message in messages_of(trajectory) if message.role == "assistant"]
    engine = Script([Generated(tuple(ids), (-0.5,) * len(ids), "stop") for ids in turns])
    student = StudentAgent("student", engine, CHAT, Sampling(new_tokens=LONG, context=LONG))
    lived = anyio.run(run_episode, environment, student)
    assert lived.score == trajectory.score
    rollout = TokenLedger.from_json(json.dumps(lived.extra["ledger"])).to_rollout()
    demonstrated = ledger_of(trajectory, CHAT).to_sft()
    assert rollout.prompt_ids + rollout.completion_ids == demonstrated.input_ids
    mask = [0] * len(rollout.prompt_ids) + rollout.env_mask
    assert mask == [int(label != IGNORED) for label in demonstrated.labels]


def test_only_what_passed_becomes_a_row():
    environments = routing(3)
    rows = anyio.run(lambda: demonstrate(environments, CHAT, limit=LONG))
    assert len(rows) == 3
    with pytest.raises(DemonstrationError, match="noop passed none of 3 environments"):
        anyio.run(lambda: demonstrate(environments, CHAT, limit=LONG, teacher=noop()))


@pytest.mark.parametrize("check", [demonstrate, check_fit])
def test_what_does_not_fit_is_told_with_the_length_that_is_needed(check):
    environments = routing(4)
    rows = anyio.run(lambda: demonstrate(environments, CHAT, limit=LONG))
    lengths = sorted(len(row.input_ids) for row in rows)
    anyio.run(lambda: check(environments, CHAT, limit=lengths[-1]))
    with pytest.raises(SettingsError, match=rf"1 of 4 environments do not fit .* Use a context of {lengths[-1]}"):
        anyio.run(lambda: check(environments, CHAT, limit=lengths[-1] - 1))


def test_an_environment_without_an_oracle_fits_if_its_beginning_does():
    environment = routing(1)[0].model_copy(update={"oracle": []})
    anyio.run(lambda: check_fit([environment], CHAT, limit=LONG))
    with pytest.raises(SettingsError, match="do not fit into a context of 50 tokens"):
        anyio.run(lambda: check_fit([environment], CHAT, limit=50))


def test_a_trajectory_in_which_nobody_spoke_is_no_demonstration():
    environment = routing(1)[0].model_copy(update={"oracle": []})
    silent = anyio.run(run_episode, environment, oracle())
    with pytest.raises(DemonstrationError, match="never said anything"):
        ledger_of(silent, CHAT)
