"""Tokens per second of the student's engine, beside the two ways transformers offers.

Run ``python -m tests.bench.student_engine [FOLDER]`` with a fetched model, on an otherwise idle machine. Each
case asks for 32 tokens after 300, for 1, 4 and 8 episodes at once: a first turn, a second turn (40 new tokens
in the context), and a group of rollouts that share their prompt. Numbers are sampled tokens per second of
wall time, prefill included.
"""

from __future__ import annotations

import asyncio
import statistics
import sys
from pathlib import Path
from time import perf_counter

import anyio
import torch
from transformers import ContinuousBatchingConfig, GenerationConfig, PreTrainedModel

from training.engine_transformers import TransformersEngine
from training.models import DEFAULT_FOLDER, load_model

NEW, PROMPT, ROUNDS = 32, 300, 3


def prompts(count: int, vocabulary: int) -> list[list[int]]:
    generator = torch.Generator().manual_seed(count)
    return torch.randint(20, vocabulary, (count, PROMPT), generator=generator).tolist()


async def our_engine(model: PreTrainedModel, count: int) -> dict[str, float]:
    engine = TransformersEngine(model, slots=8)
    speeds: dict[str, float] = {}

    async def measure(name: str, contexts: list[list[int]]) -> list[list[int]]:
        found: dict[int, list[int]] = {}

        async def one(place: int, ids: list[int]) -> None:
            turn = await engine.generate(ids, max_new_tokens=NEW, temperature=1.0, stop_ids=(), seed=place)
            found[place] = [*ids, *turn.ids, *range(100, 140)]

        start = perf_counter()
        async with anyio.create_task_group() as tasks:
            for place, ids in enumerate(contexts):
                tasks.start_soon(one, place, ids)
        speeds[name] = NEW * count / (perf_counter() - start)
        return [found[place] for place in range(count)]

    first = prompts(count, model.config.vocab_size)
    async with engine.serving():
        await measure("second turn", await measure("first turn", first))
    async with engine.serving():
        await measure("one prompt", [first[0]] * count)
    return speeds


def plain_generate(model: PreTrainedModel, count: int) -> dict[str, float]:
    ids = torch.tensor(prompts(count, model.config.vocab_size))
    start = perf_counter()
    model.generate(
        ids, attention_mask=torch.ones_like(ids), max_new_tokens=NEW, min_new_tokens=NEW, do_sample=True,
        top_k=0, pad_token_id=0,
    )  # fmt: skip
    return {"model.generate": NEW * count / (perf_counter() - start)}


async def continuous_batching(model: PreTrainedModel, count: int) -> dict[str, float]:
    loop = asyncio.get_running_loop()
    sampling = GenerationConfig(do_sample=True, top_k=0, max_new_tokens=NEW, eos_token_id=-1)
    config = ContinuousBatchingConfig(return_logprobs=True, num_blocks=64, max_batch_tokens=512)
    with model.continuous_batching_context_manager(
        sampling, continuous_batching_config=config, warmup=False
    ) as manager:
        start = perf_counter()
        waiting = []
        for place, ids in enumerate(prompts(count, model.config.vocab_size)):
            done = loop.create_future()
            waiting.append(done)
            manager.register_result_handler(str(place), done.set_result)
            manager.add_request(ids, request_id=str(place), max_new_tokens=NEW, eos_token_id=-1)
        await asyncio.gather(*waiting)
        return {"transformers CB": NEW * count / (perf_counter() - start)}


def main() -> None:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else DEFAULT_FOLDER
    model, _ = load_model(folder)
    model.eval()
    for count in (1, 4, 8):
        rounds: list[dict[str, float]] = []
        for _ in range(ROUNDS):
            found = anyio.run(our_engine, model, count) | plain_generate(model, count)
            rounds.append(found | asyncio.run(continuous_batching(model, count)))
        medians = {name: statistics.median(one[name] for one in rounds) for name in rounds[0]}
        print(
            f"{count} at once: " + ", ".join(f"{name} {speed:.1f}/s" for name, speed in medians.items()),
            flush=True,
        )


if __name__ == "__main__":
    main()
