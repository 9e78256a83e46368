"""The form of a declared service: plain data, unknown keys are an error with a path.

A small one, as it stands in an environment file::

    name: bookings
    title: Room bookings
    entities:
      - name: booking
        key: booking_id
        id_prefix: BK-
        fields:
          room: {type: string, required: true}
          day: {type: string, format: date, required: true}
          state: {type: string}
        lifecycle: {field: state, initial: held, transitions: {held: [confirmed, cancelled], confirmed:
        [cancelled]}}
    tools:
      - name: bookings_list
        description: List bookings of a day.
        input_schema: {type: object, properties: {day: {type: string}}, required: [day]}
        does: {operation: list, entity: booking, result: bookings, filters: [{argument: day, op: on_day,
        fields: [day]}]}
      - name: bookings_confirm
        description: Confirm a held booking.
        input_schema: {type: object, properties: {booking_id: {type: string}}, required: [booking_id]}
        does: {operation: transition, entity: booking, target: {argument: booking_id}, to: confirmed}

What a tool does is one of the operations below. Arguments with the name of a field fill that field on
``create``, ``append`` and ``update``; every other argument must be read by something
(``servers.declared.rules``), so that no argument is silently ignored.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

from pydantic import Field, JsonValue, model_validator

from servers.events import Spec

Name = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]*$", max_length=60)]
FieldName = Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9_]*$", max_length=60)]
ToolName = Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9_.-]*$", max_length=128)]
FieldType = Literal["string", "number", "integer", "boolean", "instant", "list", "object", "any"]


class FieldSpec(Spec):
    """A field of an entity. Without ``required`` and ``default`` it may be missing, which reads as null."""

    type: FieldType
    required: bool = False
    default: JsonValue = None
    enum: list[str] | None = None
    """The only values, for strings."""
    ref: str | None = None
    """The value (each item of a list) is the key of a record: an entity of this service, or
    ``service.entity``."""
    format: Literal["date", "time"] | None = None
    """A text that tools accept only when it is a date, or a date with or without a time. Records keep it as
    written."""
    sparse: bool = False
    """Left out of answers while it has no value; otherwise it is shown as null."""
    description: str = ""


class LifecycleSpec(Spec):
    """A status field and its allowed transitions. New records begin in ``initial``."""

    field: FieldName
    initial: str
    transitions: dict[str, list[str]]
    """Status to the statuses that may follow; a status that is only a target is an end."""

    @property
    def states(self) -> tuple[str, ...]:
        """All statuses, in order of mention."""
        named = [
            self.initial,
            *self.transitions,
            *(after for follow in self.transitions.values() for after in follow),
        ]
        return tuple(dict.fromkeys(named))


class EntitySpec(Spec):
    """A kind of record."""

    name: Name
    key: FieldName
    """The field that identifies a record; always a string."""
    fields: dict[FieldName, FieldSpec] = Field(default_factory=dict[str, FieldSpec])
    open: bool = False
    """Keys that are not declared are kept and shown, not refused."""
    id_prefix: str | None = None
    """New ids are the prefix and a number that continues those of the records; None gives opaque ids."""
    id_width: int = Field(default=0, ge=0, le=20)
    """Digits of the number, filled with zeros."""
    lifecycle: LifecycleSpec | None = None
    span: tuple[FieldName, FieldName] | None = None
    """Two fields that are beginning and end of something; the end may not come first."""


class ValueSpec(Spec):
    """Where a value comes from: exactly one of the fields is given."""

    argument: str | None = None
    """An argument of the tool; without it the field stays as it is."""
    value: JsonValue = None
    """Always this value."""
    now: Literal["time", "date"] | None = None
    """The simulated moment, in the caller's time zone."""
    caller: Literal["email", "name"] | None = None
    """The person for whom the call is made."""

    @model_validator(mode="after")
    def _one_source(self) -> ValueSpec:
        if [self.argument, self.value, self.now, self.caller].count(None) != 3:
            raise ValueError("expected exactly one of argument, value, now, caller")
        return self


class ConditionSpec(Spec):
    """A record's field compared with a value or with another of its fields; both numbers or both texts."""

    field: FieldName
    op: Literal["equals", "differs", "above", "below", "at_least", "at_most"] = "equals"
    value: JsonValue = None
    than: FieldName | None = None
    """The other field; takes the place of ``value``."""


class FilterSpec(Spec):
    """An argument that narrows a list. Without the argument, or with one of ``all``, it does not narrow.

    =============  ==================================================================================
    op             a record fits when
    =============  ==================================================================================
    ``equals``     a field is equal, or a list holds the value; upper and lower case alike
    ``any_of``     a field equals one of the values; the argument is a list
    ``contains``   a field, or an item of a list, holds every word of the argument, also within words
    ``at_least``   a number or moment is not below, not before the argument
    ``at_most``    a number or moment is not above, not after the argument
    ``on_day``     a moment lies on the day (``days`` names the argument that says how many days);
                   with two fields, begin and end, the time between them touches the day
    ``days_back``  a moment lies at most so many days before now
    =============  ==================================================================================

    A bare date in an argument is the whole day; see ``servers.declared.times``.
    """

    argument: str
    op: Literal["equals", "any_of", "contains", "at_least", "at_most", "on_day", "days_back"] = "equals"
    fields: list[FieldName] = Field(min_length=1)
    """One of them has to fit."""
    days: str | None = None
    all: list[str] = Field(default_factory=lambda: ["", "all", "any", "*"])
    """Values that mean "do not narrow"."""
    cases: dict[str, list[ConditionSpec]] = Field(default_factory=dict[str, list[ConditionSpec]])
    """Values of the argument that stand for conditions, all of which must hold, such as
    ``low: [{field: stock, op: below, than: minimum}]``."""


class QuerySpec(Spec):
    """A search box: words that are looked for in several fields; the best matches come first."""

    argument: str
    fields: dict[FieldName, float] = Field(min_length=1)
    """Weight of a match in each field."""


class OrderSpec(Spec):
    """A field by which records are ordered; records without a value come last."""

    field: FieldName
    descending: bool = False


class LimitSpec(Spec):
    """How many are given at most."""

    argument: str | None = None
    default: int = Field(default=20, ge=1)
    most: int = Field(default=100, ge=1)


class RelatedSpec(Spec):
    """Records of another entity that are shown with a record, under ``name``, when there are any."""

    name: FieldName
    entity: Name
    field: FieldName
    """The field of the other entity that holds the value (or a list with it)."""
    equals: FieldName | None = None
    """The field of this entity that is the value; the key when None."""
    show: list[FieldName] | None = None


class TargetSpec(Spec):
    """The record that a tool is about."""

    argument: str
    by: list[FieldName] = Field(default_factory=list[str])
    """Fields that identify it, in order of trying; the key when empty. Other fields than the key must fit
    exactly one record."""
    match: Literal["exact", "fold", "url"] = "exact"
    """``fold`` ignores case and outer spaces; ``url`` also scheme, ``www.``, fragment and a slash at the
    end."""


class Showing(Spec):
    """What of a record an answer shows."""

    show: list[FieldName] | None = None
    """Only these fields; all when None, undeclared keys included."""
    hide: list[FieldName] = Field(default_factory=list[str])
    related: list[RelatedSpec] = Field(default_factory=list[RelatedSpec])
    ignore: list[str] = Field(default_factory=list[str])
    """Arguments that have no meaning in a simulated workplace, such as a network timeout."""


class FindOperation(Showing):
    """``list``: records that fit all filters. ``search``: the same with a ``query``, best first."""

    operation: Literal["list", "search"]
    entity: Name
    result: FieldName
    """The key of the list in the answer."""
    filters: list[FilterSpec] = Field(default_factory=list[FilterSpec])
    query: QuerySpec | None = None
    order: list[OrderSpec] = Field(default_factory=list[OrderSpec])
    limit: LimitSpec | None = None

    @model_validator(mode="after")
    def _search_has_a_query(self) -> FindOperation:
        if (self.operation == "search") != (self.query is not None):
            raise ValueError("a search has a query, and a list has none")
        return self


class ItemsSpec(Spec):
    """Only one list of a record, cut to a limit: a job's history."""

    field: FieldName
    limit: LimitSpec = LimitSpec()


class GetOperation(Showing):
    """One record."""

    operation: Literal["get"]
    entity: Name
    target: TargetSpec
    result: FieldName | None = None
    """The key of the record in the answer; None gives its fields at the top."""
    items: ItemsSpec | None = None


class CreateOperation(Showing):
    """``create``: a new record. ``append``: the same for a log of actions, such as sent notifications."""

    operation: Literal["create", "append"]
    entity: Name
    set: dict[FieldName, ValueSpec] = Field(default_factory=dict[str, ValueSpec])
    result: FieldName | None = None


class UpdateOperation(Showing):
    """Change fields of a record; a call that changes nothing is refused, and so is a forbidden transition."""

    operation: Literal["update"]
    entity: Name
    target: TargetSpec
    set: dict[FieldName, ValueSpec] = Field(default_factory=dict[str, ValueSpec])
    result: FieldName | None = None


class TransitionOperation(Showing):
    """Bring a record into another status: a fixed one, or the one in ``to_argument``."""

    operation: Literal["transition"]
    entity: Name
    target: TargetSpec
    field: FieldName | None = None
    """The status field; that of the lifecycle when None."""
    to: str | None = None
    to_argument: str | None = None
    set: dict[FieldName, ValueSpec] = Field(default_factory=dict[str, ValueSpec])
    result: FieldName | None = None

    @model_validator(mode="after")
    def _one_status(self) -> TransitionOperation:
        if (self.to is None) == (self.to_argument is None):
            raise ValueError("expected exactly one of to, to_argument")
        return self


class DeleteOperation(Spec):
    """Remove a record."""

    operation: Literal["delete"]
    entity: Name
    target: TargetSpec
    ignore: list[str] = Field(default_factory=list[str])


class UnavailableOperation(Spec):
    """A tool that is listed but does not work here: every call is refused with the reason."""

    operation: Literal["unavailable"]
    reason: str = Field(min_length=1)


WriteOperation: TypeAlias = CreateOperation | UpdateOperation | TransitionOperation
Operation = Annotated[
    FindOperation
    | GetOperation
    | CreateOperation
    | UpdateOperation
    | TransitionOperation
    | DeleteOperation
    | UnavailableOperation,
    Field(discriminator="operation"),
]


class ToolSpec(Spec):
    """A tool: what agents see of it, and what it does."""

    name: ToolName
    description: str
    input_schema: dict[str, Any]
    """JSON Schema, shown to agents exactly as given. Arguments that it does not name are refused unless it
    says
    ``additionalProperties`` itself."""
    does: Operation
    latency: int = Field(default=1, ge=0)
    """Simulated seconds that a call takes."""


class ServiceSpec(Spec):
    """A service."""

    name: Name
    title: str
    summary: str = ""
    entities: list[EntitySpec] = Field(default_factory=list[EntitySpec])
    tools: list[ToolSpec] = Field(default_factory=list[ToolSpec])
