"""How good is a student right now: episodes on held-out environments with the weights as they are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import anyio
from transformers import PreTrainedModel

from harness.environment import Environment
from harness.episode import run_episode
from harness.trajectory import Trajectory
from training.agent import Sampling, StudentAgent
from training.chat import ChatFormat
from training.engine_transformers import TransformersEngine

TOGETHER = 8
"""Episodes at once; what one model in this process serves best."""


@dataclass(frozen=True, slots=True)
class Evaluation:
    """What came of it."""

    trajectories: tuple[Trajectory, ...]

    @property
    def scored(self) -> list[Trajectory]:
        """The episodes that count; those in which something of ours broke do not."""
        return [one for one in self.trajectories if one.score is not None]

    @property
    def score(self) -> float:
        """Mean total score."""
        return sum(one.score.total for one in self.scored if one.score) / max(len(self.scored), 1)

    @property
    def passed(self) -> float:
        """Share of episodes in which every check held."""
        return sum(one.score.passed for one in self.scored if one.score) / max(len(self.scored), 1)

    @property
    def acted(self) -> float:
        """Share of episodes with at least one tool call that was not refused: learned before anything is solved."""
        return sum(any(entry.error is None and entry.actor == "agent" for entry in one.journal) for one in self.scored) / max(
            len(self.scored), 1
        )


def evaluate(
    model: PreTrainedModel, chat: ChatFormat, environments: Sequence[Environment], *, sampling: Sampling, seed: int = 0
) -> Evaluation:
    """Play every environment once with the model's present weights; blocks until all are done."""
    return anyio.run(_evaluate, model, chat, environments, sampling, seed)


async def _evaluate(
    model: PreTrainedModel, chat: ChatFormat, environments: Sequence[Environment], sampling: Sampling, seed: int
) -> Evaluation:
    engine = TransformersEngine(model, slots=TOGETHER)
    found: list[Trajectory | None] = [None] * len(environments)
    limiter = anyio.CapacityLimiter(TOGETHER)
    async with engine.serving(), anyio.create_task_group() as tasks:
        agent = StudentAgent("student", engine, chat, sampling)

        async def play(index: int) -> None:
            async with limiter:
                found[index] = await run_episode(environments[index], agent, seed=seed + index)

        for index in range(len(environments)):
            tasks.start_soon(play, index)
    return Evaluation(tuple(one for one in found if one is not None))
