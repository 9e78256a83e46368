"""Harmless variants of an oracle: what a grader must not mind.

=================  ==============================================================================
operator           the agent ...
=================  ==============================================================================
``extra_reads``    looks around before it changes anything
``no_lookups``     knows where everything is
``reordered``      does two independent things the other way round
``retried``        has every change refused once, and calls again
``paraphrased``    is politer
``other_formats``  writes dates, times and amounts in another way
``list_order``     names people in another order
``address_form``   writes names before mail addresses
``quoted``         leaves the message that it answers under the answer
=================  ==============================================================================
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from typing import Any, cast
from zoneinfo import ZoneInfo

from harness.checks import OrderCheck
from harness.environment import Step
from servers.records import parse_instant
from synth.program import Model, Variant, distinct, referred, refused, with_arguments
from synth.wording import reworded

ANSWERED = ("message_id", "reply_to_message_id")
"""Arguments that name the message which a mail answers."""
WAYS = (1, 2, 3)
"""Which other ways of writing facts are tried."""


def harmless(model: Model) -> list[Variant]:
    """Every variant that has to keep the full score, each program once."""
    return distinct(model.oracle, (variant for operator in OPERATORS for variant in operator(model)))


def _extra_reads(model: Model) -> Iterator[Variant]:
    triggers = model.environment.image.events.on_call
    reads = [
        Step(call=name)
        for name, tool in model.environment.exposed.items()
        if tool.effect == "read" and not tool.input_schema.get("required") and name not in triggers
    ]
    if reads and model.writes:
        first = model.writes[0]
        program = (*model.oracle[:first], *reads, *model.oracle[first:])
        yield Variant("extra_reads", "looks around before it changes anything", program)


def _no_lookups(model: Model) -> Iterator[Variant]:
    lookups = [index for index, step in enumerate(model.oracle) if _is_lookup(model, step)]
    if 0 < len(lookups) < len(model.oracle):
        yield model.without("no_lookups", lookups)


def _is_lookup(model: Model, step: Step) -> bool:
    """Whether a step only reads, and nothing depends on it."""
    if step.call is None or model.tool(step).effect != "read":
        return False
    ordered = {name for check in _orders(model) for name in check.first.tools}
    used = {name for other in model.oracle for name in referred(other)}
    triggers = model.environment.image.events.on_call
    return step.call not in triggers and step.call not in ordered and step.bind not in used


def _reordered(model: Model) -> Iterator[Variant]:
    for first, second in zip(model.writes, model.writes[1:], strict=False):
        one, other = model.oracle[first], model.oracle[second]
        if second == first + 1 and _commute(model, one, other):
            swapped = (*model.oracle[:first], other, one, *model.oracle[second + 1 :])
            yield Variant("reordered", f"oracle[{second}] before oracle[{first}]", swapped)


def _commute(model: Model, one: Step, other: Step) -> bool:
    if one.bind is not None and one.bind in referred(other) | set(other.after):
        return False
    if {one.call, other.call} & set(model.environment.image.events.on_call):
        return False
    if any(one.call in check.first.tools and other.call in check.then.tools for check in _orders(model)):
        return False
    return one.call == other.call and not _ids(one.arguments) & _ids(other.arguments)


def _orders(model: Model) -> list[OrderCheck]:
    return [check for check in model.environment.checks if isinstance(check, OrderCheck)]


def _retried(model: Model) -> Iterator[Variant]:
    program: list[Step] = []
    for index, step in enumerate(model.oracle):
        program += [refused(step), step] if index in model.writes else [step]
    if model.writes:
        yield Variant("retried", "every change is refused once", tuple(program))


def _paraphrased(model: Model) -> Iterator[Variant]:
    yield from _in_other_words(
        model,
        "paraphrased",
        "politer words around the same facts",
        say=lambda text: text if "?" in text else f"Sure thing. {text}\n\nLet me know if anything is unclear.",
        body=lambda text: f"Hello,\n\n{text}\n\nThank you and best wishes",
    )


def _other_formats(model: Model) -> Iterator[Variant]:
    for way in WAYS:

        def rewrite(text: str, way: int = way) -> str:
            return reworded(model, text, way)

        what = f"dates, times and amounts written in way {way}"
        yield from _in_other_words(model, "other_formats", what, say=rewrite, body=rewrite)


def _in_other_words(
    model: Model, operator: str, what: str, *, say: Callable[[str], str], body: Callable[[str], str]
) -> Iterator[Variant]:
    def rewritten(index: int, step: Step) -> Step:
        if step.say is not None:
            return step if (said := say(step.say)) == step.say else step.model_copy(update={"say": said})
        text = step.arguments.get("body")
        if index not in model.writes or not isinstance(text, str) or body(text) == text:
            return step
        return with_arguments(step, body=body(text))

    yield from _changed(model, operator, what, rewritten)


def _list_order(model: Model) -> Iterator[Variant]:
    def reversed_lists(index: int, step: Step) -> Step:
        turned = {
            name: list(reversed(cast("list[object]", value)))
            for name, value in step.arguments.items()
            if isinstance(value, list) and len(cast("list[object]", value)) > 1
        }
        return with_arguments(step, **turned) if turned and index in model.writes else step

    yield from _changed(model, "list_order", "lists the other way round", reversed_lists)


def _address_form(model: Model) -> Iterator[Variant]:
    forms = {person.email: f"{person.name} <{person.email}>" for person in model.environment.cast}

    def with_names(index: int, step: Step) -> Step:
        to = step.arguments.get("to")
        if index not in model.writes or not (step.call or "").startswith("mail_") or not isinstance(to, list):
            return step
        return with_arguments(step, to=[forms.get(str(item), item) for item in cast("list[object]", to)])

    yield from _changed(model, "address_form", "names before addresses", with_names)


def _quoted(model: Model) -> Iterator[Variant]:
    letters = {row["id"]: row for row in model.environment.records.get("mail.message", []) if "id" in row}
    zone = ZoneInfo(model.environment.image.people[model.environment.principal].timezone)

    def with_quote(index: int, step: Step) -> Step:
        answered = [letters[key] for name in ANSWERED if (key := str(step.arguments.get(name))) in letters]
        body = step.arguments.get("body")
        if index not in model.writes or not answered or not isinstance(body, str):
            return step
        return with_arguments(step, body=f"{body}\n\n{_quote(model, answered[0], zone)}")

    yield from _changed(model, "quoted", "the answered message below the answer", with_quote)


def _quote(model: Model, letter: dict[str, Any], zone: ZoneInfo) -> str:
    sent = datetime.fromtimestamp(parse_instant(letter["sent_at"]), zone)
    people = model.environment.image.people
    author = people[letter["sender"]].name if letter["sender"] in people else letter["sender"]
    lines = "\n".join(f"> {line}" for line in str(letter.get("body", "")).splitlines())
    return f"On {sent:%a}, {sent.day} {sent:%B %Y} at {sent:%H:%M}, {author} wrote:\n{lines}"


def _changed(model: Model, operator: str, what: str, change: Callable[[int, Step], Step]) -> Iterator[Variant]:
    """The oracle with each step changed; nothing when no step is another one then."""
    program = tuple(change(index, step) for index, step in enumerate(model.oracle))
    if program != model.oracle:
        yield Variant(operator, what, program)


def _ids(value: object) -> set[str]:
    """All texts without blanks in a JSON value: ids, addresses, times."""
    if isinstance(value, str):
        return set() if " " in value else {value}
    inner: Iterable[object] = ()
    if isinstance(value, list):
        inner = cast("list[object]", value)
    elif isinstance(value, dict):
        inner = cast("dict[str, object]", value).values()
    return {found for item in inner for found in _ids(item)}


OPERATORS: tuple[Callable[[Model], Iterator[Variant]], ...] = (
    _extra_reads,
    _no_lookups,
    _reordered,
    _retried,
    _paraphrased,
    _other_formats,
    _list_order,
    _address_form,
    _quoted,
)
