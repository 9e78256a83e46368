"""What a workflow family is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from harness.environment import Environment
from synth.draft import Draft


@dataclass(frozen=True, slots=True)
class Family:
    """A kind of work, at several levels of difficulty."""

    name: str
    summary: str
    services: tuple[str, ...]
    tools: tuple[str, ...]
    """The tools that the agent has; no more than the work and its temptations need."""
    capabilities: tuple[str, ...]
    """Sub-capabilities that it exercises, by the codes of the taxonomy: A coordinate tools, B communicate
    across turns, C act on changing state, D respect constraints."""
    levels: int
    write: Callable[[Draft], None]
    """Writes one environment of ``draft.level`` into the draft."""

    def make(self, seed: str, level: int) -> Environment:
        """The environment of this seed and level.

        Raises:
            ValueError: There is no such level.
        """
        if not 1 <= level <= self.levels:
            raise ValueError(f"{self.name} has levels 1 to {self.levels}, not {level}")
        draft = Draft(self.name, level, seed, wording=f"{self.name}.yaml")
        self.write(draft)
        return draft.environment(services=self.services, tools=self.tools, capabilities=self.capabilities)
