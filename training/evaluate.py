"""How good is a student right now: episodes on held-out environments with the weights as they are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import anyio
from transformers import PreTrainedModel

from harness.environment import Environment
from harness.episode import run_episode
from harness.trajectory import ScoreRecord, Trajectory
from training.agent import Sampling, StudentAgent
from training.chat import ChatFormat
from training.engine_transformers import TransformersEngine
from training.errors import EngineError

TOGETHER = 16
"""Episodes at once: on a CPU, a step for 16 conversations takes hardly longer than one for 8."""


@dataclass(frozen=True, slots=True)
class Evaluation:
    """What came of it; means are over the episodes that count, and there is at least one.

    Raises:
        EngineError: No episode counts, because something of ours broke in each.
    """

    trajectories: tuple[Trajectory, ...]

    def __post_init__(self) -> None:
        if self.trajectories and not self.scores:
            first = self.trajectories[0].reason
            raise EngineError(f"none of {len(self.trajectories)} episodes could be scored; the first: {first}")

    @property
    def scores(self) -> list[ScoreRecord]:
        """Of the episodes that count; one in which something of ours broke does not."""
        return [one.score for one in self.trajectories if one.score is not None]

    @property
    def score(self) -> float:
        """Mean total score."""
        return sum(score.total for score in self.scores) / len(self.scores)

    @property
    def passed(self) -> float:
        """Share of episodes in which every check held."""
        return sum(score.passed for score in self.scores) / len(self.scores)

    @property
    def acted(self) -> float:
        """Share of episodes with a tool call that was not refused: learned before anything is solved."""
        acted = [
            any(entry.error is None and entry.actor == "agent" for entry in one.journal)
            for one in self.trajectories
            if one.score is not None
        ]
        return sum(acted) / len(acted)


def evaluate(
    model: PreTrainedModel,
    chat: ChatFormat,
    environments: Sequence[Environment],
    *,
    sampling: Sampling,
    seed: int = 0,
) -> Evaluation:
    """Play every environment once with the model's present weights; blocks until all are done.

    Raises:
        EngineError: The model cannot be served, or no episode could be scored.
    """

    async def play() -> Evaluation:
        engine = TransformersEngine(model, slots=TOGETHER)
        agent = StudentAgent("student", engine, chat, sampling)
        found: dict[int, Trajectory] = {}
        places = anyio.CapacityLimiter(TOGETHER)

        async def one(index: int) -> None:
            async with places:
                found[index] = await run_episode(environments[index], agent, seed=seed + index)

        async with engine.serving(), anyio.create_task_group() as tasks:
            for index in range(len(environments)):
                tasks.start_soon(one, index)
        return Evaluation(tuple(found[index] for index in range(len(environments))))

    return anyio.run(play)
