"""Talking to the user with a tool, for agents that have nothing but MCP.

An agent that the harness drives talks by ending its turn, and the control plane has a route for it; a plain MCP
client has neither. ``talking_desk`` gives a desk one more tool, ``user_message``, which hands words to the
simulated user and returns the answer.

The tool never goes through the door of the world: saying something ends the agent's turn, which lets events
happen, and those must not stand inside the call's savepoint. So it is answered at the desk, and stands in the
conversation and not in the journal, as words to the user always do.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

from pydantic import Field
from pydantic_core import to_json

from harness.user import UserReply
from servers.desk import Desk
from servers.errors import Problem, SpecError, ToolError
from servers.tools import Arguments, Call, tool
from servers.world import CallResult

NAME = "user_message"
SERVICE = "user"
"""Under which ``/e/{token}/{service}/mcp`` the tool is served alone."""
Say = Callable[[str], UserReply]


class UserMessage(Arguments):
    """Say something to your user, and get the answer.

    Ask here for what only the user can tell, and report here when you are done. The answer is empty when the user
    has nothing more to say.
    """

    text: str = Field(min_length=1)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class TalkingDesk(Desk):
    """A desk at which the user can be spoken to."""

    say: Say

    def call(self, tool: str, arguments: Mapping[str, Any]) -> CallResult:
        """Call a tool, or speak to the user."""
        if tool != NAME or NAME not in self.tools:
            return Desk.call(self, tool, arguments)
        try:
            words: UserMessage = TOOL.parse(arguments)
        except ToolError as refusal:
            return CallResult(False, str(refusal), None, self.world.journal_length)
        if self.think:
            self.world.advance(self.think)
        reply = self.say(words.text)
        value = {"answer": reply.text, "ended": reply.stop}
        return CallResult(True, to_json(value).decode(), value, self.world.journal_length)

    def service_of(self, tool: str) -> str:
        """The name of the service that a tool belongs to."""
        return SERVICE if tool == NAME else Desk.service_of(self, tool)


def talking_desk(desk: Desk, say: Say) -> TalkingDesk:
    """The same desk with the tool ``user_message``.

    Args:
        desk: The agent's.
        say: Hands words to the user; ends the agent's turn.

    Raises:
        SpecError: The workplace has a tool or a service of this name already.
    """
    if NAME in desk.tools or SERVICE in {desk.service_of(name) for name in desk.tools}:
        problem = f"the workplace has a tool {NAME!r} or a service {SERVICE!r} of its own"
        raise SpecError([Problem("duplicate_name", "--talk", problem, "Serve it without --talk.")])
    return TalkingDesk(desk.world, desk.actor, {**desk.tools, NAME: TOOL}, desk.notices, desk.think, say=say)


def _not_in_the_world(call: Call, arguments: UserMessage) -> NoReturn:
    raise call.refuse("there is no user at this desk")


TOOL = tool(NAME, UserMessage, _not_in_the_world, effect="write")
