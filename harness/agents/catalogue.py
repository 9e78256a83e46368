"""From the name of an agent on the command line to the agent."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pathlib import Path

from harness.agents import scripted
from harness.agents.base import Agent
from servers.errors import Problem, SpecError

SCRIPTED: dict[str, Callable[[], Agent]] = {
    "oracle": scripted.oracle,
    "noop": scripted.noop,
    "read-only": scripted.read_only,
    "claim": scripted.claim,
    "careless": scripted.careless,
}


def make_agent(text: str, *, api_base: str | None = None) -> Agent:
    """Make an agent: a scripted one by name, ``litellm:MODEL``, or ``local:DIRECTORY`` of a transformers model.

    Raises:
        SpecError: There is no such agent.
    """
    if text in SCRIPTED:
        return SCRIPTED[text]()
    kind, _, rest = text.partition(":")
    if kind == "litellm" and rest:
        from harness.agents.model import ModelAgent  # noqa: PLC0415 - litellm is an extra and slow to load

        return ModelAgent(text, rest, api_base=api_base)
    if kind == "local" and rest:
        # The student lives above this package, which knows it only by name.
        return import_module("training.agent").local_agent(text, Path(rest))
    fix = f"Name one of {', '.join(SCRIPTED)}, litellm:MODEL or local:DIRECTORY."
    raise SpecError([Problem("unknown_agent", "--agent", f"there is no agent {text!r}", fix)])
