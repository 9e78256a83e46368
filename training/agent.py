"""The student as an agent: an episode as one growing list of token ids.

``StudentAgent`` plugs a token engine and a chat format into the harness. What the student sampled stays as it
was sampled (``training.ledger``), and a trajectory keeps it, so that the ids that are trained on are the ids
that were sampled. A student that runs out of context has failed; an engine that gives no tokens is nobody's
failure and voids the episode.

``LocalAgent`` is a student from a folder, behind ``--agent local:DIRECTORY``.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio.to_thread

from harness.agents.base import AgentTurn, Briefing, Session, Usage
from harness.errors import EpisodeFault
from harness.messages import Message
from training.chat import ChatFormat, ChatML
from training.engine import Finish, TokenEngine
from training.errors import EngineError, LedgerError, TrainingError
from training.extras import needs_extra
from training.ledger import ContextBudget, TokenLedger
from training.models import check_model

if TYPE_CHECKING:
    from training.engine_transformers import TransformersEngine

CONTEXT = 2048
NEW_TOKENS = 256
SLOTS = 16
"""Conversations that a student from a folder serves at once; those beyond wait for a place, turn by turn."""


@dataclass(frozen=True, slots=True)
class Sampling:
    """How a student samples."""

    temperature: float = 0.0
    """0 for greedy decoding."""
    new_tokens: int = NEW_TOKENS
    """Most ids in one turn."""
    context: int = CONTEXT
    """Most ids in one episode, prompt included."""


@dataclass(slots=True)
class StudentSession:
    """A student in one episode."""

    engine: TokenEngine
    chat: ChatFormat
    sampling: Sampling
    briefing: Briefing
    ledger: TokenLedger
    finish: Finish = "stop"
    turn: int = 0

    async def act(self, news: Sequence[Message]) -> AgentTurn:
        """Write what is new into the ledger, sample a turn after it, and read the turn.

        Raises:
            EpisodeFault: The context is full (the student's own failure), or the engine gave nothing.
        """
        if self.turn == 0:
            refused = self.ledger.prompt(self.chat.opening(news, self.briefing.tools))
        else:
            refused = self.ledger.bridge(self.chat.bridge(news, closed=self.finish == "stop"))
        _check(refused)
        known = len(self.ledger.ids)
        self.turn += 1
        try:
            generated = await self.engine.generate(
                self.ledger.ids,
                max_new_tokens=min(self.sampling.new_tokens, self.ledger.room),
                temperature=self.sampling.temperature,
                stop_ids=self.chat.stop_ids,
                seed=_seed(self.briefing.seed, self.turn),
            )
            refused = self.ledger.sampled(generated.ids, generated.logprobs, generated.finish)
        except (EngineError, LedgerError) as error:  # no tokens, or tokens without a probability
            raise EpisodeFault("infra", "engine", str(error)) from error
        _check(refused)
        self.finish = generated.finish
        message = self.chat.parse(generated.ids, call_prefix=f"call_{self.turn}")
        return AgentTurn(message, Usage(prompt_tokens=known, completion_tokens=len(generated.ids)))

    def record(self) -> dict[str, Any]:
        """The ledger in its stored form."""
        return {"ledger": self.ledger.to_record().model_dump(mode="json")}


@dataclass(slots=True)
class StudentAgent:
    """A student that acts in any number of episodes at once, all on one engine."""

    name: str
    engine: TokenEngine
    chat: ChatFormat
    sampling: Sampling = Sampling()
    sessions: list[StudentSession] | None = None
    """Where to keep the sessions, for whoever needs their ledgers afterwards."""

    async def begin(self, briefing: Briefing) -> Session:
        """Start an episode with an empty ledger."""
        ledger = TokenLedger(self.sampling.context)
        session = StudentSession(self.engine, self.chat, self.sampling, briefing, ledger)
        if self.sessions is not None:
            self.sessions.append(session)
        return session

    async def close(self) -> None:
        """The engine belongs to whoever made it."""


@dataclass(slots=True)
class LocalAgent:
    """A student from a folder, which loads at its first episode and frees its model at the end.

    The engine serves inside a task of its own, because episodes come and go in tasks that do not outlive it.
    """

    name: str
    folder: Path
    sampling: Sampling
    _student: StudentAgent | None = None
    _owner: asyncio.Task[None] | None = None
    _done: asyncio.Event = field(default_factory=asyncio.Event)
    _lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def begin(self, briefing: Briefing) -> Session:
        """Start an episode; the first one loads the model.

        Raises:
            EpisodeFault: The model cannot be loaded or served, for which no student is to blame.
        """
        async with self._lock:
            if self._student is None:
                try:
                    self._student = await self._load()
                except TrainingError as error:
                    raise EpisodeFault("infra", "engine", str(error)) from error
        return await self._student.begin(briefing)

    async def close(self) -> None:
        """Stop the engine and let go of the model."""
        self._done.set()
        if self._owner is not None:
            await self._owner
        self._student = self._owner = None

    @property
    def settings(self) -> dict[str, Any]:
        """What a run's manifest keeps of this agent."""
        return asdict(self.sampling)

    async def _load(self) -> StudentAgent:
        from training.engine_transformers import TransformersEngine  # noqa: PLC0415 - torch takes seconds to import
        from training.models import context_of, load_model  # noqa: PLC0415

        # In a thread, because other agents' episodes go on meanwhile.
        model, tokenizer = await anyio.to_thread.run_sync(load_model, self.folder)
        engine = TransformersEngine(model, slots=SLOTS)
        ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._owner = asyncio.create_task(self._serve(engine, ready))
        await asyncio.wait([self._owner, ready], return_when=asyncio.FIRST_COMPLETED)
        sampling = replace(self.sampling, context=min(self.sampling.context, context_of(model)))
        return StudentAgent(self.name, engine, ChatML(tokenizer), sampling)

    async def _serve(self, engine: TransformersEngine, ready: asyncio.Future[None]) -> None:
        async with engine.serving():
            ready.set_result(None)
            await self._done.wait()


def local_agent(name: str, folder: Path, *, temperature: float = 0.0) -> LocalAgent:
    """The agent behind ``--agent local:DIRECTORY``.

    Raises:
        ModelFetchError: There is no model in the folder.
        SpecError: The train extra is not installed.
    """
    needs_extra("torch", "transformers")
    check_model(folder)
    return LocalAgent(name, folder, Sampling(temperature=temperature))


def _check(refused: ContextBudget | None) -> None:
    if refused is not None:
        raise EpisodeFault("failed", "agent", str(refused))


def _seed(seed: int, turn: int) -> int:
    return int.from_bytes(hashlib.sha256(f"{seed}\0{turn}".encode()).digest()[:6])
