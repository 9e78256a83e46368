"""Variants of an oracle: the parts that wrong and harmless ones share.

A *variant* is a program like the oracle itself (``harness.environment.Step``), made from it by an operator
(``synth.mutants``, ``synth.harmless``). ``Model`` is what operators work from: the oracle, and what one
performance of it showed. Everything here is derived; nothing is random.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from harness.checks import StatesCheck
from harness.environment import Environment, Step
from harness.facts import Fact, Vocabulary, extract
from harness.vocabulary import vocabulary_of
from servers.bindings import references
from servers.tools import Tool
from synth.hints import Hints, hints_of
from synth.rehearse import Performance

EXTRA_OPTION = "extra_option"
"""The operator that sets options. An option that has no effect leaves the same changes by other calls."""
BOGUS = "no_such_argument"


@dataclass(frozen=True, slots=True)
class Variant:
    """A program made from the oracle by an operator."""

    operator: str
    what: str
    """What was done to the oracle, for people: ``oracle[3]: 13 March 2026 instead of 12 March 2026``."""
    program: tuple[Step, ...]


class Model:
    """An environment's oracle, and what a performance of it showed."""

    def __init__(self, environment: Environment, performance: Performance) -> None:
        self.environment = environment
        self.oracle: tuple[Step, ...] = tuple(environment.oracle)
        self.performance = performance
        self.writes: tuple[int, ...] = performance.writing_steps
        """Steps that changed something."""
        self.words: tuple[int, ...] = tuple(index for index, step in enumerate(self.oracle) if step.say is not None)
        """Steps that say something to the user."""
        self.vocabulary: Vocabulary = vocabulary_of(environment.image)
        self._facts: dict[str, list[Fact]] = {}

    @cached_property
    def hints(self) -> Hints:
        """What the author told about decoys and temptations."""
        return hints_of(self.environment)

    @cached_property
    def sources(self) -> frozenset[str]:
        """Where the checks of this environment look for facts: ``record``, ``final``, ``user``."""
        checks = self.environment.checks
        return frozenset(check.source for check in checks if isinstance(check, StatesCheck))

    @property
    def graded_words(self) -> tuple[int, ...]:
        """The step with the last words to the user, if some check reads what the user was told."""
        return self.words[-1:] if self.sources & {"final", "user"} else ()

    def facts(self, text: str) -> list[Fact]:
        """The facts that a text states, in its order; read once per text."""
        if text not in self._facts:
            self._facts[text] = extract(text, self.vocabulary)
        return self._facts[text]

    def tool(self, step: Step) -> Tool:
        """The tool that a step calls."""
        return self.environment.exposed[step.call or ""]

    def argument_schema(self, step: Step, name: str) -> dict[str, Any]:
        """JSON Schema of an argument; empty when the tool declares none."""
        return self.tool(step).input_schema.get("properties", {}).get(name, {})

    def parts(self, text: str) -> Iterator[tuple[Fact | None, str]]:
        """A text cut into its facts and what stands between them, in order."""
        position = 0
        for fact in self.facts(text):
            start, end = fact.span
            if start > position:
                yield None, text[position:start]
            yield fact, text[start:end]
            position = end
        if position < len(text):
            yield None, text[position:]

    # Programs that differ from the oracle in one place.

    def replaced(self, operator: str, what: str, index: int, *steps: Step) -> Variant:
        """The oracle with other steps in the place of one."""
        return Variant(operator, what, (*self.oracle[:index], *steps, *self.oracle[index + 1 :]))

    def with_arguments(self, operator: str, what: str, index: int, **arguments: object) -> Variant:
        """The oracle with other arguments in one call."""
        return self.replaced(operator, what, index, with_arguments(self.oracle[index], **arguments))

    def without(self, operator: str, indexes: Iterable[int]) -> Variant:
        """The oracle without some steps."""
        left_out = sorted(set(indexes))
        program = tuple(step for index, step in enumerate(self.oracle) if index not in left_out)
        return Variant(operator, f"without {', '.join(f'oracle[{index}]' for index in left_out)}", program)

    def at_end(self, operator: str, what: str, *steps: Step) -> Variant:
        """The oracle with more steps after its work, before its last words."""
        end = len(self.oracle)
        if self.words and self.words[-1] == end - 1:
            end -= 1
        return Variant(operator, what, (*self.oracle[:end], *steps, *self.oracle[end:]))


def with_arguments(step: Step, **arguments: object) -> Step:
    """The same call with other values for some arguments."""
    return step.model_copy(update={"arguments": {**step.arguments, **arguments}})


def refused(step: Step) -> Step:
    """The same call, made so that the tool refuses it."""
    return step.model_copy(update={"arguments": {**step.arguments, BOGUS: True}, "bind": None})


def unbound(step: Step) -> Step:
    """The same call without a name for its result, to make it a second time."""
    return step if step.bind is None else step.model_copy(update={"bind": None})


def referred(step: Step) -> frozenset[str]:
    """The names of earlier results that a step refers to."""
    paths = [*references(step.arguments), *references(step.say or "")]
    return frozenset(path.split(".")[0].split("[")[0] for path in paths)


def distinct(oracle: Sequence[Step], variants: Iterable[Variant]) -> list[Variant]:
    """Leave out variants whose program an earlier one has already, under whatever operator."""
    own = {id(step): index for index, step in enumerate(oracle)}
    seen: set[tuple[int | str, ...]] = set()
    kept: list[Variant] = []
    for variant in variants:
        key = tuple(own[id(step)] if id(step) in own else step.model_dump_json() for step in variant.program)
        if key not in seen:
            seen.add(key)
            kept.append(variant)
    return kept
