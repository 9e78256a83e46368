"""What an author tells the certifier about an environment, beyond the environment itself.

A certificate can be made for any environment; hints make it sharper. They stand in ``meta.hints`` and change
nothing in an episode:

* ``decoys``: for a true value (an id, an address) the wrong ones that were planted to be mistaken for it;
* ``temptations``: steps that a careless agent might add, each under the name of its mutation operator;
* ``stale``: the oracle of an agent that did not notice what changed;
* ``blind``: oracles of agents that guess instead of looking; their lookups are taken out before they are played;
* ``derived``: texts whose facts follow from what was read, such as the sum of two amounts; without this, a fact
  that nothing shows counts as not obtainable (``synth.obtainable``).
"""

from __future__ import annotations

from pydantic import Field, ValidationError

from harness.environment import Environment, Step
from servers.errors import SpecError, problems_from
from servers.events import Spec


class Temptation(Spec):
    """Something wrong to do besides, or ``instead`` of the oracle's step of that number."""

    operator: str
    steps: list[Step]
    instead: int | None = Field(default=None, ge=0)


class Hints(Spec):
    """An author's hints for the certifier."""

    decoys: dict[str, list[str]] = Field(default_factory=dict[str, list[str]])
    temptations: list[Temptation] = Field(default_factory=list[Temptation])
    stale: list[Step] = Field(default_factory=list[Step])
    blind: list[list[Step]] = Field(default_factory=list[list[Step]])
    derived: list[str] = Field(default_factory=list[str])


def hints_of(environment: Environment) -> Hints:
    """Read the hints of an environment; none when it has none.

    Raises:
        SpecError: They do not fit; with paths below ``meta.hints``.
    """
    try:
        return Hints.model_validate(environment.meta.get("hints", {}))
    except ValidationError as error:
        raise SpecError(problems_from(error, "meta.hints"), environment.id) from None
