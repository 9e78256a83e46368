"""Runs: many episodes at once, kept in a directory that is their state.

``run`` plays every environment with every agent so many times, hundreds of episodes at once in one process,
and keeps each in the directory the moment it ends (``harness.rundir``). Running the same command on the
same directory resumes it:

* episodes that are there stay; those that ended ``infra`` (provider, network, killed) are played again,
  those that ended ``invalid`` only with ``retry_invalid``. Playing again what broke shifts results a little
  towards what does not break; ``harness.results`` therefore always shows how many did.
* more environments, agents or trials extend the study. What would make old and new episodes incomparable is
  refused: an environment, an agent's settings or the seed that changed, or how long an episode may take.

A killed process loses the episodes it was in and nothing else. When the disk is full, the run stops and
keeps what it has.

Not promised: that ``wall_seconds`` repeats. Everything else in a directory does, for agents that do.
"""

from __future__ import annotations

import hashlib
import time
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import anyio
import anyio.to_thread
from pydantic_core import from_json, to_json

from harness.agents.base import Agent
from harness.environment import Environment
from harness.episode import Limits, run_episode
from harness.rundir import (
    LimitsRecord,
    Manifest,
    RunDirectory,
    Summary,
    changed,
    describe,
    episode_key,
    load_summaries,
    one_file_each,
    summarize,
)
from harness.trajectory import Trajectory
from servers.errors import Problem, SpecError

__all__ = ["RunResult", "SettledAgent", "episode_seed", "load_summaries", "run"]

CONCURRENCY = 64
_SHOWN = 5

Progress = Callable[[int, int, Summary | None], None]
"""Called with the episodes that are there, those planned, and the last summary; once before the first."""


@runtime_checkable
class SettledAgent(Protocol):
    """An agent with settings that make its episodes what they are, such as model and temperature."""

    @property
    def settings(self) -> Mapping[str, Any]:
        """Plain JSON without secrets; a run does not go on with an agent whose settings have changed."""
        ...


@dataclass(frozen=True, slots=True)
class RunResult:
    """What a call of ``run`` came to."""

    directory: Path
    summaries: tuple[Summary, ...]
    """Of the episodes that were asked for, in the order of their keys."""
    played: int
    """How many were played now."""
    kept: int
    """How many were there already."""

    @property
    def statuses(self) -> dict[str, int]:
        """Number of episodes by status."""
        return dict(sorted(Counter(summary.status for summary in self.summaries).items()))


@dataclass(frozen=True, slots=True)
class Slot:
    """One episode to be played."""

    key: str
    environment: str
    agent: Agent
    trial: int


async def run(
    environments: Sequence[Environment],
    agents: Sequence[Agent],
    directory: Path,
    *,
    trials: int = 1,
    seed: int = 0,
    concurrency: int = CONCURRENCY,
    limits: Limits | None = None,
    retry_invalid: bool = False,
    on_progress: Progress | None = None,
) -> RunResult:
    """Play every environment with every agent ``trials`` times and keep each episode in ``directory``.

    Args:
        environments: With distinct ids.
        agents: With distinct names. They are closed at the end, whatever happens.
        directory: New, empty, or a run to be resumed or extended.
        trials: Episodes of each agent in each environment.
        seed: Every episode's own seed derives from it.
        concurrency: Episodes at the same time.
        limits: Real seconds that each thing may take.
        retry_invalid: Play episodes again whose simulated user, grader or environment was at fault.
        on_progress: Told after each episode.

    Raises:
        SpecError: The directory holds another study or broken files, or an environment does not fit;
            nothing was played.
        InUse: Another process fills this directory.
        StorageError: An episode could not be kept. Those that were kept before stay.
        ValueError: ``trials`` or ``concurrency`` is below 1.
    """
    if trials < 1 or concurrency < 1:
        raise ValueError(f"trials and concurrency must be at least 1; got {trials} and {concurrency}")
    try:
        study = Study(
            RunDirectory(directory), environments, agents, trials=trials, seed=seed, limits=limits or Limits()
        )
        study.look(retry_invalid=retry_invalid)
        study.validate()  # before there is a folder with a lock
        with study.where.alone():
            study.look(retry_invalid=retry_invalid)  # again: the lock may have been another's until now
            study.begin()
            kept = len(study.finished)
            await study.play(concurrency, on_progress or _silent)
    finally:
        with anyio.CancelScope(shield=True):
            for agent in agents:
                await agent.close()
    summaries = tuple(study.finished[slot.key] for slot in sorted(study.slots, key=lambda slot: slot.key))
    return RunResult(directory, summaries, len(summaries) - kept, kept)


def episode_seed(seed: int, environment: str, agent: str, trial: int) -> int:
    """The seed of one episode, below 2**31: every sampler takes that."""
    digest = hashlib.sha256(to_json([seed, environment, agent, trial])).digest()
    return int.from_bytes(digest[:4], "big") >> 1


class Study:
    """The episodes that one call of ``run`` asks for."""

    def __init__(
        self,
        where: RunDirectory,
        environments: Sequence[Environment],
        agents: Sequence[Agent],
        *,
        trials: int,
        seed: int,
        limits: Limits,
    ) -> None:
        self.where = where
        self.environments = {environment.id: environment for environment in environments}
        self.limits = limits
        self.seed = seed
        # Environment by environment, so that a workplace can be dropped when its last episode ends.
        self.slots = [
            Slot(episode_key(environment.id, agent.name, trial), environment.id, agent, trial)
            for environment in environments
            for agent in agents
            for trial in range(trials)
        ]
        one_file_each(slot.key for slot in self.slots)
        self.manifest = Manifest(
            seed=seed,
            trials=trials,
            limits=LimitsRecord(**asdict(limits)),
            agents={agent.name: _settings(agent) for agent in agents},
            environments={environment.id: describe(environment) for environment in environments},
        )
        self.finished: dict[str, Summary] = {}

    def look(self, *, retry_invalid: bool) -> None:
        """Find out what is there already; nothing is written."""
        known = self.where.manifest_if_any()
        if known is not None:
            self.manifest = extend(known, self.manifest, str(self.where.path))
        again = ("infra", "invalid") if retry_invalid else ("infra",)
        asked = {slot.key for slot in self.slots}
        self.finished = {
            key: summary
            for key, summary in self.where.summaries().items()
            if key in asked and summary.status not in again and self.where.episode_path(key).exists()
        }

    def validate(self) -> None:
        """Make sure that the environments fit that are still to be played."""
        for name in dict.fromkeys(slot.environment for slot in self.pending()):
            _fresh(self.environments[name]).validate_all()

    def begin(self) -> None:
        """Write down what is asked for."""
        self.where.create()
        if self.where.manifest_if_any() != self.manifest:
            self.where.write_manifest(self.manifest)

    def pending(self) -> list[Slot]:
        """The episodes that are not there."""
        return [slot for slot in self.slots if slot.key not in self.finished]

    async def play(self, concurrency: int, on_progress: Progress) -> None:
        """Play what is not there."""
        pending = self.pending()
        shelf = Shelf(self.environments, Counter(slot.environment for slot in pending))
        on_progress(len(self.finished), len(self.slots), None)
        queue = iter(pending)
        try:
            async with anyio.create_task_group() as workers:
                for _ in range(min(concurrency, len(pending))):
                    workers.start_soon(self._work, queue, shelf, on_progress)
        except ExceptionGroup as several:
            raise _first(several) from None

    async def _work(self, queue: Iterator[Slot], shelf: Shelf, on_progress: Progress) -> None:
        for slot in queue:
            with shelf.borrow(slot.environment) as environment:
                summary = await self._episode(slot, environment)
            self.finished[slot.key] = summary
            on_progress(len(self.finished), len(self.slots), summary)

    async def _episode(self, slot: Slot, environment: Environment) -> Summary:
        begun = time.perf_counter()
        trajectory: Trajectory = await run_episode(
            environment,
            slot.agent,
            trial=slot.trial,
            seed=episode_seed(self.seed, environment.id, slot.agent.name, slot.trial),
            limits=self.limits,
        )
        level = self.manifest.environments[environment.id].level
        summary = summarize(trajectory, level=level, wall_seconds=time.perf_counter() - begun)
        # In a thread, since flushing to the disk takes longer than an episode; a cancelled run waits for it.
        await anyio.to_thread.run_sync(self.where.write, trajectory, summary)
        return summary


class Shelf:
    """Open workplaces: built when first needed and dropped after their last episode, to save memory."""

    def __init__(self, environments: Mapping[str, Environment], uses: Mapping[str, int]) -> None:
        self._environments = environments
        self._uses = dict(uses)
        self._open: dict[str, Environment] = {}

    @contextmanager
    def borrow(self, name: str) -> Generator[Environment]:
        """The environment, with its image kept as long as others will want it."""
        if name not in self._open:
            self._open[name] = _fresh(self._environments[name])
        try:
            yield self._open[name]
        finally:
            self._uses[name] -= 1
            if not self._uses[name]:
                del self._open[name]


def extend(known: Manifest, asked: Manifest, source: str) -> Manifest:
    """The manifest of a study that goes on.

    Raises:
        SpecError: What is asked for cannot be compared with what was run; lists every difference.
    """
    problems: list[Problem] = []
    if known.seed != asked.seed:
        problems.append(Problem("changed_seed", "seed", f"{known.seed} before, {asked.seed} now"))
    if known.limits.episode != asked.limits.episode:
        # The only limit that cuts an episode which is then scored; the others end it as invalid or infra.
        found = f"{known.limits.episode:g} s before, {asked.limits.episode:g} s now"
        problems.append(Problem("changed_limit", "limits.episode", found))
    for name in sorted(known.agents.keys() & asked.agents.keys()):
        differences = changed(known.agents[name], asked.agents[name])
        problems += [Problem("changed_agent", f"agents.{name}", difference) for difference in differences]
    problems += _changed_environments(known, asked)
    if problems:
        fix = (
            "Run into another directory, or with what this run was begun with. "
            "If only checks changed, `coworkenv grade --write` brings it up to date."
        )
        problems.append(Problem("another_study", "", "this directory holds a run of something else", fix))
        raise SpecError(problems, source)
    return asked.model_copy(
        update={
            "trials": max(known.trials, asked.trials),
            "agents": {**known.agents, **asked.agents},
            "environments": {**known.environments, **asked.environments},
        }
    )


def _changed_environments(known: Manifest, asked: Manifest) -> list[Problem]:
    before, now = known.environments, asked.environments
    names = [name for name in now if name in before and before[name].digest != now[name].digest]
    problems = [
        Problem(
            "changed_environment",
            f"environments.{name}",
            f"digest {before[name].digest[:12]} before, {now[name].digest[:12]} now",
        )
        for name in names[:_SHOWN]
    ]
    if len(names) > _SHOWN:
        problems.append(Problem("changed_environment", "environments", f"and {len(names) - _SHOWN} more have changed"))
    return problems


def _fresh(environment: Environment) -> Environment:
    """A copy whose image can be dropped without the caller's environment growing by it."""
    return environment.model_copy()


def _settings(agent: Agent) -> dict[str, Any]:
    return from_json(to_json(dict(agent.settings))) if isinstance(agent, SettledAgent) else {}


def _first(several: BaseExceptionGroup[BaseException]) -> BaseException:
    """The first thing that went wrong; the others were on their way when everything was stopped."""
    first = several.exceptions[0]
    return _first(first) if isinstance(first, BaseExceptionGroup) else first  # pyright: ignore[reportUnknownArgumentType,reportUnknownVariableType]


def _silent(done: int, total: int, last: Summary | None) -> None:
    """Tell nobody."""
