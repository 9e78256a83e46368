"""Tool calls and tool lists as text: how a small student reads tools and writes calls.

A JSON schema of one tool takes a 135M student hundreds of tokens; its signature takes about twenty.
``signature`` writes the line, ``write_calls`` and ``read_turn`` write and read ``<tool_call>`` blocks.

``read_turn`` never raises: a student may sample anything, and a call that cannot be read is data (a
``ToolCall`` with a ``problem``) that the episode answers with an error result.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, cast

from harness.messages import JsonObject, Message, ToolCall, ToolSpec

CALL_OPEN, CALL_CLOSE = "<tool_call>", "</tool_call>"
_THOUGHT = re.compile(r"<think>.*?(?:</think>|\Z)", re.DOTALL)
_DESCRIPTION_LIMIT = 100
_EXAMPLE = '{"name": ..., "arguments": {...}}'
_NESTING = 2
"""Levels of objects a signature spells out; deeper ones are just ``object``."""


def signature(tool: ToolSpec) -> str:
    """Write a tool as one line, such as ``ticket_get(ticket_id: string, full?: boolean) - Read a ticket``."""
    text = " ".join(tool.description.split())
    text = re.split(r"(?<=[.!?])\s", text, maxsplit=1)[0].rstrip(".")
    if len(text) > _DESCRIPTION_LIMIT:
        text = text[: _DESCRIPTION_LIMIT - 3].rsplit(" ", 1)[0] + "..."
    line = f"{tool.name}({_fields(tool.input_schema, _NESTING)})"
    return f"{line} - {text}" if text else line


def write_calls(calls: Sequence[ToolCall]) -> str:
    """Write calls as ``<tool_call>`` blocks, one a line, in compact JSON."""
    return "\n".join(
        CALL_OPEN
        + json.dumps({"name": call.name, "arguments": call.arguments}, ensure_ascii=False, separators=(",", ":"))
        + CALL_CLOSE
        for call in calls
    )


def read_turn(text: str, *, call_prefix: str = "call") -> Message:
    """Read what an assistant wrote: its thoughts are dropped, calls are taken out, the rest is the message.

    Args:
        text: One turn, without its end-of-turn token.
        call_prefix: Calls get the ids ``{call_prefix}_1``, ``{call_prefix}_2``, ...

    Returns:
        An assistant message; calls that cannot be read carry a ``problem``.
    """
    said: list[str] = []
    calls: list[ToolCall] = []
    rest = _THOUGHT.sub("", text)
    while True:
        before, opened, after = rest.partition(CALL_OPEN)
        said.append(before)
        if not opened:
            break
        body, closed, rest = after.partition(CALL_CLOSE)
        call_id = f"{call_prefix}_{len(calls) + 1}"
        if closed:
            calls.append(_read_call(call_id, body))
        else:
            calls.append(_unreadable(call_id, f"the call is not closed with {CALL_CLOSE}"))
    content = "\n".join(part.strip() for part in said if part.strip())
    return Message(role="assistant", content=content, tool_calls=tuple(calls))


def _read_call(call_id: str, body: str) -> ToolCall:
    try:
        found: object = json.loads(body, parse_constant=_no_constant)
        # Half a surrogate pair is fine JSON, and would break every store it reaches later.
        json.dumps(found, ensure_ascii=False).encode("utf-8")
    except (ValueError, RecursionError) as error:
        return _unreadable(call_id, f"the call is not valid JSON: {error}")
    if not isinstance(found, dict):
        return _unreadable(call_id, f"the call is a JSON {_kind(found)}; expected an object like {_EXAMPLE}")
    call = cast("dict[str, object]", found)
    name, arguments = call.get("name"), call.get("arguments", {})
    if not isinstance(name, str) or not name:
        return _unreadable(call_id, 'the call has no "name"; expected the name of a tool as a string')
    extra = sorted(set(call) - {"name", "arguments"})
    if not isinstance(arguments, dict):
        return _unreadable(call_id, f'"arguments" is a JSON {_kind(arguments)}; expected an object', name)
    if extra:
        return _unreadable(call_id, f'unknown keys {extra}; arguments belong inside "arguments"', name)
    return ToolCall(id=call_id, name=name, arguments=cast("JsonObject", arguments))


def _unreadable(call_id: str, problem: str, name: str = "") -> ToolCall:
    return ToolCall(id=call_id, name=name, problem=problem)


def _no_constant(name: str) -> float:
    raise ValueError(f"{name} is not JSON")


def _kind(value: object) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case str():
            return "string"
        case list():
            return "array"
        case dict():
            return "object"
        case _:
            return "number"


def _fields(schema: Mapping[str, Any], depth: int) -> str:
    properties = cast("dict[str, Any]", schema.get("properties") or {})
    required = set(cast("list[str]", schema.get("required") or []))
    return ", ".join(
        f"{name}{'' if name in required else '?'}: {_type(field, depth - 1)}" for name, field in properties.items()
    )


def _type(schema: object, depth: int) -> str:
    if not isinstance(schema, dict):
        return "any"
    known = cast("dict[str, Any]", schema)
    literals = [known["const"]] if "const" in known else known.get("enum")
    if literals:
        return "|".join(json.dumps(literal, ensure_ascii=False) for literal in literals)
    options = known.get("anyOf") or known.get("oneOf")
    if options:
        return "|".join(dict.fromkeys(_type(option, depth) for option in options))
    match known.get("type", "any"):
        case "array":
            return f"{_type(known.get('items'), depth)}[]"
        case "object" if known.get("properties") and depth > 0:
            return f"{{{_fields(known, depth)}}}"
        case kind:
            return "|".join(cast("list[str]", kind)) if isinstance(kind, list) else str(kind)
