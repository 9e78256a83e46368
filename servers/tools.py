"""Tools: typed functions of a service that a person or an agent may call.

* ``Arguments``: base of the argument models of built-in tools; the JSON schema that agents see is derived from it.
* ``Tool``: a declaration. It knows nothing about serving; ``servers.mcp`` turns it into an MCP tool, and a world runs
  it.
* ``Call``: what a running tool is given: the world, who calls, when, ids, times in the caller's zone.
* ``Service``: record types and tools under one name.

A tool that refuses raises ``ToolError``; whatever it wrote is rolled back. A tool never sees wall time, global
randomness, the file system or the network.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal, TypeVar
from zoneinfo import ZoneInfo

from pydantic import BaseModel, ConfigDict, ValidationError

from servers.errors import Problem, ToolError
from servers.records import Record

if TYPE_CHECKING:
    from servers.people import Person
    from servers.world import World

JsonObject = dict[str, Any]
Effect = Literal["read", "write", "destroy"]
A = TypeVar("A", bound="Arguments")


class Arguments(BaseModel):
    """Base of argument models. The docstring of a model is the description of its tool.

    Strict: a number in quotes is a wrong type, as it is for the services that agents meet in the world.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


@dataclass(frozen=True, slots=True, eq=False)
class Tool:
    """A tool as declared."""

    name: str
    description: str
    input_schema: JsonObject
    parse: Callable[[Mapping[str, Any]], Any]
    """Validates arguments; raises ToolError with a text that helps."""
    run: Callable[[Call, Any], JsonObject]
    effect: Effect
    """``read`` changes nothing; ``write`` adds or changes; ``destroy`` removes or cannot be taken back."""
    idempotent: bool
    """Calling twice with the same arguments changes no more than calling once."""
    latency: int
    """Simulated seconds that a call takes."""
    waits: Callable[[Any], int] | None = None
    """For tools that wait.

    The most seconds, from the parsed arguments. The door waits until the next event, then runs the tool.
    """


def tool(
    name: str,
    arguments: type[A],
    run: Callable[[Call, A], JsonObject],
    *,
    effect: Effect = "read",
    idempotent: bool | None = None,
    latency: int = 1,
    waits: Callable[[A], int] | None = None,
) -> Tool:
    """Declare a built-in tool from its argument model and the function that does the work."""
    return Tool(
        name=name,
        description=_paragraph(arguments.__doc__ or ""),
        input_schema=input_schema(arguments),
        parse=_parser(name, arguments),
        run=run,
        effect=effect,
        idempotent=effect == "read" if idempotent is None else idempotent,
        latency=latency,
        waits=waits,
    )


@dataclass(frozen=True, slots=True, eq=False)
class Service:
    """A mock application: record types and tools under one name."""

    name: str
    title: str
    summary: str
    """One sentence for people who choose services."""
    records: tuple[type[Record], ...]
    tools: tuple[Tool, ...]
    check: Callable[[Mapping[str, Mapping[str, Record]], int], list[Problem]] | None = None
    """Finds what ids and types cannot show (a message from the future) in records by type and key, given the start."""
    prepare: Callable[[World], None] | None = None
    """Runs once when an image is built: derives what an author should not have to write, such as mailbox copies."""


@dataclass(frozen=True, slots=True)
class Call:
    """What a running tool is given."""

    world: World
    tool: str
    person: Person
    """Whose rights the call has: the person who calls, or for whom the agent works."""
    now: int
    """Simulated time, seconds since 1970 UTC."""

    def new_id(self, kind: str) -> str:
        """A fresh opaque id of 16 hex digits from the seeded stream of ``kind``."""
        return self.world.new_id(kind)

    def local(self, instant: int, timezone: str | None = None) -> str:
        """An instant as ISO time with offset in the caller's (or the given) time zone."""
        return local_time(instant, timezone or self.person.timezone)

    def instant(self, text: str, argument: str) -> int:
        """Read a time argument: ISO, with offset or in the caller's own zone.

        Raises:
            ToolError: The text is no time.
        """
        try:
            moment = datetime.fromisoformat(text)
        except ValueError:
            raise ToolError(
                f"{self.tool}: {argument} {text!r} is not a time. Write it like 2026-03-02T09:00:00 "
                f"(your time zone, {self.person.timezone}) or 2026-03-02T09:00:00+01:00."
            ) from None
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=zone(self.person.timezone))
        return int(moment.timestamp())

    def refuse(self, message: str) -> ToolError:
        """A refusal that names the tool; raise it."""
        return ToolError(f"{self.tool}: {message}")


@lru_cache(maxsize=512)
def zone(name: str) -> ZoneInfo:
    """The time zone of an IANA name, kept for the life of the process."""
    return ZoneInfo(name)


@lru_cache(maxsize=16384)
def local_time(instant: int, timezone: str) -> str:
    """An instant as ISO time with the offset of an IANA zone.

    Pages of records ask for the same ones again and again.
    """
    return datetime.fromtimestamp(instant, zone(timezone)).isoformat()


def input_schema(model: type[BaseModel]) -> JsonObject:
    """The JSON schema of an argument model as agents should see it: inlined, no titles, no nullable unions."""
    schema = model.model_json_schema()
    definitions: Mapping[str, Any] = schema.pop("$defs", {})
    plain = _plain(schema, definitions)
    plain.pop("description", None)
    plain.setdefault("properties", {})
    return plain


def _plain(node: Any, definitions: Mapping[str, Any], *, properties: bool = False) -> Any:  # noqa: ANN401 - JSON
    if isinstance(node, list):
        return [_plain(item, definitions) for item in node]  # pyright: ignore[reportUnknownVariableType]
    if not isinstance(node, dict):
        return node
    schema: JsonObject = dict(node)  # pyright: ignore[reportUnknownArgumentType]
    if properties:
        return {name: _plain(value, definitions) for name, value in schema.items()}
    if "$ref" in schema:
        target: JsonObject = definitions[schema.pop("$ref").rsplit("/", 1)[1]]
        schema = {**target, **schema}
    if "anyOf" in schema:
        options = [option for option in schema["anyOf"] if option != {"type": "null"}]
        if len(options) == 1:
            schema.pop("anyOf")
            schema = {**options[0], **schema}
            if schema.get("default") is None:
                schema.pop("default", None)
            return _plain(schema, definitions)
    schema.pop("title", None)
    return {key: _plain(value, definitions, properties=key == "properties") for key, value in schema.items()}


def describe_arguments(schema: Mapping[str, Any]) -> str:
    """Name the arguments of a tool in one line, for error messages."""
    required = set(schema.get("required", ()))
    parts: list[str] = []
    for name, value in schema.get("properties", {}).items():
        kind = value.get("type", "value")
        if kind == "array":
            kind = f"list of {value.get('items', {}).get('type', 'value')}"
        if "enum" in value:
            kind = "one of " + ", ".join(str(option) for option in value["enum"])
        parts.append(f"{name} ({kind}{', required' if name in required else ''})")
    return "Arguments: " + "; ".join(parts) + "." if parts else "It takes no arguments."


def _parser(name: str, model: type[A]) -> Callable[[Mapping[str, Any]], A]:
    def parse(arguments: Mapping[str, Any]) -> A:
        try:
            return model.model_validate(arguments)
        except ValidationError as error:
            raise ToolError(argument_errors(name, error, input_schema(model))) from None

    return parse


def argument_errors(name: str, error: ValidationError, schema: Mapping[str, Any]) -> str:
    """Put pydantic's findings about arguments into words that let the caller mend the call."""
    found: list[str] = []
    for item in error.errors(include_url=False, include_context=False):
        where = ".".join(str(part) for part in item["loc"]) or "arguments"
        if item["type"] == "missing":
            found.append(f"{where} is required")
        elif item["type"] == "extra_forbidden":
            found.append(f"{where} is not an argument of this tool")
        else:
            message = item["msg"].removeprefix("Value error, ").removeprefix("Input ")
            found.append(f"{where} {message} (got {item['input']!r:.60})")
    return f"{name}: {'; '.join(found)}. {describe_arguments(schema)}"


def _paragraph(text: str) -> str:
    return " ".join(text.split())
