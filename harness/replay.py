"""Replaying episodes, and grading them again without asking any agent.

An episode depends on nothing but its environment and what the agent said. ``replay`` says it again, message
by message, through the real episode loop, and makes sure that the workplace comes to the same states: the
hash before every message and at the end. So when only checks (or the code that grades) changed, a run is
brought up to date without a model: ``grade_run``.

Not promised: that an episode can be replayed in a *different* workplace. Where records, events or tools
changed so that states differ, the episode has to be played again, and ``ReplayError`` says from which
message on.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.agents.base import AgentTurn, Briefing, Usage
from harness.environment import Environment
from harness.episode import Ending, Episode, Limits, messages_of
from harness.errors import EpisodeFault
from harness.messages import Message
from harness.rundir import Manifest, RunDirectory, Summary, describe, summarize
from harness.trajectory import Trajectory
from servers.errors import CoworkEnvError
from servers.world import World


class ReplayError(CoworkEnvError):
    """The same words led to another workplace."""


@dataclass(slots=True)
class ReplaySession:
    """Says what was said."""

    trajectory: Trajectory
    spoken: Sequence[Message]
    position: int = 0
    exhausted: bool = False
    """Asked for a message after the last one: the record was cut here, by a deadline or a fault."""

    async def act(self, news: Sequence[Message]) -> AgentTurn:
        """The next recorded message."""
        if self.position == len(self.spoken):
            self.exhausted = True
            raise EpisodeFault("infra", "replay", "the record ends here")
        message = self.spoken[self.position]
        self.position += 1
        last = self.position == len(self.spoken)
        usage = self._all_usage() if last else Usage()
        return AgentTurn(message, usage, finished=last and self.trajectory.reason == "agent_stop")

    def record(self) -> dict[str, Any]:
        """What the agent had kept."""
        return self.trajectory.extra

    def _all_usage(self) -> Usage:
        usage = self.trajectory.usage
        return Usage(int(usage["prompt_tokens"]), int(usage["completion_tokens"]), usage["cost"])


@dataclass(slots=True)
class ReplayAgent:
    """Plays a trajectory again."""

    session: ReplaySession

    @property
    def name(self) -> str:
        """The name of the agent that played it first."""
        return self.session.trajectory.agent

    async def begin(self, briefing: Briefing) -> ReplaySession:
        """Start from the first message."""
        return self.session

    async def close(self) -> None:
        """Nothing to free."""


async def replay(environment: Environment, trajectory: Trajectory, *, limits: Limits | None = None) -> Trajectory:
    """Play an episode again in ``environment`` and grade it there.

    An episode that was cut by its deadline or by a fault ends where its record ends, as it did.

    Returns:
        The new record: the same bytes as the old one where environment and grading are the same.

    Raises:
        ReplayError: It is another environment, or the states of the workplace differ.
        SpecError: The environment does not fit together.
    """
    if environment.id != trajectory.environment:
        raise ReplayError(f"this is an episode of {trajectory.environment}, not of {environment.id}")
    environment.validate_all()
    spoken = [message for message in messages_of(trajectory) if message.role == "assistant"]
    session = ReplaySession(trajectory, spoken)
    world = World.open(environment.image)
    try:
        episode = Episode(
            environment,
            ReplayAgent(session),
            world,
            trial=trajectory.trial,
            seed=trajectory.seed,
            limits=limits or Limits(),
        )
        ending = await episode.run()
        if session.exhausted:
            ending = Ending(trajectory.status, trajectory.reason, trajectory.truncated)
        fresh = await episode.finish(ending)
    finally:
        world.close()
    _same_states(trajectory, fresh)
    return fresh


@dataclass(frozen=True, slots=True)
class Regrade:
    """What grading an episode again came to."""

    before: Summary
    after: Summary | None
    """None when it could not be replayed."""
    problem: str = ""
    """Why it could not."""

    @property
    def differs(self) -> bool:
        """Whether anything about the grade is new."""
        return self.after is None or _grade(self.before) != _grade(self.after)

    def __str__(self) -> str:
        if self.after is None:
            return f"{self.before.key}: {self.problem}"
        return f"{self.before.key}: {_told(self.before)} before, {_told(self.after)} now"


async def grade_run(directory: Path, environments: Iterable[Environment], *, write: bool = False) -> list[Regrade]:
    """Grade the episodes of a run again, in these environments.

    Episodes that ended ``infra`` and those of environments that are not given are left alone.

    Args:
        directory: A run.
        environments: The run's environments, their checks possibly changed.
        write: Keep the new grades (and the environments' new digests), so that the run resumes with these
            environments.

    Returns:
        One for each episode, in the order of keys; ask ``differs``.

    Raises:
        SpecError: The directory is no run, a file in it is broken, or an environment does not fit.
        StorageError: A new grade could not be kept.
        InUse: New grades are to be kept while another process fills this run.
    """
    where = RunDirectory(directory)
    manifest = where.manifest()
    with where.alone() if write else nullcontext():
        return await _grade_all(where, manifest, environments, write)


async def _grade_all(
    where: RunDirectory, manifest: Manifest, environments: Iterable[Environment], write: bool
) -> list[Regrade]:
    by_environment: dict[str, list[Summary]] = {}
    for summary in where.summaries().values():
        if summary.status != "infra":
            by_environment.setdefault(summary.environment, []).append(summary)
    found: list[Regrade] = []
    for environment in environments:
        fresh = environment.model_copy()  # its image is dropped with it
        these = [await _regrade(where, fresh, summary, write) for summary in by_environment.get(environment.id, ())]
        found += these
        if write and these and all(one.after is not None for one in these):
            manifest = _updated(manifest, fresh)
    if write:
        where.write_manifest(manifest)
    return sorted(found, key=lambda one: one.before.key)


async def _regrade(where: RunDirectory, environment: Environment, before: Summary, write: bool) -> Regrade:
    try:
        trajectory = await replay(environment, where.trajectory(before.key))
    except ReplayError as error:
        return Regrade(before, None, str(error))
    after = summarize(trajectory, level=describe(environment).level, wall_seconds=before.wall_seconds)
    if write:
        where.write(trajectory, after)
    return Regrade(before, after)


def as_json(regrade: Regrade) -> dict[str, Any]:
    """What grading an episode again came to, as plain JSON."""
    shown = {"status", "reason", "score", "missed"}
    return {
        "key": regrade.before.key,
        "before": regrade.before.model_dump(include=shown),
        "after": None if regrade.after is None else regrade.after.model_dump(include=shown),
        "problem": regrade.problem,
    }


def _told(summary: Summary) -> str:
    """A grade in a few words."""
    if summary.score is None:
        return f"{summary.status} ({summary.reason})"
    missed = f", missed {', '.join(summary.missed)}" if summary.missed else ""
    return f"{summary.score.total:.2f}{missed}"


def _updated(manifest: Manifest, environment: Environment) -> Manifest:
    return manifest.model_copy(
        update={"environments": {**manifest.environments, environment.id: describe(environment)}}
    )


def _grade(summary: Summary) -> tuple[object, ...]:
    return summary.status, summary.reason, summary.score, summary.missed


def _same_states(before: Trajectory, after: Trajectory) -> None:
    """Raise ``ReplayError`` at the first place where the two differ in more than their grade."""
    told = f"{before.environment}, {before.agent}, trial {before.trial}"
    for number, (old, new) in enumerate(zip(before.messages, after.messages, strict=False), start=1):
        if old.state != new.state:
            raise ReplayError(f"{told}: before message {number} the workplace is not as it was; play the episode again")
    if before.state != after.state or len(before.messages) != len(after.messages):
        raise ReplayError(f"{told}: the episode does not end as it did; play it again")
