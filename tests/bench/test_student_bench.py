"""How much of a student's rollout passes outside the model: connecting, tool calls, the ledger, grading.

Needs the default student (``coworkenv train fetch-model``). Rollouts run one at a time, so that nothing outside
the model hides behind another episode's turn. Wall time of both parts, whose ratio a busy machine changes little.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import anyio
import pytest

from harness.episode import run_episode
from synth.families.ticket_routing import TICKET_ROUTING
from tests.command_line import ROOT
from training.agent import Sampling, StudentAgent
from training.chat import ChatML
from training.engine import Generated, TokenEngine
from training.engine_transformers import TransformersEngine
from training.models import DEFAULT_FOLDER, load_model

pytestmark = pytest.mark.timeout(900)
EPISODES = 2


@dataclass
class Timed:
    """An engine that notes how long it was asked."""

    engine: TokenEngine
    seconds: float = 0.0

    async def generate(
        self, ids: Sequence[int], *, max_new_tokens: int, temperature: float, stop_ids: Collection[int], seed: int
    ) -> Generated:
        begun = time.perf_counter()
        try:
            return await self.engine.generate(
                ids, max_new_tokens=max_new_tokens, temperature=temperature, stop_ids=stop_ids, seed=seed
            )
        finally:
            self.seconds += time.perf_counter() - begun


@pytest.mark.benchmark(group=f"{EPISODES} student rollouts (budget: 2% outside the model)")
def test_rollouts(benchmark: Any) -> None:
    if not (ROOT / DEFAULT_FOLDER).exists():
        pytest.skip("the default student is not here; fetch it with: coworkenv train fetch-model")
    model, tokenizer = load_model(ROOT / DEFAULT_FOLDER)
    environments = [TICKET_ROUTING.make(f"bench-{number}", 1) for number in range(EPISODES)]
    for environment in environments:
        environment.validate_all()
    shares: list[float] = []

    async def rollouts() -> None:
        engine = TransformersEngine(model)
        async with engine.serving():
            timed = Timed(engine)
            student = StudentAgent("student", timed, ChatML(tokenizer), Sampling(temperature=1.0, new_tokens=32))
            begun = time.perf_counter()
            for number, environment in enumerate(environments):
                trajectory = await run_episode(environment, student, seed=number)
                assert trajectory.status in ("done", "failed"), trajectory.reason
            shares.append(1 - timed.seconds / (time.perf_counter() - begun))

    benchmark.pedantic(anyio.run, (rollouts,), rounds=1)
    benchmark.extra_info["outside_the_model"] = round(shares[0], 4)
    benchmark.stats.name += f" [{shares[0]:.2%} outside the model]"
