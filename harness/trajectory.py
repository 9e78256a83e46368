"""The full record of one episode.

A trajectory holds nothing that depends on the wall clock or the machine: the same environment, agent and seed
give the same bytes. What it cost in real time stands in the episode's summary (``harness.runs``).
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from harness.errors import Status

SCHEMA = "coworkenv/trajectory/1"


class Model(BaseModel):
    """Base of what stands in result files."""

    model_config = ConfigDict(extra="forbid")


class CallRecord(Model):
    """A tool call of an assistant message."""

    id: str
    name: str
    arguments: dict[str, Any]
    problem: str | None = None


class MessageRecord(Model):
    """A message, and the simulated time at which it was said."""

    role: Literal["system", "user", "assistant", "tool"]
    content: str
    at: str
    calls: list[CallRecord] = Field(default_factory=list[CallRecord])
    call_id: str | None = None
    is_error: bool = False
    state: str | None = None
    """Assistant messages: hash of all records before what the message asked for was done."""


class JournalRecord(Model):
    """A journal entry with the rows it changed."""

    seq: int
    at: str
    actor: str
    person: str
    tool: str
    arguments: dict[str, Any]
    error: str | None = None
    event: str | None = None
    changes: list[ChangeRecord] = Field(default_factory=list["ChangeRecord"])


class ChangeRecord(Model):
    """A row before and after; only the fields that differ for an update."""

    type: str
    key: str
    operation: Literal["created", "updated", "deleted"]
    before: dict[str, Any] | None = None
    after: dict[str, Any] | None = None


class CheckRecord(Model):
    """What a check decided."""

    id: str
    kind: str
    about: str
    guard: bool
    verdict: Literal["PASS", "FAIL", "ERROR"]
    detail: str


class ScoreRecord(Model):
    """The score vector."""

    total: float
    completion: float
    constraint: float
    communication: float
    robustness: float
    efficiency: float
    gate: bool
    passed: bool


class Trajectory(Model):
    """One episode."""

    schema_: Literal["coworkenv/trajectory/1"] = Field(default=SCHEMA, alias="schema")
    model_config = ConfigDict(extra="forbid", populate_by_name=True)

    environment: str
    digest: str
    """Content hash of the environment."""
    family: str
    agent: str
    trial: int
    seed: int
    status: Status
    reason: str
    """Why the episode ended: ``user_stop``, ``agent_stop``, ``max_steps``, ``max_turns``, ``deadline``, or
    what broke."""
    truncated: bool
    messages: list[MessageRecord]
    tools: list[dict[str, Any]]
    """What the agent saw of its tools: name, description, input_schema."""
    journal: list[JournalRecord]
    checks: list[CheckRecord]
    score: ScoreRecord | None
    usage: dict[str, float]
    state: str
    """Hash of all records at the end."""
    extra: dict[str, Any] = Field(default_factory=dict[str, Any])
    """What the agent keeps: token ids, masks, log probabilities."""


JournalRecord.model_rebuild()
