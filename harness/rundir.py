"""The run directory: what stands in it, under which names, and how it is read.

::

    RUN/manifest.json            what is run (``Manifest``)
    RUN/episodes/<key>.json      one ``Trajectory`` per finished episode; the same bytes whenever it is played
    RUN/summaries/<key>.json     what lists and tables need of it (``Summary``), and what it cost in real time

``<key>`` is ``<environment>__<agent>__<trial>``. Every file is written whole or not at all, the record
before its summary, so **an episode counts when its summary is there**: a process killed between the two
plays that one episode again. Names that begin with a dot (unfinished files, a file manager's droppings) are
no part of a run; any other file that does not belong is an error that names it.

``harness.runs`` fills a directory, ``harness.replay`` grades it again, ``harness.results`` and
``harness.report`` show it.

One process at a time fills a directory: ``RunDirectory.alone`` locks it by the file ``.lock``, which stays there and
means nothing once its process is gone. Readers need no lock.
"""

from __future__ import annotations

import hashlib
import re
import sqlite3
from collections.abc import Generator, Iterable, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from harness.environment import Environment
from harness.errors import Status
from harness.files import StorageError, storage_boundary, write_atomic
from harness.trajectory import Model, ScoreRecord, Trajectory
from servers.errors import InUse, Problem, SpecError, problems_from

MANIFEST = "manifest.json"
EPISODES = "episodes"
SUMMARIES = "summaries"
LOCK = ".lock"
MANIFEST_SCHEMA = "coworkenv/run/1"
SUMMARY_SCHEMA = "coworkenv/summary/1"

_PLAIN_NAME = re.compile(r"[A-Za-z0-9.-]+(?:_[A-Za-z0-9.-]+)*")
"""Agent names that stand in file names as they are; without ``__``, so that keys stay distinct."""
_LONGEST_AGENT = 36
"""255 bytes of a file name, less 200 of an environment, two separators, the trial and ``.json``."""

M = TypeVar("M", bound=BaseModel)


class LimitsRecord(Model):
    """Real seconds that each thing may take; see ``harness.episode.Limits``."""

    connect: float
    call: float
    message: float
    episode: float
    grade: float


class EnvironmentRecord(Model):
    """An environment of a run: enough to know it again and to show its episodes."""

    digest: str
    family: str
    level: int | None = None
    events: dict[str, str | None] = Field(default_factory=dict[str, str | None])
    """Notice of each event by id; None for a silent one."""


class Manifest(Model):
    """What is run: all environments, by all agents, so many times."""

    schema_: Literal["coworkenv/run/1"] = Field(default=MANIFEST_SCHEMA, alias="schema")
    model_config = ConfigDict(extra="forbid", populate_by_name=True)

    seed: int
    trials: int
    limits: LimitsRecord
    agents: dict[str, dict[str, Any]]
    """Settings by agent name."""
    environments: dict[str, EnvironmentRecord]
    """By id."""

    @property
    def planned(self) -> int:
        """Episodes in the whole study."""
        return len(self.environments) * len(self.agents) * self.trials


class Summary(Model):
    """What lists and tables need of an episode."""

    schema_: Literal["coworkenv/summary/1"] = Field(default=SUMMARY_SCHEMA, alias="schema")
    model_config = ConfigDict(extra="forbid", populate_by_name=True)

    environment: str
    digest: str
    family: str
    level: int | None
    agent: str
    trial: int
    status: Status
    reason: str
    truncated: bool
    score: ScoreRecord | None
    missed: list[str]
    """Ids of the checks that did not hold."""
    steps: int
    """Messages of the agent."""
    calls: int
    """Calls that the agent asked for."""
    refused: int
    """Those that were answered with an error."""
    prompt_tokens: int
    completion_tokens: int
    cost: float
    """US dollars."""
    wall_seconds: float
    """Real time from opening to grading."""

    @property
    def key(self) -> str:
        """Name of the episode's files, without ``.json``."""
        return episode_key(self.environment, self.agent, self.trial)

    @property
    def scored(self) -> bool:
        """Whether the episode enters scores."""
        return self.score is not None and self.status in ("done", "failed")

    @property
    def passed(self) -> bool:
        """Whether every check held."""
        return self.score is not None and self.score.passed


@dataclass(frozen=True, slots=True)
class RunDirectory:
    """A run on disk."""

    path: Path

    @property
    def manifest_path(self) -> Path:
        """Where the manifest is."""
        return self.path / MANIFEST

    def episode_path(self, key: str) -> Path:
        """Where the record of an episode is."""
        return self.path / EPISODES / f"{key}.json"

    def summary_path(self, key: str) -> Path:
        """Where the summary of an episode is."""
        return self.path / SUMMARIES / f"{key}.json"

    def create(self) -> None:
        """Make the folders.

        Raises:
            StorageError: They cannot be made.
        """
        for folder in (self.path, self.path / EPISODES, self.path / SUMMARIES):
            with storage_boundary(folder):
                folder.mkdir(parents=True, exist_ok=True)

    @contextmanager
    def alone(self) -> Generator[None]:
        """Keep other processes, and other calls in this one, from filling this directory.

        Raises:
            InUse: One of them does already.
            StorageError: There cannot be a lock here.
        """
        with storage_boundary(self.path):
            self.path.mkdir(parents=True, exist_ok=True)
        # SQLite's locks are the ones that work the same on every system and go with the process.
        try:
            connection = sqlite3.connect(self.path / LOCK, timeout=0, isolation_level=None)
        except sqlite3.Error as error:
            raise StorageError(self.path / LOCK, "other", str(error)) from error
        with closing(connection):
            try:
                connection.execute("BEGIN EXCLUSIVE")
            except sqlite3.Error as error:
                if error.sqlite_errorcode == sqlite3.SQLITE_BUSY:
                    raise InUse(
                        f"{self.path}: another process fills this run. Wait for it, stop it, or name another directory."
                    ) from None
                raise StorageError(self.path / LOCK, "other", str(error)) from error
            yield

    def manifest(self) -> Manifest:
        """Read the manifest.

        Raises:
            SpecError: This is no run, or its manifest cannot be read.
        """
        manifest = self.manifest_if_any()
        if manifest is None:
            fix = "Name a directory that `coworkenv run` has made."
            raise SpecError(
                [Problem("no_run", "", f"this is no run: there is no {MANIFEST} in it", fix)], str(self.path)
            )
        return manifest

    def manifest_if_any(self) -> Manifest | None:
        """Read the manifest; None where nothing was run yet.

        Raises:
            SpecError: The manifest cannot be read, or there are other files here.
        """
        if self.manifest_path.exists():
            return read_model(Manifest, self.manifest_path, "Restore it, or run into another directory.")
        strange = next((entry for entry in self._entries(self.path) if self._is_strange(entry)), None)
        if strange is not None:
            fix = "Choose a new or an empty directory, so that nothing of yours is mixed with a run."
            found = f"this is no run, yet not empty either: {strange.name} is in it"
            raise SpecError([Problem("no_run", "", found, fix)], str(self.path))
        return None

    def write_manifest(self, manifest: Manifest) -> None:
        """Write the manifest.

        Raises:
            StorageError: It cannot be written.
        """
        write_atomic(self.manifest_path, manifest.model_dump_json(by_alias=True, indent=1) + "\n")

    def write(self, trajectory: Trajectory, summary: Summary) -> None:
        """Keep a finished episode: the record first, so that its summary says that it is complete.

        Raises:
            StorageError: One of the two cannot be written.
        """
        write_atomic(self.episode_path(summary.key), trajectory.model_dump_json(by_alias=True) + "\n")
        write_atomic(self.summary_path(summary.key), summary.model_dump_json(by_alias=True) + "\n")

    def trajectory(self, key: str) -> Trajectory:
        """Read the record of an episode.

        Raises:
            SpecError: It is not there or cannot be read.
        """
        return read_model(Trajectory, self.episode_path(key), "Delete its summary and run the same command again.")

    def summaries(self) -> dict[str, Summary]:
        """Read all summaries, by key, in the order of keys.

        Raises:
            SpecError: A file there is no summary, or belongs to another episode than its name says.
        """
        found: dict[str, Summary] = {}
        for path in sorted(self._entries(self.path / SUMMARIES)):
            summary = self._summary(path)
            found[summary.key] = summary
        return found

    def _summary(self, path: Path) -> Summary:
        fix = "Delete it and run the same command again: the episode is then played again."
        if path.suffix != ".json":
            raise SpecError([Problem("unknown_file", "", "this file belongs to no run", "Move it away.")], str(path))
        summary = read_model(Summary, path, fix)
        if summary.key != path.stem:
            raise SpecError([Problem("misplaced", "", f"this is the summary of {summary.key}", fix)], str(path))
        return summary

    def _is_strange(self, entry: Path) -> bool:
        """Empty folders of ours are what a run leaves that was killed before its manifest was written."""
        return entry.name not in (EPISODES, SUMMARIES) or bool(self._entries(entry))

    def _entries(self, folder: Path) -> list[Path]:
        try:
            return [entry for entry in folder.iterdir() if not entry.name.startswith(".")]
        except FileNotFoundError:
            return []
        except OSError as error:
            raise SpecError([Problem("unreadable", "", f"cannot be listed ({error.strerror})")], str(folder)) from None


def load_summaries(directory: Path) -> list[Summary]:
    """Read what a run found, without its records.

    Raises:
        SpecError: The directory is no run, or a file in it is broken; the message names it.
    """
    where = RunDirectory(directory)
    where.manifest()
    return list(where.summaries().values())


def summarize(trajectory: Trajectory, *, level: int | None, wall_seconds: float) -> Summary:
    """The summary of an episode."""
    spoken = [message for message in trajectory.messages if message.role == "assistant"]
    answers = [message for message in trajectory.messages if message.role == "tool"]
    usage = trajectory.usage
    return Summary(
        environment=trajectory.environment,
        digest=trajectory.digest,
        family=trajectory.family,
        level=level,
        agent=trajectory.agent,
        trial=trajectory.trial,
        status=trajectory.status,
        reason=trajectory.reason,
        truncated=trajectory.truncated,
        score=trajectory.score,
        missed=[check.id for check in trajectory.checks if check.verdict != "PASS"],
        steps=len(spoken),
        calls=sum(len(message.calls) for message in spoken),
        refused=sum(message.is_error for message in answers),
        prompt_tokens=int(usage.get("prompt_tokens", 0)),
        completion_tokens=int(usage.get("completion_tokens", 0)),
        cost=usage.get("cost", 0.0),
        wall_seconds=round(wall_seconds, 3),
    )


def describe(environment: Environment) -> EnvironmentRecord:
    """What a manifest keeps of an environment."""
    level = environment.difficulty.get("level")
    return EnvironmentRecord(
        digest=environment.digest,
        family=environment.family,
        level=None if level is None else int(level),
        events={event.id: event.notice for event in environment.events},
    )


def episode_key(environment: str, agent: str, trial: int) -> str:
    """Name of an episode's files: ``<environment>__<agent>__<trial>``.

    An agent's name that cannot stand in a file name (``openai/gpt-x``) is spelled with dashes and made
    unique by the beginning of its hash.
    """
    if not (_PLAIN_NAME.fullmatch(agent) and len(agent) <= _LONGEST_AGENT):
        mark = hashlib.sha256(agent.encode()).hexdigest()[:8]
        words = re.sub(r"[^A-Za-z0-9.]+", "-", agent).strip("-")[: _LONGEST_AGENT - 9]
        agent = f"{words}-{mark}".lstrip("-")
    return f"{environment}__{agent}__{trial}"


def one_file_each(keys: Iterable[str]) -> None:
    """Make sure that no two episodes share a file, not even where file names ignore case.

    Raises:
        SpecError: Two would.
    """
    seen: dict[str, str] = {}
    for key in keys:
        other = seen.get(key.casefold())
        if other is not None:
            fix = "Give every environment its own id and every agent its own name, different by more than case."
            raise SpecError([Problem("duplicate_episode", "", f"{key} and {other} would share one file", fix)])
        seen[key.casefold()] = key


def read_model(model: type[M], path: Path, fix: str) -> M:
    """Read a JSON file of a run.

    Raises:
        SpecError: It is missing, unreadable, or not what it should be; names the file and says what to do.
    """
    try:
        return model.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        raise SpecError([Problem("not_found", "", "the file is missing", fix)], str(path)) from None
    except OSError as error:
        raise SpecError([Problem("unreadable", "", f"cannot be read ({error.strerror})", fix)], str(path)) from None
    except ValidationError as error:
        found = problems_from(error, "")
        raise SpecError([Problem(found[0].code, found[0].where, found[0].message, fix)], str(path)) from None


def changed(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    """Name the keys of two mappings whose values differ, with both values."""
    names = sorted(before.keys() | after.keys())
    return [
        f"{name}: {before.get(name)!r} before, {after.get(name)!r} now"
        for name in names
        if before.get(name) != after.get(name)
    ]
