"""An agent that asks a language model: any that litellm knows, at any OpenAI-compatible address.

``ModelAgent`` describes the model and how to reach it, ``ModelSession`` is one conversation with it. Between
them and the provider lies one call of ``litellm.acompletion``; what goes over the wire is
``harness.agents.openai_wire``.

Whose fault it is when that fails (``harness.agents.provider_errors``):

* ``infra`` for everything between us and the model: unreachable, slow, overloaded, rate limits, 5xx, a key or
  a request that is refused, an answer that is none. What may pass is tried again first, with growing pauses.
* ``failed`` for a conversation that has outgrown the model's context window. How much the agent reads and
  says is its own doing, and the same episode would end the same way again; so it is graded as it stands.
* Neither for what a model says badly. A call that cannot be read is answered like any refused call, and an
  empty answer is taken as one: the agent said nothing, and its turn is over.

Not promised: the same words for the same seed. It is passed on to providers that take one; few keep to it.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import os
import sys
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

import anyio
import anyio.to_thread

from harness.agents.base import AgentTurn, Briefing, Usage
from harness.agents.limiter import Limiter
from harness.agents.openai_wire import Answer, Choice, Conversation, JsonObject, function_spec
from harness.agents.provider_errors import Trouble, explain
from harness.agents.redaction import Secrets, public
from harness.errors import EpisodeFault, blame
from harness.invocation import install
from harness.messages import Message
from servers.errors import CoworkEnvError

FIRST_PAUSE = 1.0
LONGEST_PAUSE = 60.0


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer of the model."""

    choice: Choice
    raw: JsonObject
    """Its message with all fields."""
    usage: Usage
    begun: float
    """When its request was sent, by the agent's clock."""


class ModelAgent:
    """Asks a model.

    Args:
        name: Unique in a run.
        model: As litellm names it: ``openai/...``, ``anthropic/...``, ``hosted_vllm/...``.
        temperature: None leaves it to the provider.
        max_tokens: Most tokens of one message; None leaves it to the provider.
        api_base: Address of a server, such as ``http://127.0.0.1:8000/v1``; None is the provider's own.
        api_key: None lets litellm look into the provider's variable of the process's environment.
        timeout: Seconds that one request may take.
        retries: How often a request that failed is sent again.
        limiter: To be shared by agents of one provider; by default each agent has its own.
        extra: More arguments of ``litellm.acompletion``, such as ``reasoning_effort``.
        clock: Gives seconds that only grow.
        sleep: Waits for so many seconds.

    Raises:
        CoworkEnvError: litellm is not installed.
    """

    def __init__(
        self,
        name: str,
        model: str,
        *,
        temperature: float | None = None,
        max_tokens: int | None = None,
        api_base: str | None = None,
        api_key: str | None = None,
        timeout: float = 300,
        retries: int = 5,
        limiter: Limiter | None = None,
        extra: Mapping[str, Any] | None = None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = anyio.sleep,
    ) -> None:
        if importlib.util.find_spec("litellm") is None:
            raise CoworkEnvError(f"{name} needs litellm. Install it: {install('models')}")
        self.name = name
        self.model = model
        self.timeout = timeout
        self.retries = retries
        self.limiter = limiter or Limiter(clock=clock, sleep=sleep)
        self.clock = clock
        self.sleep = sleep
        self.secrets = Secrets.of(api_key, dict(extra or {}))
        self._sampling = _given(temperature=temperature, max_tokens=max_tokens)
        self._address = _given(api_base=api_base, api_key=api_key)
        self._extra = dict(extra or {})

    @property
    def settings(self) -> JsonObject:
        """What makes this agent's episodes what they are.

        Without secrets, and without the address: the same model behind another port is the same agent.
        """
        return {"model": self.model, **self._sampling, "extra": public(self._extra)}

    async def begin(self, briefing: Briefing) -> ModelSession:
        """Start a conversation."""
        litellm = await anyio.to_thread.run_sync(load_litellm)
        request: JsonObject = {}
        if briefing.tools:
            request["tools"] = [function_spec(tool) for tool in briefing.tools]
        if "seed" in (litellm.get_supported_openai_params(model=self.model) or ()):
            request["seed"] = briefing.seed
        return ModelSession(self, briefing.seed, request)

    async def close(self) -> None:
        """Close the connections that litellm keeps open, those of other agents in this process too."""
        if "litellm" in sys.modules:
            litellm = load_litellm()
            await litellm.close_litellm_async_clients()
            litellm.in_memory_llm_clients_cache.flush_cache()

    async def ask(self, messages: Sequence[JsonObject], request: JsonObject) -> Reply | Trouble:
        """Send one request, once."""
        arguments = {**self._sampling, **self._address, **self._extra, **request}
        async with self.limiter.slot() as begun:
            try:
                with blame("infra", "provider"):
                    # max_retries: the retries are ours, which know of the limiter.
                    response = await load_litellm().acompletion(
                        model=self.model,
                        messages=list(messages),
                        timeout=self.timeout,
                        max_retries=0,
                        **arguments,
                    )
                    reply = _read(response, begun)
            except EpisodeFault as fault:
                trouble = explain(fault.__cause__ or fault, self.model, self.timeout, self.secrets)
                if trouble.kind == "overloaded":
                    self.limiter.refused(begun, trouble.retry_after)
                return trouble
            self.limiter.answered()
            return reply


@dataclass(slots=True)
class ModelSession:
    """One conversation with a model."""

    agent: ModelAgent
    seed: int
    request: JsonObject
    """What every request of this conversation says besides the messages."""
    talk: Conversation = field(default_factory=Conversation)
    finish_reasons: list[str | None] = field(default_factory=list[str | None])
    reasoning: list[str | None] = field(default_factory=list[str | None])

    async def act(self, news: Sequence[Message]) -> AgentTurn:
        """Ask for the next message, again and again where the trouble may pass.

        Raises:
            EpisodeFault: There was no answer in the end.
        """
        self.talk.hear(news)
        asked = self.agent.clock()
        reply = await self._persist()
        said = reply.choice.message
        self.finish_reasons.append(reply.choice.finish_reason)
        self.reasoning.append(said.reasoning_content)
        return AgentTurn(self.talk.speak(reply.choice, reply.raw), reply.usage, queued=reply.begun - asked)

    def record(self) -> JsonObject:
        """Why each message ended, and what the model thought before it, where it tells."""
        thoughts = {"reasoning": self.reasoning} if any(self.reasoning) else {}
        return {"finish_reasons": self.finish_reasons, **thoughts}

    async def _persist(self) -> Reply:
        attempt = 0
        while True:
            outcome = await self.agent.ask(self.talk.messages, self.request)
            if isinstance(outcome, Reply):
                return outcome
            if not outcome.may_pass or attempt == self.agent.retries:
                raise outcome.fault()
            await self.agent.sleep(self._pause(attempt, outcome.retry_after))
            attempt += 1

    def _pause(self, attempt: int, retry_after: float | None) -> float:
        """Seconds before the next try: doubling, and spread so that episodes do not come back all at once."""
        if retry_after is not None:
            return retry_after
        digest = hashlib.sha256(f"{self.seed}/{len(self.talk.messages)}/{attempt}".encode()).digest()
        return min(LONGEST_PAUSE, FIRST_PAUSE * 2**attempt) * (0.5 + digest[0] / 512)


def load_litellm() -> ModuleType:
    """Import litellm: seconds of work, so only when a model is about to be asked.

    This is the one place that sets litellm up for the process. While it is imported, it would fetch a list of
    prices from the network unless ``LITELLM_LOCAL_MODEL_COST_MAP`` is set; whoever wants the newest prices
    sets it to ``False``.
    """
    os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
    litellm: Any = importlib.import_module("litellm")
    litellm.suppress_debug_info = True  # it prints advertisements to standard output
    return litellm


def _read(response: Any, begun: float) -> Reply:  # noqa: ANN401 - litellm has no types to speak of
    data: JsonObject = response.model_dump(exclude_none=True, warnings=False)
    answer = Answer.model_validate(data)
    counted = answer.usage
    cost = getattr(response, "_hidden_params", {}).get("response_cost")
    usage = Usage(
        counted.prompt_tokens if counted else 0,
        counted.completion_tokens if counted else 0,
        float(cost) if isinstance(cost, int | float) else 0.0,
    )
    return Reply(answer.choices[0], data["choices"][0]["message"], usage, begun)


def _given(**values: float | str | None) -> JsonObject:
    return {name: value for name, value in values.items() if value is not None}
