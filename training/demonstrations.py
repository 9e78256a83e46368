"""Demonstrations: trajectories of a teacher as rows for supervised training, with exact ids and masks.

A trajectory's messages are written once through the student's own chat format into a token ledger. The labels
of a row are the ids that the student would have sampled; everything that others said is masked. The same
ledger serves reinforcement rows, so both trainers see one and the same token sequence for the same
conversation.

``check_fit`` asks the same question for reinforcement: whether a solved episode fits into the context at all.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from harness.agents.base import Agent
from harness.agents.scripted import oracle
from harness.environment import Environment
from harness.episode import messages_of, run_episode
from harness.messages import Message, ToolSpec
from harness.trajectory import Trajectory
from training.chat import ChatFormat
from training.errors import DemonstrationError, SettingsError
from training.ledger import SftRow, TokenLedger

_UNLIMITED = 2**31


def ledger_of(trajectory: Trajectory, chat: ChatFormat) -> TokenLedger:
    """Write a trajectory into a ledger as the student would have lived it, up to the teacher's last turn.

    Raises:
        DemonstrationError: The agent of the trajectory never said anything.
    """
    ledger = TokenLedger(_UNLIMITED)
    for others, turn in _pieces(messages_of(trajectory)):
        if ledger.turns:
            ledger.bridge(chat.bridge(others, closed=True))
        else:
            ledger.prompt(chat.opening(others, _tools(trajectory)))
        ledger.demonstrated(chat.assistant(turn))
    if not ledger.turns:
        raise DemonstrationError(f"{trajectory.environment}: the agent of this trajectory never said anything")
    return ledger


async def demonstrate(
    environments: Sequence[Environment], chat: ChatFormat, *, limit: int, teacher: Agent | None = None
) -> list[SftRow]:
    """Let a teacher (the oracle by default) solve environments, and turn what passed into rows.

    Raises:
        DemonstrationError: No episode passed.
        SettingsError: Demonstrations are longer than ``limit`` ids; names them and the length that is needed.
    """
    teacher = teacher or oracle()
    ledgers: dict[str, TokenLedger] = {}
    for environment in environments:
        trajectory = await run_episode(environment, teacher)
        if trajectory.score is not None and trajectory.score.passed:
            ledgers[environment.id] = ledger_of(trajectory, chat)
    if not ledgers:
        raise DemonstrationError(f"{teacher.name} passed none of {len(environments)} environments")
    _check_lengths({name: len(ledger.ids) for name, ledger in ledgers.items()}, limit)
    return [ledger.to_sft() for ledger in ledgers.values()]


async def check_fit(environments: Sequence[Environment], chat: ChatFormat, *, limit: int) -> None:
    """Make sure that what solves each environment fits into ``limit`` ids; without an oracle, its beginning.

    Raises:
        SettingsError: It does not; names the environments and the length that is needed.
    """
    lengths: dict[str, int] = {}
    for environment in environments:
        trajectory = await run_episode(environment, oracle())
        if environment.oracle:
            lengths[environment.id] = len(ledger_of(trajectory, chat).ids)
        else:
            opening = [message for message in messages_of(trajectory)[:2] if message.role != "assistant"]
            lengths[environment.id] = len(chat.opening(opening, _tools(trajectory))) + 1
    _check_lengths(lengths, limit)


def _check_lengths(lengths: Mapping[str, int], limit: int) -> None:
    long = [name for name, length in lengths.items() if length > limit]
    if long:
        raise SettingsError(
            f"{len(long)} of {len(lengths)} environments do not fit into a context of {limit} tokens (the first is "
            f"{long[0]}, the longest needs {max(lengths.values())}). Use a context of {max(lengths.values())} or "
            "more, or a family with fewer tools and shorter records"
        )


def _tools(trajectory: Trajectory) -> tuple[ToolSpec, ...]:
    return tuple(ToolSpec(tool["name"], tool["description"], tool["input_schema"]) for tool in trajectory.tools)


def _pieces(messages: Sequence[Message]) -> Iterator[tuple[tuple[Message, ...], Message]]:
    """What others said, and the turn that followed; words of others after the last turn drop out."""
    others: list[Message] = []
    for place, message in enumerate(messages, start=1):
        if message.role != "assistant":
            others.append(message)
        elif message.content or message.tool_calls or place < len(messages):
            yield tuple(others), message
            others = []
        # else: a script that has come to its end says nothing, which is no turn to learn.
