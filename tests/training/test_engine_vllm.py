"""The vLLM engine against a real HTTP server that speaks vLLM's wire format, well or badly."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import anyio
import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from training.engine import Generated
from training.engine_vllm import VllmEngine
from training.errors import (
    EngineProtocolError,
    EngineRejectedError,
    EngineTimeoutError,
    EngineUnavailableError,
)

pytestmark = pytest.mark.anyio
Answer = Callable[[dict], Response]
ASK = {"ids": [1, 2, 3], "max_new_tokens": 4, "temperature": 0.7, "stop_ids": {2}, "seed": 11}


def completion(**changes) -> dict:
    """A completion as vLLM writes it, for a prompt of three tokens."""
    choice = {
        "index": 0,
        "text": " hi<|im_end|>",
        "logprobs": {"text_offset": [0, 3], "token_logprobs": [-0.5, -0.25], "tokens": [" hi", "<|im_end|>"],
                     "top_logprobs": [{" hi": -0.5}, {"<|im_end|>": -0.25}]},
        "finish_reason": "stop",
        "stop_reason": 2,
        "token_ids": [31, 2],
        "prompt_logprobs": None,
        "prompt_token_ids": [1, 2, 3],
    }  # fmt: skip
    return {
        "id": "cmpl-1", "object": "text_completion", "created": 1, "model": "student",
        "choices": [choice | changes],
        "usage": {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5},
    }  # fmt: skip


@contextmanager
def server(answer: Answer, models: Response | None = None) -> Iterator[tuple[str, list[dict]]]:
    """Serve on a free loopback port in a thread; yield its address and the bodies it received."""
    bodies: list[dict] = []

    async def complete(request: Request) -> Response:
        bodies.append(json.loads(await request.body()))
        found = answer(bodies[-1])
        if found is NEVER:
            await anyio.sleep_forever()
        return found

    async def listed(_: Request) -> Response:
        return models or JSONResponse({"object": "list", "data": [{"id": "student", "object": "model"}]})

    app = Starlette(routes=[Route("/v1/completions", complete, methods=["POST"]), Route("/v1/models", listed)])
    with socket.create_server(("127.0.0.1", 0)) as listening:
        running = uvicorn.Server(uvicorn.Config(app, log_level="critical", timeout_graceful_shutdown=0))
        thread = threading.Thread(target=running.run, kwargs={"sockets": [listening]})
        thread.start()
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}", bodies
        finally:
            running.should_exit = True
            thread.join()


NEVER = Response()


async def asked(answer: Answer, **settings) -> Generated:
    with server(answer) as (url, _):
        async with VllmEngine.connect(url, "student", **settings) as engine:
            return await engine.generate(**ASK)


async def test_ids_and_logprobs_come_back_as_the_server_sampled_them():
    with server(lambda _: JSONResponse(completion())) as (url, bodies):
        async with VllmEngine.connect(url + "/v1/", "student") as engine:
            result = await engine.generate(**ASK)
    assert result == Generated(ids=(31, 2), logprobs=(-0.5, -0.25), finish="stop")
    (body,) = bodies
    assert body["prompt"] == [1, 2, 3]
    assert (body["max_tokens"], body["temperature"], body["seed"]) == (4, 0.7, 11)
    assert body["stop_token_ids"] == [2]
    assert body["return_token_ids"] is True
    assert (body["top_p"], body["top_k"], body["min_p"]) == (1.0, 0, 0.0)  # untruncated, or ratios are biased


async def test_many_turns_are_asked_for_at_once():
    def answer(body: dict) -> Response:
        return JSONResponse(completion(token_ids=[body["seed"], 2]))

    async def one(engine: VllmEngine, seed: int, found: dict) -> None:
        found[seed] = (await engine.generate(**(ASK | {"seed": seed}))).ids[0]

    found: dict[int, int] = {}
    with server(answer) as (url, _):
        async with VllmEngine.connect(url, "student") as engine, anyio.create_task_group() as tasks:
            for seed in range(100, 108):
                tasks.start_soon(one, engine, seed, found)
    assert found == {seed: seed for seed in range(100, 108)}


async def test_a_server_that_is_down_is_named_with_the_command_that_starts_one():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
    with pytest.raises(EngineUnavailableError, match=rf"nobody answers at {url}.*vllm serve"):
        async with VllmEngine.connect(url, "student"):
            pass


async def test_a_server_that_is_too_slow_is_a_timeout():
    with pytest.raises(EngineTimeoutError, match=r"did not answer within 0\.2 s"):
        await asked(lambda _: NEVER, timeout_s=0.2)


async def test_a_model_that_is_not_served_lists_those_that_are():
    with (
        server(lambda _: JSONResponse(completion())) as (url, _),
        pytest.raises(EngineRejectedError, match="does not serve 'teacher'; it serves student"),
    ):
        async with VllmEngine.connect(url, "teacher"):
            pass


async def test_a_refusal_carries_the_servers_own_words():
    body = {"error": {"message": "maximum context length is 512 tokens", "type": "BadRequestError", "code": 400}}
    with pytest.raises(EngineRejectedError, match="answered 400: maximum context length is 512 tokens"):
        await asked(lambda _: JSONResponse(body, status_code=400))


async def test_a_crashed_engine_behind_the_server_is_unavailable_not_the_students_fault():
    with pytest.raises(EngineUnavailableError, match="answered 500: EngineCore died"):
        await asked(lambda _: PlainTextResponse("EngineCore died", status_code=500))


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (PlainTextResponse("<html>Welcome to nginx</html>"), "does not answer like vLLM.*Welcome to nginx"),
        (JSONResponse({"choices": []}), "choices"),
        (JSONResponse(completion(token_ids=None)), "choices.0.token_ids"),
        (JSONResponse(completion(logprobs=None)), "choices.0.logprobs"),
        (JSONResponse(completion(token_ids=[31, 32, 2])), "3 token ids came with 2 logprobs"),
        (JSONResponse(completion(finish_reason="abort")), "finish_reason"),
        (JSONResponse(completion(finish_reason="length")), "finish_reason is length but the last token is 2"),
        (JSONResponse(completion(token_ids=[2, 31])), "finish_reason is stop but the last token is 31"),
        (
            JSONResponse(
                completion(token_ids=[9] * 5, logprobs={"token_logprobs": [-1.0] * 5}, finish_reason="length")
            ),
            "5 tokens came back where 4 were allowed",
        ),
    ],
)
async def test_nonsense_is_told_apart_from_an_answer(answer, message):
    with pytest.raises(EngineProtocolError, match=message):
        await asked(lambda _: answer)


async def test_another_service_at_the_address_is_noticed_when_connecting():
    with (
        server(lambda _: NEVER, models=PlainTextResponse("hello")) as (url, _),
        pytest.raises(EngineProtocolError, match="does not answer like vLLM"),
    ):
        async with VllmEngine.connect(url, "student"):
            pass
