"""Many episodes at once in one process do not notice each other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import anyio

from harness.agents.base import AgentTurn, Briefing, Session
from harness.agents.scripted import ScriptedAgent, oracle
from harness.environment import Environment
from harness.episode import run_episode
from harness.messages import Message
from harness.trajectory import Trajectory
from synth.families import FAMILIES

EPISODES = 200


@dataclass
class Crowd:
    """Lets an agent's sessions act in turn, and writes down who acted when."""

    inner: ScriptedAgent
    acts: list[int]
    name: str = "oracle"

    async def begin(self, briefing: Briefing) -> Session:
        return InTurn(self, await self.inner.begin(briefing), briefing.seed)

    async def close(self) -> None:
        """Nothing to free."""


@dataclass
class InTurn:
    """A session that lets everybody else act before it goes on."""

    crowd: Crowd
    inner: Session
    number: int

    async def act(self, news: Sequence[Message]) -> AgentTurn:
        self.crowd.acts.append(self.number)
        await anyio.lowlevel.checkpoint()
        return await self.inner.act(news)

    def record(self) -> dict[str, int]:
        return {}


async def all_at_once(environments: Sequence[Environment], acts: list[int]) -> list[Trajectory]:
    """Episode number n plays environment n, counted around."""
    crowd = Crowd(oracle(), acts)
    done: dict[int, Trajectory] = {}

    async def one(number: int) -> None:
        environment = environments[number % len(environments)]
        done[number] = await run_episode(environment, crowd, seed=number)

    async with anyio.create_task_group() as group:
        for number in range(EPISODES):
            group.start_soon(one, number)
    return [done[number] for number in range(EPISODES)]


def test_two_hundred_episodes_at_once_end_as_they_would_alone() -> None:
    # Two seeds of every family: some episodes share an image, others only the process.
    environments = [family.make(seed, family.levels) for family in FAMILIES for seed in ("one", "two")]
    alone = [anyio.run(run_episode, environment, oracle()) for environment in environments]
    acts: list[int] = []
    together = anyio.run(all_at_once, environments, acts)
    for number, trajectory in enumerate(together):
        expected = alone[number % len(alone)]
        assert trajectory.state == expected.state
        assert trajectory.journal == expected.journal
        assert trajectory.messages == expected.messages
        assert trajectory.score == expected.score
    assert len({trajectory.state for trajectory in alone}) == len(environments)
    first = [position for position, number in enumerate(acts) if number == 0]
    others = {number for number in acts[first[0] : first[-1]] if number != 0}
    assert len(others) == EPISODES - 1, "everybody was at work between the first and the last act of episode 0"
