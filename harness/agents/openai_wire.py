"""Our messages in OpenAI's wire format, and what is believed of an answer in it.

``Conversation`` keeps the messages of a request as they go over the wire. It repeats an answer with
everything that was in it, because some providers want their own fields back (signed thoughts), and mends only
what no provider would take again: missing ids, arguments that are no JSON, empty text.

What a model writes badly is never an error here. A call that cannot be read becomes a ``ToolCall`` with a
``problem`` that tells the model how to mend it; its text is kept under ``unreadable``, as in the journal.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from pydantic import BaseModel, Field
from pydantic_core import from_json, to_json

from harness.messages import Message, ToolCall, ToolSpec

JsonObject = dict[str, Any]
SILENCE = "(no answer)"
"""What the model reads of its own empty answers; providers refuse empty messages."""
UNNAMED = "unnamed"
UNREADABLE = "unreadable"
_SHOWN = 200


class Function(BaseModel):
    """What a call wants to call."""

    name: str | None = None
    arguments: Any = None
    """JSON text; some servers send the object itself."""


class RequestedCall(BaseModel):
    """A call as the provider sends it."""

    id: Any = None
    function: Function


class Said(BaseModel):
    """The message of an answer."""

    content: str | None = None
    reasoning_content: str | None = None
    tool_calls: list[RequestedCall] | None = None


class Choice(BaseModel):
    """One of the answers; only the first is used."""

    message: Said
    finish_reason: str | None = None


class TokenCounts(BaseModel):
    """What the provider counted."""

    prompt_tokens: int = 0
    completion_tokens: int = 0


class Answer(BaseModel):
    """What is believed of an answer; anything else is none."""

    choices: list[Choice] = Field(min_length=1)
    usage: TokenCounts | None = None


def function_spec(tool: ToolSpec) -> JsonObject:
    """A tool as the wire format names it, exactly as MCP listed it."""
    function = {"name": tool.name, "description": tool.description, "parameters": tool.input_schema}
    return {"type": "function", "function": function}


@dataclass(slots=True)
class Conversation:
    """The messages of one episode, as they are sent."""

    messages: list[JsonObject] = field(default_factory=list[JsonObject])
    _ids: set[str] = field(default_factory=set[str])

    def hear(self, news: Sequence[Message]) -> None:
        """Add what the model has not read yet."""
        for message in news:
            wire: JsonObject = {"role": message.role, "content": message.content}
            if message.role == "tool":
                wire["tool_call_id"] = message.tool_call_id
            self.messages.append(wire)

    def speak(self, choice: Choice, raw: JsonObject) -> Message:
        """Add an answer; gives it as our message.

        Args:
            choice: The answer as it was validated.
            raw: Its message with all fields.
        """
        said = choice.message
        cut = choice.finish_reason == "length"
        calls = tuple(self._call(requested, cut=cut) for requested in said.tool_calls or ())
        text = clean(said.content or "")
        wire: JsonObject = {**raw, "role": "assistant", "content": text or (None if calls else SILENCE)}
        if calls:
            sent: list[JsonObject] = raw["tool_calls"]
            wire["tool_calls"] = [_repeated(one, call) for one, call in zip(sent, calls, strict=True)]
        self.messages.append(wire)
        return Message("assistant", text, calls)

    def _call(self, requested: RequestedCall, *, cut: bool) -> ToolCall:
        name = clean(requested.function.name or "").strip()
        arguments, problem = read_arguments(requested.function.arguments)
        if not name:
            problem = "A call without the name of a tool was not made. Send it again with a name."
            name = UNNAMED
        elif problem:
            problem = f"{name} was not called: {problem}"
        if problem and cut:
            problem += " The message was cut off at the most tokens that one may have; write a shorter one."
        return ToolCall(self._fresh_id(requested.id), name, arguments, problem)

    def _fresh_id(self, given: object) -> str:
        """The provider's id, or one of ours where it gave none or the same twice."""
        number = len(self._ids) + 1
        name = clean(given) if isinstance(given, str) else ""
        while not name or name in self._ids:
            name = f"call_{number}"
            number += 1
        self._ids.add(name)
        return name


def read_arguments(given: object) -> tuple[JsonObject, str | None]:
    """The arguments of a call, and what is wrong with them.

    Nothing at all reads as no arguments, which is what servers send for tools that take none.
    """
    if given is None or (isinstance(given, str) and not given.strip()):
        return {}, None
    text = given if isinstance(given, str) else json.dumps(given)
    try:
        value = from_json(text, allow_inf_nan=False)
    except ValueError as error:
        problem = f"its arguments are no JSON ({error})."
    else:
        if isinstance(value, dict):
            return value, None  # pyright: ignore[reportUnknownVariableType]
        problem = "its arguments are no JSON object."
    text = clean(text)
    shown = text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
    return {UNREADABLE: text}, f'{problem} Write one object, such as {{"name": "value"}}; got {shown}'


def clean(text: str) -> str:
    """A text that can be stored: halves of surrogate pairs, which are no text, are replaced."""
    return text.encode("utf-8", "replace").decode()


def _repeated(sent: JsonObject, call: ToolCall) -> JsonObject:
    """A call as the next request repeats it: as it was sent, with what had to be mended."""
    arguments = to_json(call.arguments).decode()
    function: JsonObject = {**sent["function"], "name": call.name, "arguments": arguments}
    return {**sent, "type": "function", "id": call.id, "function": function}
