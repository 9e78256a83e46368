"""The in-process engine: exact log probabilities, own random streams, conversations side by side."""

from __future__ import annotations

import anyio
import pytest
import torch
from transformers import MistralConfig, MistralForCausalLM

from tests.training.students import tiny_model
from training.engine_transformers import TransformersEngine
from training.errors import EngineError, EngineRejectedError

pytestmark = pytest.mark.anyio
PROMPTS = [[1, *range(20, 20 + 7 * n)] for n in range(1, 7)]


def asked(ids, *, new=12, temperature=1.0, stop=(), seed=0):
    return {"ids": ids, "max_new_tokens": new, "temperature": temperature, "stop_ids": stop, "seed": seed}


async def together(engine, requests):
    found = {}

    async def one(place, request):
        found[place] = await engine.generate(**request)

    async with anyio.create_task_group() as tasks:
        for place, request in enumerate(requests):
            tasks.start_soon(one, place, request)
    return [found[place] for place in range(len(requests))]


@pytest.mark.parametrize("temperature", [0.0, 0.7, 1.0])
@pytest.mark.parametrize("attention", ["sdpa", "eager"])
async def test_sampled_logprobs_equal_a_dense_forward_over_several_turns(temperature, attention):
    engine = TransformersEngine(tiny_model(attention=attention), slots=3)
    contexts = list(PROMPTS)
    async with engine.serving():
        for turn in range(3):
            requests = [
                asked(ids, new=3 + place, temperature=temperature, seed=turn) for place, ids in enumerate(contexts)
            ]
            results = await together(engine, requests)
            for place, (ids, result) in enumerate(zip(contexts, results, strict=True)):
                whole = [*ids, *result.ids]
                dense = engine.score(whole, start=len(ids), temperature=temperature)
                assert result.logprobs == pytest.approx(dense, abs=1e-4)
                contexts[place] = [*whole, 5, 6 + place]


async def test_greedy_decoding_takes_the_most_likely_token_every_time():
    model = tiny_model()
    engine = TransformersEngine(model)
    async with engine.serving():
        result = await engine.generate(**asked(PROMPTS[2], temperature=0))
    ids = list(PROMPTS[2])
    with torch.inference_mode():
        for token in result.ids:
            assert token == int(model(input_ids=torch.tensor([ids])).logits[0, -1].argmax())
            ids.append(token)


async def test_the_same_seed_repeats_a_turn_whatever_else_is_running():
    engine = TransformersEngine(tiny_model(), slots=4)
    async with engine.serving():
        alone = [await engine.generate(**asked(ids, seed=n)) for n, ids in enumerate(PROMPTS)]
        crowd = await together(engine, [asked(ids, seed=n) for n, ids in enumerate(PROMPTS)])
        other = await engine.generate(**asked(PROMPTS[0], seed=99))
    assert [result.ids for result in alone] == [result.ids for result in crowd]
    assert other.ids != alone[0].ids


async def test_sampling_follows_the_models_distribution():
    model = tiny_model(vocabulary=8, seed=3)
    engine = TransformersEngine(model, slots=64)
    async with engine.serving():
        results = await together(engine, [asked([1, 2, 3], new=1, temperature=1.5, seed=seed) for seed in range(500)])
    with torch.inference_mode():
        expected = (model(input_ids=torch.tensor([[1, 2, 3]])).logits[0, -1] / 1.5).softmax(-1)
    drawn = torch.bincount(torch.tensor([result.ids[0] for result in results]), minlength=8) / len(results)
    assert torch.allclose(drawn, expected, atol=0.06)


async def test_a_stop_id_ends_the_turn_and_is_part_of_it():
    engine = TransformersEngine(tiny_model())
    async with engine.serving():
        free = await engine.generate(**asked(PROMPTS[0], seed=4))
        stop = free.ids[5]
        stopped = await engine.generate(**asked(PROMPTS[0], seed=4, stop=[stop]))
    assert free.finish == "length"
    assert stopped.finish == "stop"
    assert stopped.ids == free.ids[: free.ids.index(stop) + 1]


async def test_a_group_that_starts_alike_computes_the_beginning_once():
    model = tiny_model()
    engine = TransformersEngine(model, slots=4)
    widths = []
    model.register_forward_pre_hook(
        lambda _module, _args, kwargs: widths.append(kwargs["input_ids"].shape[1]), with_kwargs=True
    )
    async with engine.serving():
        first = await together(engine, [asked(PROMPTS[5], new=2, seed=n) for n in range(4)])
        assert sorted(width for width in widths if width > 1) == [len(PROMPTS[5])]
        widths.clear()
        turns = [asked([*PROMPTS[5], *result.ids, 7, 8, 9], new=2) for result in first]
        await together(engine, turns)
    assert max(widths) == 4  # three new tokens, and the last sampled one, whose keys nobody needed before


async def test_more_episodes_than_slots_all_get_their_turn():
    engine = TransformersEngine(tiny_model(), slots=2)
    async with engine.serving():
        results = await together(engine, [asked(PROMPTS[n % 6], new=4, seed=n) for n in range(9)])
    assert [len(result.ids) for result in results] == [4] * 9


async def test_a_cancelled_turn_frees_its_place():
    engine = TransformersEngine(tiny_model(), slots=1)
    async with engine.serving():
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(lambda: engine.generate(**asked(PROMPTS[0], new=400)))
            await anyio.lowlevel.checkpoint()
            tasks.cancel_scope.cancel()
        result = await engine.generate(**asked(PROMPTS[1], new=2))
    assert len(result.ids) == 2


async def test_new_weights_are_used_when_serving_opens_again():
    model = tiny_model(seed=0)
    engine = TransformersEngine(model)
    async with engine.serving():
        before = await engine.generate(**asked(PROMPTS[3], temperature=0))
    model.load_state_dict(tiny_model(seed=1).state_dict())
    async with engine.serving():
        after = await engine.generate(**asked(PROMPTS[3], temperature=0))
    assert after.ids != before.ids
    assert after.logprobs == pytest.approx(engine.score([*PROMPTS[3], *after.ids], start=len(PROMPTS[3])), abs=1e-4)


async def test_the_model_returns_to_training_mode_after_serving():
    model = tiny_model().train()
    engine = TransformersEngine(model)
    async with engine.serving():
        assert not model.training
    assert model.training


async def test_a_model_that_fails_is_an_engine_error_and_the_next_turn_works():
    model = tiny_model()
    engine = TransformersEngine(model, slots=2)

    def out_of_memory(*_):
        raise torch.OutOfMemoryError("the device is full")

    async with engine.serving():
        hook = model.model.layers[1].register_forward_pre_hook(out_of_memory)
        with pytest.raises(EngineError, match="the device is full"):
            await engine.generate(**asked(PROMPTS[0]))
        hook.remove()
        result = await engine.generate(**asked(PROMPTS[0], temperature=0))
    assert result.logprobs == pytest.approx(engine.score([*PROMPTS[0], *result.ids], start=len(PROMPTS[0])), abs=1e-4)


async def test_whoever_still_waits_when_serving_ends_is_told():
    engine = TransformersEngine(tiny_model(), slots=1)
    errors = []

    async def late():
        try:
            await engine.generate(**asked(PROMPTS[0], new=400))
        except EngineError as error:
            errors.append(str(error))

    async with anyio.create_task_group() as tasks, engine.serving():
        tasks.start_soon(late)
        await engine.generate(**asked(PROMPTS[1], new=1))
    assert errors == ["the engine stopped before this request was finished"]


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        (asked([]), "context is empty"),
        (asked([1], new=0), "max_new_tokens is 0"),
        (asked([1], temperature=-1), "temperature is -1"),
        (asked([1] * 500, new=13), "exceed the model's context of 512"),
    ],
)
async def test_impossible_requests_are_refused_with_a_reason(request_, message):
    engine = TransformersEngine(tiny_model())
    async with engine.serving():
        with pytest.raises(EngineRejectedError, match=message):
            await engine.generate(**request_)


async def test_generating_outside_serving_says_what_to_do():
    with pytest.raises(EngineError, match=r"engine\.serving\(\)"):
        await TransformersEngine(tiny_model()).generate(**asked([1]))


def test_a_sliding_window_model_is_refused():
    model = MistralForCausalLM(
        MistralConfig(
            vocab_size=16, hidden_size=16, intermediate_size=16, num_hidden_layers=1, num_attention_heads=1,
            num_key_value_heads=1, sliding_window=8,
        )
    )  # fmt: skip
    with pytest.raises(EngineError, match="full attention only"):
        TransformersEngine(model)
