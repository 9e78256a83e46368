"""The seam between the episode loop and an agent.

An agent is anything that can be asked for its next message. The loop tells it what is new (never the whole
conversation again) and gets one assistant message back: words for the user, or tool calls. A teacher behind
an API, a student that keeps one growing list of token ids, the oracle and a script all fit; none of them
touches the world except through the calls it asks for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from harness.messages import Message, ToolSpec

if TYPE_CHECKING:
    from harness.environment import Environment


@dataclass(frozen=True, slots=True)
class Briefing:
    """What an agent is told when an episode begins."""

    environment: Environment
    """For agents that play the environment's own oracle or a mutant of it. A model agent never looks into
    it."""
    system: str
    tools: tuple[ToolSpec, ...]
    seed: int
    """Seed of this trial, for agents that sample."""


@dataclass(frozen=True, slots=True)
class Usage:
    """What one message of an agent cost."""

    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost: float = 0.0
    """US dollars; 0 when the price is unknown."""


@dataclass(frozen=True, slots=True)
class AgentTurn:
    """One message of an agent."""

    message: Message
    usage: Usage = Usage()
    finished: bool = False
    """The agent will not say anything more; the episode ends after this message."""
    queued: float = 0.0
    """Real seconds that this message waited before anybody worked on it; not counted against the episode."""


class Session(Protocol):
    """An agent in one episode."""

    async def act(self, news: Sequence[Message]) -> AgentTurn:
        """Take in what is new and give the next message.

        The first call brings the system message and the request; later ones bring tool results or what the
        user said.

        Raises:
            EpisodeFault: With the status that says whose fault it is.
        """
        ...

    def record(self) -> dict[str, Any]:
        """What a trajectory should keep beyond messages, such as token ids; plain JSON."""
        ...


class Agent(Protocol):
    """Something that can act in any number of episodes, also at the same time."""

    @property
    def name(self) -> str:
        """Unique in a run; part of file names."""
        ...

    async def begin(self, briefing: Briefing) -> Session:
        """Start an episode."""
        ...

    async def close(self) -> None:
        """Free what the agent holds; called once, after the last episode."""
        ...


@dataclass(slots=True)
class NoRecord:
    """Base for agents that keep nothing beyond messages and hold no resources."""

    _nothing: dict[str, Any] = field(default_factory=dict[str, Any], init=False)

    def record(self) -> dict[str, Any]:
        """Nothing."""
        return self._nothing

    async def close(self) -> None:
        """Nothing to free."""
