"""A token engine in this process: one transformers model, many conversations, on CPU or GPU.

Requests join and leave a running batch. Each conversation keeps its keys and values between turns, so a
turn pays only for the tokens that are new to it, and conversations that start alike (a group of rollouts of
one task) compute their common beginning once. Random streams belong to requests, not to the process.

Why not transformers' own continuous batching: it draws all requests from one random stream and is greedy or
not as a whole, so an episode could not be repeated from its seed, and on a CPU it was the slowest of three
ways in the single runs that were made (135M student, float32, two cores). ``model.generate`` has no place for
conversations that come and go. ``tests.bench.student_engine`` compares the three on the machine at hand.

What a step costs on a CPU: the matrix products dominate, and those for 16 conversations take hardly longer than
for 8, so many slots pay. Threads wait for each other after every product; where other work competes for
the cores, waiting by spinning (libgomp's default) makes a step several times slower than
``OMP_WAIT_POLICY=passive`` does.

Weights must not change while ``serving`` is open: the kept keys and values belong to the weights that made
them. Opening it again starts empty, which is how a trainer gets fresh ones after each optimizer step.

Not promised: models with sliding windows or recurrent layers, flash attention, or images: ``engine_vllm``
serves those.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncGenerator, Collection, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, cast

import anyio
import anyio.to_thread
import torch
from torch import nn
from transformers import PreTrainedModel

from training.engine import Finish, Generated
from training.errors import EngineError, EngineRejectedError
from training.kv_slots import SlotCache

_TIED = 1e-9
"""Keeps an inverse-CDF draw strictly below the total probability."""


@dataclass(slots=True)
class _Request:
    ids: list[int]
    prompt_length: int
    max_new_tokens: int
    temperature: float
    stop_ids: frozenset[int]
    random: torch.Generator
    done: anyio.Event
    logprobs: list[float] = field(default_factory=list[float])
    finish: Finish | None = None
    error: str | None = None
    cancelled: bool = False

    @property
    def over(self) -> bool:
        return self.finish is not None or self.error is not None or self.cancelled

    def draw(self) -> float:
        return float(torch.rand((), generator=self.random, dtype=torch.float64))


@dataclass(slots=True)
class _Slot:
    """What one slot of the cache holds: keys and values of ``ids``, and the request that is using it."""

    ids: list[int] = field(default_factory=list[int])
    request: _Request | None = None
    used: int = 0


class TransformersEngine:
    """Continues token ids with a model in this process.

    Usage::

        engine = TransformersEngine(model, slots=8)
        async with engine.serving():
            turn = await engine.generate(
                ids, max_new_tokens=64, temperature=1.0, stop_ids=chat.stop_ids, seed=7
            )

    Args:
        model: A causal language model with full attention in every layer, loaded with ``sdpa`` or ``eager``
            attention; may be wrapped by peft.
        slots: Conversations that are sampled together; more wait their turn. Each needs memory for its
            keys and values (46 kB a token for the 135M student in fp32).

    Raises:
        EngineError: The model's attention cannot be served this way.
    """

    def __init__(self, model: PreTrainedModel, *, slots: int = 8) -> None:
        if slots < 1:
            raise EngineError(f"slots is {slots}; at least one conversation has to fit")
        self._model = cast("nn.Module", model)
        self._device = model.device
        self._layers, self._context = _supported(model)
        self._slots = [_Slot() for _ in range(slots)]
        self._cache = SlotCache(self._layers, slots)
        self._busy = 0
        self._clock = 0
        self._waiting: deque[_Request] = deque()
        self._wake: anyio.Event | None = None

    @asynccontextmanager
    async def serving(self) -> AsyncGenerator[TransformersEngine]:
        """Accept requests until the block ends; the model is in evaluation mode meanwhile.

        Raises:
            EngineError: The engine is already serving.
        """
        if self._wake is not None:
            raise EngineError("this engine is already serving; share it, or build a second one")
        training = self._model.training
        self._model.eval()
        self._forget()
        self._wake = anyio.Event()
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._drive)
                try:
                    yield self
                finally:
                    tasks.cancel_scope.cancel()
        finally:
            self._wake = None
            for request in (*self._waiting, *self._running()):
                request.done.set()  # whoever still waits learns that serving ended
            self._waiting.clear()
            self._cache = SlotCache(self._layers, len(self._slots))  # the memory goes back to the trainer
            self._model.train(training)

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
            EngineRejectedError: An argument is out of range, or the model's context is too short.
            EngineError: The engine is not serving, or the model failed (out of memory, for example).
        """
        if self._wake is None:
            raise EngineError("the engine is not serving: call generate() inside `async with engine.serving():`")
        self._check(ids, max_new_tokens, temperature)
        request = _Request(
            ids=list(ids),
            prompt_length=len(ids),
            max_new_tokens=max_new_tokens,
            temperature=temperature,
            stop_ids=frozenset(stop_ids),
            random=torch.Generator().manual_seed(seed % 2**63),
            done=anyio.Event(),
        )
        self._waiting.append(request)
        self._wake.set()
        try:
            await request.done.wait()
        finally:
            request.cancelled = not request.done.is_set()
        if request.finish is None:
            raise EngineError(request.error or "the engine stopped before this request was finished")
        return Generated(tuple(request.ids[request.prompt_length :]), tuple(request.logprobs), request.finish)

    def score(self, ids: Sequence[int], *, start: int, temperature: float = 1.0) -> tuple[float, ...]:
        """Return the log probability of each of ``ids[start:]`` given all before it, by one dense pass.

        No kept keys and values, no batch: it is what sampled logprobs are checked against.

        Args:
            ids: A whole context.
            start: First id to score, at least 1.
            temperature: As when sampling; 0 counts as 1.

        Raises:
            EngineRejectedError: ``start`` leaves nothing before or after it.
        """
        if not 1 <= start < len(ids):
            raise EngineRejectedError(
                f"start is {start}; expected 1 to {len(ids) - 1}, a place inside the {len(ids)} ids"
            )
        tokens = torch.tensor([list(ids)], device=self._device)
        training = self._model.training
        self._model.eval()
        with torch.inference_mode():
            logits = cast("Any", self._model)(input_ids=tokens, use_cache=False).logits
            logprobs = _log_softmax(logits[0, start - 1 : -1], torch.tensor([temperature or 1.0]))
            picked = logprobs.gather(1, tokens[0, start:, None])[:, 0]
        self._model.train(training)
        return tuple(float(logprob) for logprob in picked)

    def _check(self, ids: Sequence[int], max_new_tokens: int, temperature: float) -> None:
        if not ids:
            raise EngineRejectedError("the context is empty; generation needs at least one token to start from")
        if max_new_tokens < 1:
            raise EngineRejectedError(f"max_new_tokens is {max_new_tokens}; expected at least 1")
        if not 0 <= temperature < float("inf"):
            raise EngineRejectedError(f"temperature is {temperature}; expected 0 (greedy) or a positive number")
        if len(ids) + max_new_tokens > self._context:
            raise EngineRejectedError(
                f"{len(ids)} tokens and {max_new_tokens} new ones exceed the model's context of "
                f"{self._context}; lower max_new_tokens or end the episode"
            )

    async def _drive(self) -> None:
        while True:
            if not self._waiting and not self._busy:
                self._wake = anyio.Event()
                await self._wake.wait()
            for request in await anyio.to_thread.run_sync(self._advance):
                request.done.set()

    def _running(self) -> list[_Request]:
        return [slot.request for slot in self._slots[: self._busy] if slot.request is not None]

    # All below runs in a worker thread, one call at a time; the event loop serves the environments meanwhile.

    def _advance(self) -> list[_Request]:
        """Admit what fits, sample one id for each conversation, and return the requests that are over."""
        admitted: list[_Request] = []
        try:
            with torch.inference_mode():
                while self._waiting and self._busy < len(self._slots):
                    request = self._waiting.popleft()
                    admitted.append(request)
                    if not request.cancelled:
                        self._admit(request)
                over = [request for request in admitted if request.cancelled] + self._release()
                self._step()
                return over + self._release()
        except RuntimeError as error:  # torch reports out-of-memory and device failures this way
            failed = {id(request): request for request in (*admitted, *self._running())}
            for request in failed.values():
                request.error = f"the model failed while sampling: {error}"
            self._forget()
            return list(failed.values())

    def _forget(self) -> None:
        self._slots = [_Slot() for _ in self._slots]
        self._busy = 0

    def _admit(self, request: _Request) -> None:
        """Give the request a slot at the end of the busy ones, and compute what is new in its context."""
        at = self._place(request.ids)
        slot = self._slots[at]
        slot.request = request
        self._clock += 1
        slot.used = self._clock
        self._busy += 1
        known = len(slot.ids)
        fresh = request.ids[known:]
        self._cache.extend(at, known, len(fresh))
        positions = torch.arange(known, len(request.ids), device=self._device)
        logits = self._forward(torch.tensor([fresh], device=self._device), positions[None])
        slot.ids = list(request.ids)
        self._choose([request], logits)

    def _place(self, ids: list[int]) -> int:
        """Make the first free slot hold the longest known beginning of ``ids``; return its index."""
        first = self._busy
        shared = [_common(slot.ids, ids) for slot in self._slots]
        free = range(first, len(self._slots))
        best = max(range(len(shared)), key=shared.__getitem__)
        if best >= first and shared[best] == len(self._slots[best].ids):
            self._swap(best, first)  # the same conversation goes on
        else:
            oldest = min(free, key=lambda index: self._slots[index].used)
            if oldest != best:
                self._cache.copy(best, oldest, shared[best])
            self._slots[oldest].ids = ids[: shared[best]]
            self._swap(oldest, first)
        # The last id is always computed again: its logits are what the first sample is drawn from.
        del self._slots[first].ids[len(ids) - 1 :]
        return first

    def _step(self) -> None:
        """Sample one more id for every busy slot."""
        if not self._busy:
            return
        slots = self._slots[: self._busy]
        requests = [slot.request for slot in slots if slot.request is not None]
        positions = torch.tensor([len(slot.ids) for slot in slots], device=self._device)
        self._cache.step(positions)
        latest = torch.tensor([[request.ids[-1]] for request in requests], device=self._device)
        logits = self._forward(latest, positions[:, None])
        for slot, request in zip(slots, requests, strict=True):
            slot.ids.append(request.ids[-1])
        self._choose(requests, logits)

    def _release(self) -> list[_Request]:
        """Move the slots whose requests are over behind the busy ones; they keep what they know."""
        over: list[_Request] = []
        for index in reversed(range(self._busy)):
            request = self._slots[index].request
            if request is not None and request.over:
                over.append(request)
                self._slots[index].request = None
                self._busy -= 1
                self._swap(index, self._busy)
        return over

    def _swap(self, one: int, other: int) -> None:
        if one != other:
            self._cache.swap(one, other)
            self._slots[one], self._slots[other] = self._slots[other], self._slots[one]

    def _forward(self, tokens: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        """Run the model on ``tokens`` at ``positions``, both (rows, new); return (rows, vocabulary)."""
        keys = torch.arange(self._cache.window.end, device=self._device)
        visible = keys[None, None, None, :] <= positions[:, None, :, None]
        dtype = next(self._model.parameters()).dtype
        mask = torch.zeros(visible.shape, dtype=dtype, device=self._device)
        mask.masked_fill_(~visible, torch.finfo(dtype).min)
        out = cast("Any", self._model)(
            input_ids=tokens,
            attention_mask=mask,
            position_ids=positions,
            cache=self._cache,
            use_cache=True,
            logits_to_keep=1,
        )
        return out.logits[:, -1]

    def _choose(self, requests: list[_Request], logits: torch.Tensor) -> None:
        """Draw one id per request from ``logits`` (rows, vocabulary) and note its log probability."""
        heat = torch.tensor([request.temperature or 1.0 for request in requests])
        logprobs = _log_softmax(logits, heat)
        greedy = logprobs.argmax(dim=-1)
        for row, request in enumerate(requests):
            if request.temperature == 0:
                token = int(greedy[row])
            else:
                mass = logprobs[row].double().exp().cumsum(0)
                drawn = request.draw() * float(mass[-1]) * (1 - _TIED)
                token = int(
                    torch.searchsorted(mass, torch.tensor([drawn], device=mass.device, dtype=mass.dtype), right=True)
                )
            request.ids.append(token)
            request.logprobs.append(float(logprobs[row, token]))
            if token in request.stop_ids:
                request.finish = "stop"
            elif len(request.ids) - request.prompt_length >= request.max_new_tokens:
                request.finish = "length"


def _log_softmax(logits: torch.Tensor, temperature: torch.Tensor) -> torch.Tensor:
    return torch.log_softmax(logits.float() / temperature.to(logits.device)[:, None], dim=-1)


def _common(one: list[int], other: list[int]) -> int:
    """Return how many ids two lists share from the start."""
    count = 0
    for left, right in zip(one, other, strict=False):
        if left != right:
            break
        count += 1
    return count


def _supported(model: PreTrainedModel) -> tuple[int, int]:
    """Return (decoder layers, context length), or say why the model cannot be served."""
    config = cast("Any", model).config.get_text_config()
    windowed = "sliding_attention" if getattr(config, "sliding_window", None) else "full_attention"
    kinds = set(getattr(config, "layer_types", None) or [windowed])
    if kinds != {"full_attention"}:
        raise EngineError(
            f"{type(model).__name__} has layers of kind {', '.join(sorted(kinds))}; this engine serves full "
            "attention only. Serve the model with vLLM and use training.engine_vllm"
        )
    attention = config._attn_implementation
    if attention not in {"sdpa", "eager"}:
        raise EngineError(f"the model's attn_implementation is {attention!r}; this engine needs 'sdpa' or 'eager'")
    return int(config.num_hidden_layers), int(config.max_position_embeddings)
