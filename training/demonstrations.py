"""Demonstrations: trajectories of a teacher as rows for supervised training, with exact ids and masks.

A trajectory's messages are written once through the student's own chat format into a token ledger. The labels of a row are the ids that
the student would have sampled; everything that others said is masked. The same ledger serves reinforcement rows, so both trainers see one
and the same token sequence for the same conversation.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from harness.agents.base import Agent
from harness.agents.scripted import oracle
from harness.environment import Environment
from harness.episode import messages_of, run_episode
from harness.messages import Message, ToolSpec
from harness.trajectory import Trajectory
from training.chat import ChatFormat
from training.errors import TrainingError
from training.ledger import SftRow, TokenLedger


class DemonstrationError(TrainingError):
    """A trajectory cannot be used as a demonstration."""


def ledger_of(trajectory: Trajectory, chat: ChatFormat, *, limit: int) -> TokenLedger:
    """Write a trajectory into a ledger as the student would have lived it.

    Raises:
        DemonstrationError: It is longer than ``limit`` ids, or does not begin with a prompt.
    """
    messages = [message for message in messages_of(trajectory) if message.content or message.tool_calls]
    tools = tuple(ToolSpec(tool["name"], tool["description"], tool["input_schema"]) for tool in trajectory.tools)
    ledger = TokenLedger(limit)
    pieces = _pieces(messages)
    opening, turn = next(pieces, ((), None))
    if turn is None:
        raise DemonstrationError(f"{trajectory.environment}: the agent of this trajectory never said anything")
    refused = ledger.prompt(chat.opening(opening, tools)) or ledger.demonstrated(chat.assistant(turn))
    for others, turn in pieces:
        if refused is None:
            refused = ledger.bridge(chat.bridge(others, closed=True)) or ledger.demonstrated(chat.assistant(turn))
    if refused is not None:
        raise DemonstrationError(f"{trajectory.environment}: {refused}. Use a longer context or a smaller family.")
    return ledger


async def demonstrate(
    environments: Sequence[Environment], chat: ChatFormat, *, limit: int, teacher: Agent | None = None
) -> list[SftRow]:
    """Let a teacher (the oracle by default) solve environments, and turn what passed into rows.

    Raises:
        DemonstrationError: No episode passed, or one is too long.
    """
    teacher = teacher or oracle()
    rows: list[SftRow] = []
    for environment in environments:
        trajectory = await run_episode(environment, teacher)
        if trajectory.score is not None and trajectory.score.passed:
            rows.append(ledger_of(trajectory, chat, limit=limit).to_sft())
    if not rows:
        raise DemonstrationError(f"{teacher.name} passed none of {len(environments)} environments")
    return rows


def _pieces(messages: Sequence[Message]) -> Iterator[tuple[tuple[Message, ...], Message]]:
    """What others said, and the turn that followed; words of others after the last turn drop out."""
    others: list[Message] = []
    for message in messages:
        if message.role == "assistant":
            yield tuple(others), message
            others = []
        else:
            others.append(message)
