"""The token ledger: one growing list of ids per episode, and who put each one there.

An episode is ``prompt, turn, bridge, turn, bridge, ..., turn``. Turns are what the student sampled (or what
a demonstration would have sampled) and are kept verbatim. The prompt and the bridges are what others said.
Nothing is ever re-rendered, so the ids that are trained on are the ids that were sampled; the same ledger
gives supervised rows, reinforcement rows and the spans that turn-level advantages need.

Pieces: ``TokenLedger`` grows and exports, ``TurnSpan`` marks a turn, ``ContextBudget`` is the typed answer
when a piece does not fit, ``LedgerRecord`` is the stored form.

Not promised: that the ids decode to anything sensible (``training.chat`` knows the format), or that a
refused piece is shortened to fit. The caller decides how an episode ends.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from training.engine import Finish
from training.errors import LedgerError

IGNORED = -100
"""The label that TRL and PyTorch's cross entropy skip."""

Source = Literal["sampled", "demonstrated"]


@dataclass(frozen=True, slots=True)
class ContextBudget:
    """The context budget does not allow a piece; the ledger did not change.

    Attributes:
        limit: Ids the ledger may hold.
        used: Ids it holds.
        needed: Ids the piece would have added.
        reserve: Ids that have to stay free after the piece: 1 where a turn must follow, else 0.
    """

    limit: int
    used: int
    needed: int
    reserve: int

    def __str__(self) -> str:
        left = self.limit - self.used - self.reserve
        return f"context budget: {self.needed} more tokens do not fit, {left} of {self.limit} are left"


@dataclass(frozen=True, slots=True)
class TurnSpan:
    """One turn of the student: ids ``start`` to ``end`` (excluded), counted from the prompt's first id."""

    start: int
    end: int
    finish: Finish
    source: Source


@dataclass(frozen=True, slots=True)
class SftRow:
    """A row for supervised training; both lists have the ledger's length."""

    input_ids: list[int]
    labels: list[int]
    """The id itself where the student speaks, -100 elsewhere."""


@dataclass(frozen=True, slots=True)
class RolloutRow:
    """A row for TRL's ``rollout_func``.

    ``completion_ids``, ``env_mask`` and ``logprobs`` have equal lengths: everything after the prompt.
    """

    prompt_ids: list[int]
    completion_ids: list[int]
    env_mask: list[int]
    """1 where the student sampled, 0 where others spoke."""
    logprobs: list[float]
    """Of the sampling distribution; 0.0 where ``env_mask`` is 0."""
    turn_spans: list[tuple[int, int]]
    """Start and end (excluded) of each turn, counted from the first completion id."""


class TurnRecord(BaseModel):
    """A turn in the stored form; ``logprobs`` is null for a demonstration."""

    model_config = ConfigDict(extra="forbid", strict=True)

    start: int
    end: int
    finish: Finish
    logprobs: list[float] | None


class LedgerRecord(BaseModel):
    """A ledger in the stored form (JSON). Mask and labels follow from it and are not stored."""

    model_config = ConfigDict(extra="forbid", strict=True)

    schema_version: Literal[1] = 1
    limit: int
    prompt_length: int
    ids: list[int]
    turns: list[TurnRecord]


class TokenLedger:
    """The ids of one episode, in the order in which they came to be.

    Args:
        limit: Ids the episode may hold in all, prompt included: the model's context or a smaller budget.
    """

    def __init__(self, limit: int) -> None:
        if limit < 2:
            raise LedgerError(f"limit is {limit}: an episode needs room for a prompt and one sampled token")
        self.limit = limit
        self._ids: list[int] = []
        self._logprobs: list[float | None] = []
        self._turns: list[TurnSpan] = []
        self._prompt_length = 0

    @property
    def ids(self) -> tuple[int, ...]:
        """All ids so far: the context for the next turn."""
        return tuple(self._ids)

    @property
    def prompt_length(self) -> int:
        """How many ids the prompt has."""
        return self._prompt_length

    @property
    def turns(self) -> tuple[TurnSpan, ...]:
        """The student's turns, in order."""
        return tuple(self._turns)

    @property
    def room(self) -> int:
        """How many more ids fit."""
        return self.limit - len(self._ids)

    @property
    def mask(self) -> list[int]:
        """1 for each id of a turn, 0 for prompt and bridges."""
        mask = [0] * len(self._ids)
        for turn in self._turns:
            mask[turn.start : turn.end] = [1] * (turn.end - turn.start)
        return mask

    def prompt(self, ids: Sequence[int]) -> ContextBudget | None:
        """Start the episode with ``ids``, which end where the student begins to speak.

        Returns:
            None, or why the prompt does not fit (one more id has to fit after it).

        Raises:
            LedgerError: The ledger was already started, or ``ids`` is empty.
        """
        if self._ids:
            raise LedgerError("the ledger already has a prompt; use bridge() for what others say later")
        if not ids:
            raise LedgerError("a prompt needs at least one token")
        refused = self._extend(ids, reserve=1)
        if refused is None:
            self._prompt_length = len(ids)
        return refused

    def sampled(self, ids: Sequence[int], logprobs: Sequence[float], finish: Finish) -> ContextBudget | None:
        """Add what the student sampled, verbatim.

        Returns:
            None, or why the turn does not fit.

        Raises:
            LedgerError: No prompt or bridge came before, there are no ids, lengths differ, or a logprob is
                not finite or above zero.
        """
        if len(ids) != len(logprobs):
            raise LedgerError(f"{len(ids)} sampled tokens came with {len(logprobs)} logprobs; every token needs one")
        for place, logprob in enumerate(logprobs):
            if not math.isfinite(logprob) or logprob > 1e-3:  # rounding may leave a hair above log(1) = 0
                raise LedgerError(f"logprob {place} of the turn is {logprob}; expected a finite number, at most 0")
        return self._turn(ids, logprobs, finish, "sampled")

    def demonstrated(self, ids: Sequence[int]) -> ContextBudget | None:
        """Add a turn that a demonstration would have sampled; without logprobs, it makes no rollout row.

        Returns:
            None, or why the turn does not fit.

        Raises:
            LedgerError: No prompt or bridge came before, or no ids.
        """
        return self._turn(ids, [None] * len(ids), "stop", "demonstrated")

    def bridge(self, ids: Sequence[int]) -> ContextBudget | None:
        """Add what others said after a turn, up to and including the opening of the student's next turn.

        Returns:
            None, or why it does not fit (one more id has to fit after it).

        Raises:
            LedgerError: The last piece is not a turn, or ``ids`` is empty.
        """
        if not self._turns or self._turns[-1].end != len(self._ids):
            raise LedgerError("a bridge follows a turn; pass all messages between two turns in one bridge")
        if not ids:
            raise LedgerError("a bridge needs at least one token: it opens the student's next turn")
        return self._extend(ids, reserve=1)

    def to_sft(self) -> SftRow:
        """Return ids and labels for supervised training."""
        labels = [token if mine else IGNORED for token, mine in zip(self._ids, self.mask, strict=True)]
        return SftRow(list(self._ids), labels)

    def to_rollout(self) -> RolloutRow:
        """Return the row for TRL's ``rollout_func``.

        An episode cut after a bridge ends in masked ids; TRL reads the last id to tell a truncated row.

        Raises:
            LedgerError: There is no turn, or a turn is a demonstration.
        """
        if not self._turns:
            raise LedgerError("an episode without a turn is no rollout row; report it as failed instead")
        if any(turn.source == "demonstrated" for turn in self._turns):
            raise LedgerError("a demonstration has no logprobs and cannot be a rollout row; use to_sft()")
        at = self._prompt_length
        return RolloutRow(
            prompt_ids=self._ids[:at],
            completion_ids=self._ids[at:],
            env_mask=self.mask[at:],
            logprobs=[0.0 if logprob is None else logprob for logprob in self._logprobs[at:]],
            turn_spans=[(turn.start - at, turn.end - at) for turn in self._turns],
        )

    def to_record(self) -> LedgerRecord:
        """Return the stored form."""
        turns = [
            TurnRecord(
                start=turn.start,
                end=turn.end,
                finish=turn.finish,
                logprobs=None
                if turn.source == "demonstrated"
                else [logprob for logprob in self._logprobs[turn.start : turn.end] if logprob is not None],
            )
            for turn in self._turns
        ]
        return LedgerRecord(limit=self.limit, prompt_length=self._prompt_length, ids=list(self._ids), turns=turns)

    def to_json(self) -> str:
        """Return the stored form as JSON text."""
        return self.to_record().model_dump_json()

    @classmethod
    def from_record(cls, record: LedgerRecord) -> TokenLedger:
        """Rebuild a ledger by replaying its pieces, so a damaged record cannot pass.

        Raises:
            LedgerError: The pieces do not fit together.
        """
        ledger = cls(record.limit)
        if not record.ids and not record.turns and not record.prompt_length:
            return ledger
        ledger._replay(ledger.prompt(record.ids[: max(record.prompt_length, 0)]))
        for place, turn in enumerate(record.turns):
            if not len(ledger._ids) <= turn.start < turn.end <= len(record.ids):
                raise LedgerError(
                    f"turns[{place}] covers tokens {turn.start} to {turn.end}; expected a range between "
                    f"{len(ledger._ids)} and {len(record.ids)}"
                )
            if turn.start > len(ledger._ids):
                ledger._replay(ledger.bridge(record.ids[len(ledger._ids) : turn.start]))
            ids = record.ids[turn.start : turn.end]
            if turn.logprobs is None:
                ledger._replay(ledger.demonstrated(ids))
            else:
                ledger._replay(ledger.sampled(ids, turn.logprobs, turn.finish))
        if len(record.ids) > len(ledger._ids):
            ledger._replay(ledger.bridge(record.ids[len(ledger._ids) :]))
        return ledger

    @classmethod
    def from_json(cls, text: str | bytes) -> TokenLedger:
        """Rebuild a ledger from ``to_json()``.

        Raises:
            LedgerError: The text is not a ledger record, or its pieces do not fit together.
        """
        try:
            record = LedgerRecord.model_validate_json(text)
        except ValidationError as error:
            raise LedgerError(f"not a stored token ledger: {error}") from error
        return cls.from_record(record)

    def _turn(
        self, ids: Sequence[int], logprobs: Sequence[float | None], finish: Finish, source: Source
    ) -> ContextBudget | None:
        if not self._ids:
            raise LedgerError("the first turn needs a prompt before it")
        if self._turns and self._turns[-1].end == len(self._ids):
            raise LedgerError("two turns in a row: a bridge has to open the second one")
        if not ids:
            raise LedgerError("a turn needs at least one token")
        start = len(self._ids)
        refused = self._extend(ids, reserve=0, logprobs=logprobs)
        if refused is None:
            self._turns.append(TurnSpan(start, start + len(ids), finish, source))
        return refused

    def _extend(
        self, ids: Sequence[int], *, reserve: int, logprobs: Sequence[float | None] | None = None
    ) -> ContextBudget | None:
        if len(ids) + reserve > self.room:
            return ContextBudget(limit=self.limit, used=len(self._ids), needed=len(ids), reserve=reserve)
        self._ids.extend(ids)
        self._logprobs.extend([None] * len(ids) if logprobs is None else logprobs)
        return None

    @staticmethod
    def _replay(refused: ContextBudget | None) -> None:
        if refused is not None:
            raise LedgerError(f"the stored ledger is longer than its own limit ({refused})")
