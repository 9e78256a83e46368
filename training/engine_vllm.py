"""A token engine over HTTP: a vLLM server that takes token ids and returns token ids.

Speaks ``POST /v1/completions`` of vLLM 0.22 to 0.31. Start the server so that its log probabilities are
those of the sampled distribution::

    vllm serve MODEL --logprobs-mode processed_logprobs --max-logprobs -1

Every failure is a typed ``EngineError`` that says what to do. Nothing is retried: a rollout that gets no
tokens is recorded as not the student's fault, and running the same command again picks it up.

Not promised: weight updates. A trainer publishes new weights under a new adapter name and points ``model`` at
it.
"""

from __future__ import annotations

import math
from collections.abc import AsyncGenerator, Collection, Sequence
from contextlib import asynccontextmanager
from typing import Any, Literal, TypeVar

import httpx2
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from training.engine import Generated
from training.errors import (
    EngineProtocolError,
    EngineRejectedError,
    EngineTimeoutError,
    EngineUnavailableError,
)

_HINT = "vllm serve MODEL --logprobs-mode processed_logprobs --max-logprobs -1"
_SHOWN = 300
_Form = TypeVar("_Form", bound=BaseModel)


class _Wire(BaseModel):
    model_config = ConfigDict(extra="ignore")


class _Logprobs(_Wire):
    token_logprobs: list[float]


class _Choice(_Wire):
    token_ids: list[int] = Field(min_length=1)
    logprobs: _Logprobs
    finish_reason: Literal["stop", "length"]


class _Completion(_Wire):
    choices: list[_Choice] = Field(min_length=1, max_length=1)


class _ModelCard(_Wire):
    id: str


class _ModelList(_Wire):
    data: list[_ModelCard]


class VllmEngine:
    """Continues token ids with a vLLM server; build it with ``connect``.

    Attributes:
        url: The server's address, without ``/v1``.
        model: Name of the model or adapter to sample from; may be changed between calls.
    """

    def __init__(self, client: httpx2.AsyncClient, url: str, model: str, timeout_s: float) -> None:
        self._client = client
        self._timeout_s = timeout_s
        self.url = url
        self.model = model

    @classmethod
    @asynccontextmanager
    async def connect(
        cls, url: str, model: str, *, timeout_s: float = 600.0, connections: int = 256
    ) -> AsyncGenerator[VllmEngine]:
        """Open a connection pool and make sure that the server serves ``model``.

        Args:
            url: Such as ``http://localhost:8000``.
            model: A name that the server lists.
            timeout_s: Seconds that one answer may take.
            connections: Requests that may be under way at once; more wait here.

        Raises:
            EngineUnavailableError: Nobody answers at ``url``.
            EngineRejectedError: The server does not serve ``model``.
            EngineProtocolError: Whoever answers is not a vLLM server.
        """
        url = url.rstrip("/").removesuffix("/v1")
        limits = httpx2.Limits(max_connections=connections, max_keepalive_connections=connections)
        timeout = httpx2.Timeout(timeout_s, connect=min(10.0, timeout_s), pool=None)
        # trust_env=False: a proxy from the environment has no business between a trainer and its engine.
        async with httpx2.AsyncClient(base_url=url, limits=limits, timeout=timeout, trust_env=False) as client:
            engine = cls(client, url, model, timeout_s)
            served = [card.id for card in _read(_ModelList, await engine._request("GET", "/v1/models"), url).data]
            if model not in served:
                raise EngineRejectedError(f"{url} does not serve {model!r}; it serves {', '.join(served) or 'nothing'}")
            yield engine

    async def generate(
        self,
        ids: Sequence[int],
        *,
        max_new_tokens: int,
        temperature: float,
        stop_ids: Collection[int],
        seed: int,
    ) -> Generated:
        """Sample after ``ids``; see ``training.engine.TokenEngine``.

        Raises:
            EngineUnavailableError: The server is gone.
            EngineTimeoutError: No answer within ``timeout_s``.
            EngineRejectedError: The server refused, for example because the context is too long.
            EngineProtocolError: The answer lacks token ids or log probabilities, or they do not fit together.
        """
        body = {
            "model": self.model,
            "prompt": list(ids),
            "max_tokens": max_new_tokens,
            "temperature": temperature,
            "top_p": 1.0,
            "top_k": 0,
            "min_p": 0.0,
            "repetition_penalty": 1.0,
            "seed": seed % 2**63,
            "stop_token_ids": sorted(stop_ids),
            "ignore_eos": True,  # only stop_ids end a turn, as in every engine
            "logprobs": 0,
            "return_token_ids": True,
            "add_special_tokens": False,
            "skip_special_tokens": False,
        }
        answer = _read(_Completion, await self._request("POST", "/v1/completions", body), self.url)
        choice = answer.choices[0]
        found = Generated(tuple(choice.token_ids), tuple(choice.logprobs.token_logprobs), choice.finish_reason)
        self._verify(found, max_new_tokens, stop_ids)
        return found

    async def _request(self, method: str, path: str, body: dict[str, Any] | None = None) -> httpx2.Response:
        try:
            response = await self._client.request(method, path, json=body)
        except httpx2.ConnectError as error:
            raise EngineUnavailableError(
                f"nobody answers at {self.url} ({error}). Start a server there: {_HINT}"
            ) from error
        except httpx2.TimeoutException as error:
            raise EngineTimeoutError(
                f"{self.url}{path} did not answer within {self._timeout_s:g} s. Raise timeout_s, run fewer "
                "episodes at once, or look at the server's log"
            ) from error
        except httpx2.HTTPError as error:
            raise EngineUnavailableError(
                f"the connection to {self.url} broke ({type(error).__name__}: {error}). Look at the server's "
                "log; it may have been restarted or run out of memory"
            ) from error
        if response.is_success:
            return response
        kind = EngineRejectedError if response.is_client_error else EngineUnavailableError
        raise kind(f"{self.url}{path} answered {response.status_code}: {_reason(response)}")

    def _verify(self, found: Generated, max_new_tokens: int, stop_ids: Collection[int]) -> None:
        problem = None
        if len(found.ids) != len(found.logprobs):
            problem = f"{len(found.ids)} token ids came with {len(found.logprobs)} logprobs"
        elif not all(math.isfinite(logprob) for logprob in found.logprobs):
            problem = "a logprob is not a finite number"
        elif len(found.ids) > max_new_tokens:
            problem = f"{len(found.ids)} tokens came back where {max_new_tokens} were allowed"
        elif (found.ids[-1] in stop_ids) != (found.finish == "stop"):
            problem = f"finish_reason is {found.finish} but the last token is {found.ids[-1]}"
        if problem is not None:
            raise EngineProtocolError(
                f"{self.url} answered inconsistently: {problem}. Expected vLLM 0.22 to 0.31: {_HINT}"
            )


def _read(model: type[_Form], response: httpx2.Response, url: str) -> _Form:
    try:
        return model.model_validate_json(response.content)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"]) or "the body"
        raise EngineProtocolError(
            f"{url} does not answer like vLLM: {where}: {first['msg']} (got {response.text[:_SHOWN]!r}). "
            f"Expected vLLM 0.22 to 0.31: {_HINT}"
        ) from error


def _reason(response: httpx2.Response) -> str:
    """Return the server's own words: vLLM puts them under error.message."""
    try:
        message = response.json()["error"]["message"]
    except (ValueError, KeyError, TypeError):
        message = response.text
    return str(message).strip()[:_SHOWN] or "no reason given"
