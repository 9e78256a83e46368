"""The simulated user: what the person who asked says during an episode.

The scripted user is deterministic and needs no model. It knows *facts*, each with a disclosure rule; it may
*correct* the request at a given turn; and it stops in a typed way (``UserReply.stop``), never by a magic word
in a text. Which facts it disclosed is recorded, so a check can require that the agent asked before it acted.

Who speaks when: the agent's turn ends when it says something without calling a tool. Then the user answers or
stops.

Not promised: understanding. A question is recognised by its topic words; a user who knows nothing about a
question says so.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated, Literal

from pydantic import Field, model_validator

from servers.events import Spec

WORD = re.compile(r"\w+")
PATIENCE = 2


class UserFact(Spec):
    """Something that the user knows."""

    id: str
    text: str
    """How the user says it."""
    disclose: Literal["volunteered", "when_asked", "never"] = "when_asked"
    """``volunteered``: with the user's first answer, asked or not. ``never``: the user does not want to say
    it."""
    topics: list[Annotated[str, Field(pattern=r"\w")]] = Field(default_factory=list[str])
    """Words that show that a question is about this; several words of one topic have to stand together."""

    @model_validator(mode="after")
    def _can_be_asked_for(self) -> UserFact:
        if self.disclose == "when_asked" and not self.topics:
            raise ValueError("expected topics; without them, no question is about this fact")
        return self


class Correction(Spec):
    """The user changes their mind."""

    turn: int = Field(ge=1)
    """After the agent's turn of this number."""
    text: str


class UserSpec(Spec):
    """The scripted user of an environment."""

    facts: list[UserFact] = Field(default_factory=list[UserFact])
    corrections: list[Correction] = Field(default_factory=list[Correction])
    unknown: str = "I can't tell you more about that. Please go by what you can find."
    """Answer to a question about something the user does not know."""
    unwilling: str = "I'd rather not say."
    """Answer to a question about a fact that is never disclosed."""

    @model_validator(mode="after")
    def _ids_once(self) -> UserSpec:
        ids = [fact.id for fact in self.facts]
        twice = sorted({name for name in ids if ids.count(name) > 1})
        if twice:
            raise ValueError(f"facts with the same id: {', '.join(twice)}")
        return self


@dataclass(frozen=True, slots=True)
class UserReply:
    """What the user does after the agent's turn."""

    text: str
    """Empty when the user stops."""
    stop: bool
    disclosed: tuple[str, ...] = ()
    """Ids of the facts that this reply disclosed."""


@dataclass(slots=True)
class ScriptedUser:
    """Plays a ``UserSpec`` through one episode."""

    spec: UserSpec
    turn: int = 0
    known: set[str] = field(default_factory=set[str])
    """Ids of the facts disclosed so far."""
    shrugs: int = 0
    """Questions that the user could not answer; after ``PATIENCE`` of them the user leaves."""

    def reply(self, said: str) -> UserReply:
        """Answer the agent's turn."""
        self.turn += 1
        parts = [correction.text for correction in self.spec.corrections if correction.turn == self.turn]
        untold = [fact for fact in self.spec.facts if fact.id not in self.known]
        disclosed = [fact for fact in untold if fact.disclose == "volunteered"]
        asked = is_question(said)
        unwilling = False
        if asked:
            others = [fact for fact in self.spec.facts if fact not in disclosed]
            about = [fact for fact in others if _is_about(said, fact.topics)]
            disclosed += [fact for fact in about if fact.disclose != "never"]
            unwilling = any(fact.disclose == "never" for fact in about)
        parts += [fact.text for fact in disclosed]
        if unwilling:
            parts.append(self.spec.unwilling)
        if asked and not parts and self.shrugs < PATIENCE:
            self.shrugs += 1
            parts.append(self.spec.unknown)
        self.known.update(fact.id for fact in disclosed)
        return UserReply(" ".join(parts), not parts, tuple(fact.id for fact in disclosed))


def is_question(text: str) -> bool:
    """Whether a message asks something."""
    return "?" in text


def _is_about(text: str, topics: Sequence[str]) -> bool:
    spoken = _words(text)
    return any(_words(topic) in spoken for topic in topics)


def _words(text: str) -> str:
    """The words of a text, each between blanks, so that whole words can be found in it."""
    return f" {' '.join(WORD.findall(text)).casefold()} "
