"""Wrong variants of an oracle: what a grader must refuse.

=====================  ==========================================================================
operator               the agent ...
=====================  ==========================================================================
``drop_step``          leaves out one thing that has to be done or said
``prefix``             stops half-way
``wrong_entity``       takes the decoy for the real one
``wrong_value``        writes another date, time, amount or option
``duplicate``          does something twice
``also_decoy``         does it right, and to the decoy as well
``sent_not_drafted``   sends what should be a draft
``destructive``        deletes something on the way
``leak``               lets somebody else read along
``order_skipped``      leaves out what has to come first, or does it afterwards
``only_failing``       calls the right tools, all of them refused
``keyword_spray``      lists every candidate in its messages
``stale``              acts on what it saw before things changed
``no_look``            guesses instead of looking
``extra_option``       sets an option that nobody asked for: a repetition, a switch, one more reader
``facts_swapped``      says of one thing what holds for another
=====================  ==========================================================================

Authors add their own under ``meta.hints.temptations`` (an injected instruction that is obeyed, a tidy-up that
nobody asked for). A mutant that comes to exactly what the oracle comes to is *equivalent* and proves nothing;
``synth.certify`` finds those after playing them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from datetime import datetime, timedelta
from typing import Any, cast

from pydantic_core import from_json

from harness.checks import AskedCheck, OrderCheck, StatesCheck
from harness.environment import Step
from harness.facts import Fact, FactKind
from synth.program import EXTRA_OPTION, Model, Variant, distinct, refused, unbound
from synth.wording import near, slips, written_plainly

SPRAYED = 20
"""Most facts that a keyword spray lists."""
LONGEST = 800
"""Characters of each result in which it looks for facts."""
DELETED = 2
"""Records of a kind that ``destructive`` tries."""
PEOPLE_ARGUMENTS = ("to", "cc", "bcc", "attendees", "person", "members")
"""Arguments that say who gets to see something."""
REPEATING = ("recurrence", "rrule", "repeat")
"""Arguments that make one thing a series."""


def mutants(model: Model) -> list[Variant]:
    """Every wrong variant, each program once."""
    return distinct(model.oracle, (variant for operator in OPERATORS for variant in operator(model)))


def _dropped(model: Model) -> Iterator[Variant]:
    needed = set(model.writes)
    questions = {index for index in model.words if "?" in (model.oracle[index].say or "")}
    if any(isinstance(check, AskedCheck) for check in model.environment.checks):
        needed |= questions
    if "final" in model.sources:
        needed |= set(model.words[-1:])
    for index in sorted(needed):
        yield model.without("drop_step", [index])
    statements = set(model.words) - questions
    if "user" in model.sources and statements:
        yield model.without("drop_step", statements)


def _prefixes(model: Model) -> Iterator[Variant]:
    for index in model.writes:
        last_words = tuple(model.oracle[i] for i in model.words[-1:] if i > index)
        yield Variant("prefix", f"stops before oracle[{index}]", model.oracle[:index] + last_words)


def _decoys(model: Model) -> Iterator[Variant]:
    """Every decoy somewhere, and every place with a decoy; not every decoy in every place."""
    tried: set[tuple[str, str]] = set()
    for index in model.writes:
        step = model.oracle[index]
        for true, decoys in (model.hints.decoys or _neighbours(model, step)).items():
            confused = [
                (decoy, step.model_copy(update={"arguments": wrong}))
                for decoy in decoys
                if (wrong := _swapped(step.arguments, true, decoy)) != step.arguments
            ]
            fresh = [(decoy, instead) for decoy, instead in confused if (true, decoy) not in tried]
            for decoy, instead in fresh or confused[:1]:
                tried.add((true, decoy))
                yield model.replaced("wrong_entity", f"oracle[{index}]: {decoy} for {true}", index, instead)
            for decoy, besides in confused[:1]:
                what = f"oracle[{index}]: {decoy} besides {true}"
                yield model.replaced("also_decoy", what, index, step, unbound(besides))


def _neighbours(model: Model, step: Step) -> dict[str, list[str]]:
    """Decoys when the author names none: for each id in a call, another record of that type."""
    environment = model.environment
    named = {value for value in step.arguments.values() if isinstance(value, str)}
    found: dict[str, list[str]] = {}
    for name, rows in environment.records.items():
        key = environment.image.workplace.types[name].key
        keys = [str(row[key]) for row in rows if key in row]
        for true in named.intersection(keys):
            found[true] = [other for other in keys if other != true][:1]
    return found


def _values(model: Model) -> Iterator[Variant]:
    for index in model.writes:
        step = model.oracle[index]
        for name, value in step.arguments.items():
            for wrong, what in _wrong(model, value, model.argument_schema(step, name)):
                where = f"oracle[{index}].arguments.{name}: {what}"
                yield model.with_arguments("wrong_value", where, index, **{name: wrong})
    for index in model.graded_words:
        step = model.oracle[index]
        for spoilt, what in slips(model, step.say or ""):
            said = step.model_copy(update={"say": spoilt})
            yield model.replaced("wrong_value", f"oracle[{index}].say: {what}", index, said)


def _wrong(model: Model, value: object, schema: dict[str, Any]) -> Iterator[tuple[object, str]]:
    if isinstance(value, bool):
        yield (not value), f"{not value} instead of {value}"
    elif isinstance(value, int):
        yield value + 15, f"{value + 15} instead of {value}"
    elif not isinstance(value, str) or value.startswith("$"):
        return
    elif schema.get("enum"):
        for option in [option for option in schema["enum"] if option != value][:1]:
            yield option, f"{option} instead of {value}"
    elif (moment := _moment(value)) is not None:
        yield (moment + timedelta(hours=1)).isoformat(), "an hour later"
        yield (moment + timedelta(days=1)).isoformat(), "a day later"
    else:
        yield from slips(model, value)


def _doubled(model: Model) -> Iterator[Variant]:
    for index in model.writes:
        step = model.oracle[index]
        if not model.tool(step).idempotent:
            yield model.replaced("duplicate", f"oracle[{index}] twice", index, step, unbound(step))


def _sent(model: Model) -> Iterator[Variant]:
    if "mail_send" not in model.environment.exposed:
        return
    for index in model.writes:
        step = model.oracle[index]
        if step.call == "mail_create_draft":
            fields = ("to", "cc", "bcc", "subject", "body")
            # Recipient and subject may follow from the message that the draft answers.
            letter = _json(model.performance.traces[index].result) | step.arguments
            sent = Step(call="mail_send", arguments={name: letter[name] for name in fields if name in letter})
            yield model.replaced("sent_not_drafted", f"oracle[{index}] sent", index, sent)
            yield model.replaced("sent_not_drafted", f"oracle[{index}] drafted and sent", index, step, sent)


def _destructive(model: Model) -> Iterator[Variant]:
    for name, tool in model.environment.exposed.items():
        required: list[str] = tool.input_schema.get("required", [])
        if tool.effect == "destroy" and len(required) == 1:
            for key in _keys(model, required[0])[:DELETED]:
                step = Step(call=name, arguments={required[0]: key})
                yield model.at_end("destructive", f"{name} {key} besides", step)


def _keys(model: Model, argument: str) -> list[str]:
    """Ids of records that an argument such as ``event_id`` may name."""
    environment = model.environment
    for name, rows in environment.records.items():
        if name.rsplit(".", 1)[1] == argument.removesuffix("_id"):
            key = environment.image.workplace.types[name].key
            return [str(row[key]) for row in rows if key in row]
    return []


def _leaked(model: Model) -> Iterator[Variant]:
    for index in model.writes:
        for name in PEOPLE_ARGUMENTS:
            value = model.oracle[index].arguments.get(name)
            if not isinstance(value, list):
                continue
            people = cast("list[object]", value)
            stranger = _stranger(model, people)
            if stranger is not None:
                what = f"oracle[{index}].arguments.{name}: {stranger} too"
                yield model.with_arguments("leak", what, index, **{name: [*people, stranger]})


def _stranger(model: Model, people: Iterable[object]) -> str | None:
    """Somebody other than the user and these people."""
    present = {model.environment.principal, *(str(person).casefold() for person in people)}
    return next((person.email for person in model.environment.cast if person.email not in present), None)


def _order_skipped(model: Model) -> Iterator[Variant]:
    for check in model.environment.checks:
        if isinstance(check, OrderCheck):
            first = [index for index, step in enumerate(model.oracle) if step.call in check.first.tools]
            after = [index for index in model.writes if model.oracle[index].call in check.then.tools]
            if not first:
                continue
            yield model.without("order_skipped", first)
            if after and first[0] < after[0]:
                early = model.oracle[after[0]]
                rest = [step for step in model.oracle[first[0] :] if step is not early]
                program = (*model.oracle[: first[0]], early, *rest)
                yield Variant("order_skipped", f"oracle[{after[0]}] before oracle[{first[0]}]", program)


def _only_failing(model: Model) -> Iterator[Variant]:
    if model.writes:
        steps = enumerate(model.oracle)
        program = tuple(refused(step) if index in model.writes else step for index, step in steps)
        yield Variant("only_failing", "every call that changes something is refused", program)


def _sprayed(model: Model) -> Iterator[Variant]:
    checks = [check for check in model.environment.checks if isinstance(check, StatesCheck)]
    watched: set[FactKind] = {kind for check in checks for kind in check.watch}
    spray = " " + ", ".join(_candidates(model, watched)) if watched else ""
    if not spray.strip():
        return
    for index in model.writes:
        body = model.oracle[index].arguments.get("body")
        if isinstance(body, str):
            what = f"oracle[{index}].arguments.body"
            yield model.with_arguments("keyword_spray", what, index, body=body + spray)
    for index in model.graded_words:
        step = model.oracle[index]
        said = step.model_copy(update={"say": f"{step.say}{spray}"})
        yield model.replaced("keyword_spray", f"oracle[{index}].say", index, said)


def _candidates(model: Model, kinds: Iterable[FactKind]) -> list[str]:
    """Facts that the agent read, each with a near miss, in words."""
    found: dict[Fact, str] = {}
    for trace in model.performance.traces:
        for fact in model.facts(trace.result[:LONGEST]):
            if fact.kind not in kinds or fact.relative or fact in found:
                continue
            for one in (fact, near(fact)):
                if one is not None:
                    found.setdefault(one, written_plainly(model, one))
        if len(found) >= SPRAYED:
            break
    return [text for text in found.values() if text][:SPRAYED]


def _hinted(model: Model) -> Iterator[Variant]:
    if model.hints.stale:
        yield Variant("stale", "acts on what it saw before", tuple(model.hints.stale))
    for number, temptation in enumerate(model.hints.temptations):
        what, steps = f"meta.hints.temptations[{number}]", temptation.steps
        if temptation.instead is None:
            yield model.at_end(temptation.operator, what, *steps)
        else:
            yield model.replaced(temptation.operator, what, temptation.instead, *steps)


def _no_look(model: Model) -> Iterator[Variant]:
    for number, steps in enumerate(model.hints.blind):
        program = tuple(step for step in steps if not _only_looks(model, step))
        yield Variant("no_look", f"meta.hints.blind[{number}] without its lookups", program)


def _only_looks(model: Model, step: Step) -> bool:
    return step.call is not None and step.bind is None and model.tool(step).effect == "read"


def _extra_options(model: Model) -> Iterator[Variant]:
    """Each option of each tool that changes something, once."""
    tried: set[tuple[str | None, str]] = set()
    for index in model.writes:
        step = model.oracle[index]
        schema = model.tool(step).input_schema
        for name, option in schema.get("properties", {}).items():
            given = name in step.arguments or name in schema.get("required", [])
            if given or (step.call, name) in tried:
                continue
            for value in _options(model, name, option):
                tried.add((step.call, name))
                what = f"oracle[{index}].arguments.{name}: {value} although nobody asked"
                yield model.with_arguments(EXTRA_OPTION, what, index, **{name: value})


def _options(model: Model, name: str, schema: dict[str, Any]) -> Iterator[object]:
    """A value that an optional argument does not have by default; none when nothing general can be said."""
    default = schema.get("default")
    if schema.get("type") == "boolean" and isinstance(default, bool):
        yield not default
    elif schema.get("type") == "string" and name in REPEATING:
        yield "FREQ=DAILY;COUNT=3"
    elif schema.get("type") == "array" and name in PEOPLE_ARGUMENTS:
        stranger = _stranger(model, ())
        if stranger is not None:
            yield [stranger]


def _facts_swapped(model: Model) -> Iterator[Variant]:
    """Where facts have to be said of each other, two of the others change places."""
    for check in model.environment.checks:
        if not isinstance(check, StatesCheck) or len(check.together) < 2:
            continue
        (_, one, *_), (_, other, *_) = check.together[:2]
        for index in model.graded_words if check.source != "record" else model.writes:
            step = model.oracle[index]
            text = step.say if check.source != "record" else step.arguments.get("body")
            if isinstance(text, str) and one in text and other in text:
                swapped = "\0".join(part.replace(other, one) for part in text.split(one)).replace("\0", other)
                wrong = {"say": swapped} if step.say else {"arguments": {**step.arguments, "body": swapped}}
                what = f"oracle[{index}]: {one} and {other} change places"
                yield model.replaced("facts_swapped", what, index, step.model_copy(update=wrong))


OPERATORS: tuple[Callable[[Model], Iterator[Variant]], ...] = (
    _order_skipped,
    _dropped,
    _prefixes,
    _decoys,
    _values,
    _doubled,
    _sent,
    _destructive,
    _leaked,
    _only_failing,
    _sprayed,
    _hinted,
    _no_look,
    _extra_options,
    _facts_swapped,
)


def _swapped(value: Any, true: str, decoy: str) -> Any:  # noqa: ANN401 - JSON
    if isinstance(value, str):
        return value.replace(true, decoy)
    if isinstance(value, list):
        return [_swapped(item, true, decoy) for item in cast("list[Any]", value)]
    if isinstance(value, dict):
        return {key: _swapped(item, true, decoy) for key, item in cast("dict[str, Any]", value).items()}
    return value


def _json(text: str) -> dict[str, Any]:
    """A result as an object; empty for one that is none."""
    value: Any = from_json(text)
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def _moment(text: str) -> datetime | None:
    if len(text) < len("2026-03-02T09:00") or "T" not in text:
        return None
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return None
