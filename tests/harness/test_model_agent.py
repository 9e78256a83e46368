"""The model agent, through litellm, against a real server on the loopback."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import anyio
import pytest

from harness.agents.limiter import Limiter
from harness.agents.model import ModelAgent
from harness.environment import Environment
from harness.episode import run_episode
from harness.trajectory import Trajectory
from synth.families.ticket_routing import TICKET_ROUTING
from tests.harness.model_server import (
    ModelServer,
    Said,
    answer,
    calls,
    free_port,
    refusal,
    roles,
    serving,
    words,
)

KEY = "sk-test-0123456789abcdef"


@pytest.fixture(scope="module")
def server() -> Iterator[ModelServer]:
    with serving() as running:
        yield running


@pytest.fixture(scope="module")
def environment() -> Environment:
    return TICKET_ROUTING.make("model-agent", 2)


class Pauses:
    """Time that passes only when somebody sleeps."""

    def __init__(self) -> None:
        self.now = 0.0
        self.slept: list[float] = []

    def clock(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds
        await anyio.lowlevel.checkpoint()


def play(
    environment: Environment, address: str, pauses: Pauses | None = None, **settings: Any
) -> Trajectory:
    pauses = pauses or Pauses()

    async def episode() -> Trajectory:
        agent = ModelAgent(
            "model", "openai/m", api_base=address, api_key=KEY, clock=pauses.clock, sleep=pauses.sleep, **settings
        )
        try:
            return await run_episode(environment, agent, seed=7)
        finally:
            await agent.close()

    return anyio.run(episode)


def solution(environment: Environment) -> list[Said]:
    return [
        words(step.say) if step.call is None else calls((step.call, step.arguments)) for step in environment.oracle
    ]


def test_a_model_that_says_the_right_things_solves_an_environment(
    server: ModelServer, environment: Environment
) -> None:
    server.says(*solution(environment))
    trajectory = play(environment, server.address, temperature=0.5, max_tokens=300)
    assert trajectory.status == "done"
    assert trajectory.score is not None
    assert trajectory.score.passed
    assert trajectory.usage == {"prompt_tokens": 300, "completion_tokens": 30, "cost": 0}
    first, second, third = server.requests
    assert roles(first["messages"]) == ["system", "user"]
    assert roles(third["messages"]) == ["system", "user", "assistant", "tool", "assistant", "tool"]
    assert third["messages"][3]["tool_call_id"] == second["messages"][2]["tool_calls"][0]["id"]
    assert (first["temperature"], first["max_tokens"], first["seed"]) == (0.5, 300, 7)
