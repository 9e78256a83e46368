"""What is said in an episode: messages, tool calls and one turn of an agent.

These are the only shapes that cross the seam between the episode loop and an agent, so a teacher behind an
API, a student that thinks in token ids, the oracle and a script all look the same from outside.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

Role = Literal["system", "user", "assistant", "tool"]
JsonObject = dict[str, Any]


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call that an agent asks for.

    ``problem`` is set when the agent's text could not be read as a call (bad JSON, no name): the episode
    loop answers it with an error result, as any other failed call, and nothing is dispatched.
    """

    id: str
    name: str
    arguments: JsonObject = field(default_factory=dict[str, Any])
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class Message:
    """One message of the conversation, in the order in which it was said."""

    role: Role
    content: str
    tool_calls: tuple[ToolCall, ...] = ()
    """Assistant messages only: the calls this message asks for."""
    tool_call_id: str | None = None
    """Tool messages only: which call this answers."""
    is_error: bool = False
    """Tool messages only: the tool refused or failed."""


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """A tool as the agent sees it: exactly what the MCP server listed."""

    name: str
    description: str
    input_schema: JsonObject
