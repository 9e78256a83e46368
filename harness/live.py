"""Live episodes: workplaces that outside agents work in, and the control plane beside them.

The agent plane (``servers.gateway``) has tools and nothing else. The control plane is other routes with an
admin token:

=======  =======================  =============================================================
method   path                     what it does
=======  =======================  =============================================================
GET      /environments            what can be opened
POST     /episodes                open one: ``{"environment": id}`` gives its addresses and task
GET      /episodes                the open ones
POST     /episodes/{id}/message   say ``{"text": ...}`` to the user; gives the user's answer
POST     /episodes/{id}/advance   let simulated time pass: ``{"seconds": n}``
POST     /episodes/{id}/grade     end it: its address dies, then a frozen copy is graded
DELETE   /episodes/{id}           end it without a grade
=======  =======================  =============================================================

With ``data`` worlds live in files (``ID.db``, and its address in ``ID.token``) and come back under their old
addresses after a restart; what was said to the user does not. An episode that was ended never comes back: its
address is forgotten and its world set aside as ``ID.ended``. While an episode is open its file is locked: another
process that is given the same ``data`` is refused (``InUse``), and the lock goes with the process.

A workplace in which a tool broke or whose database failed (a full disk) goes on being answered, without a score.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic_core import from_json
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from harness.environment import Environment
from harness.files import storage_boundary, write_atomic
from harness.grading import Grade, grade
from harness.messages import Message
from harness.outcome import Disclosure, Outcome
from harness.prompt import system_prompt
from harness.talk import talking_desk
from harness.user import ScriptedUser, UserReply
from servers.desk import Desk, agent_desk
from servers.errors import Problem, ServiceFault, SpecError, StorageFault, suggest
from servers.gateway import TOKEN, Gateway
from servers.web import Endpoint, HttpError, admin_only
from servers.world import World

LONGEST_ADVANCE = 90 * 24 * 3600


@dataclass(frozen=True, slots=True)
class Files:
    """Where an episode is kept that survives the process; one for each environment."""

    world: Path
    token: Path
    """Holds the secret part of its address."""
    ended: Path
    """The world of the last episode that was ended."""

    @classmethod
    def of(cls, data: Path, environment: Environment) -> Files:
        """The files of an environment in the folder ``data``, which is made if need be.

        Raises:
            StorageError: The folder cannot be made.
        """
        with storage_boundary(data):
            data.mkdir(parents=True, exist_ok=True)
        return cls(*(data / f"{environment.id}.{suffix}" for suffix in ("db", "token", "ended")))

    def known_token(self) -> str | None:
        """The token of an episode that comes back; None for a new one.

        Raises:
            SpecError: The file does not hold one.
            StorageError: The file cannot be read.
        """
        with storage_boundary(self.token):
            if not self.token.exists():
                return None
            token = self.token.read_text(encoding="utf-8").strip()
        if TOKEN.fullmatch(token) is None:
            fix = "Remove it; the workplace then gets a new address."
            raise SpecError([Problem("no_token", "", "this file does not hold an address", fix)], str(self.token))
        return token

    def set_aside(self) -> None:
        """Make sure that a closed episode never comes back.

        Raises:
            StorageError: The files cannot be changed.
        """
        with storage_boundary(self.world):
            self.token.unlink(missing_ok=True)
            # A log is left beside the world when a full disk kept it from being folded in; it goes along, since
            # the next world of this name must not read it.
            for suffix in ("-wal", ""):
                log = self.world.with_name(self.world.name + suffix)
                aside = self.ended.with_name(self.ended.name + suffix)
                aside.unlink(missing_ok=True)
                if log.exists():
                    log.replace(aside)


@dataclass(slots=True)
class LiveEpisode:
    """A workplace that an outside agent works in."""

    environment: Environment
    world: World
    user: ScriptedUser
    files: Files | None = None
    messages: list[Message] = field(default_factory=list[Message])
    disclosures: list[Disclosure] = field(default_factory=list[Disclosure])
    faults: list[ServiceFault] = field(default_factory=list[ServiceFault])

    @classmethod
    def open(cls, environment: Environment, files: Files | None = None) -> LiveEpisode:
        """Open a workplace, in memory or in files; from the files when they are there already.

        Raises:
            SpecError: The environment does not fit together.
            InUse: Another process has the file open.
            CoworkEnvError: The file belongs to another environment.
        """
        environment.validate_all()
        world = World.open(environment.image, None if files is None else files.world)
        return cls(environment, world, ScriptedUser(environment.user), files)

    @property
    def desk(self) -> Desk:
        """The agent's desk; every call takes the thinking time of one message."""
        environment = self.environment
        return agent_desk(self.world, environment.exposed, notices=environment.notices, think=environment.budget.think)

    def advance(self, seconds: int) -> None:
        """Let simulated time pass.

        Raises:
            ServiceFault: A tool broke that an event called, or the database failed; the workplace has no score
                any more.
        """
        with self._noting_faults():
            self.world.advance(seconds)

    def say(self, text: str) -> UserReply:
        """The agent says something to its user, which ends its turn; gives the answer.

        Raises:
            ServiceFault: As for ``advance``.
        """
        self.messages.append(Message("assistant", text))
        with self._noting_faults():
            self.world.end_turn()
        reply = self.user.reply(text)
        last = self.world.journal_length
        self.disclosures += [Disclosure(fact, last) for fact in reply.disclosed]
        if not reply.stop:
            self.messages.append(Message("user", reply.text))
        return reply

    def grade(self) -> Grade:
        """Grade a frozen copy of the present moment. A workplace in which something broke has no score."""
        if self.faults:
            return Grade(None, ())
        try:
            frozen = self.world.fork()
        except StorageFault as fault:
            self.faults.append(fault)
            return Grade(None, ())
        try:
            return grade(self.environment, Outcome(frozen, messages=self.messages, disclosures=self.disclosures))
        finally:
            frozen.close()

    @contextmanager
    def _noting_faults(self) -> Generator[None]:
        try:
            yield
        except ServiceFault as fault:
            self.faults.append(fault)
            raise


class Control:
    """The control plane over a gateway."""

    def __init__(
        self, gateway: Gateway, environments: Sequence[Environment], *, data: Path | None = None, talk: bool = False
    ) -> None:
        self.gateway = gateway
        self.environments = {environment.id: environment for environment in environments}
        self.data = data
        self.talk = talk
        """Whether agents have a tool to speak to their user; see ``harness.talk``."""
        self.url = ""
        """Base URL of the server, known once it listens."""
        self.episodes: dict[str, tuple[str, LiveEpisode]] = {}
        """By episode id: the token of its address, and the episode."""

    def open(self, environment_id: str) -> str:
        """Open an episode and give its id.

        Raises:
            HttpError: There is no such environment.
            CoworkEnvError: The place for its data does not work.
        """
        environment = self.environments.get(environment_id)
        if environment is None:
            fix = suggest(environment_id, self.environments)
            raise HttpError(404, "unknown_environment", f"There is no environment {environment_id!r}.", fix)
        if self.data is None:
            return self._enter(secrets.token_hex(8), LiveEpisode.open(environment))
        if environment_id in self.episodes:
            fix = "With --data each environment is open once; end that episode first."
            raise HttpError(409, "already_open", f"{environment_id} is open.", fix)
        files = Files.of(self.data, environment)
        token = files.known_token()
        self._enter(environment_id, LiveEpisode.open(environment, files), token)
        return environment_id

    def _enter(self, episode_id: str, episode: LiveEpisode, token: str | None = None) -> str:
        desk = talking_desk(episode.desk, episode.say) if self.talk else episode.desk
        token = self.gateway.open(desk, on_fault=episode.faults.append, token=token)
        self.episodes[episode_id] = (token, episode)
        if episode.files is not None:
            write_atomic(episode.files.token, token)
        return episode_id

    def describe(self, episode_id: str) -> dict[str, Any]:
        """What whoever connects an agent has to know."""
        token, episode = self.find(episode_id)
        environment = episode.environment
        return {
            "episode": episode_id,
            "environment": environment.id,
            "mcp": self.url + Gateway.path(token),
            "mcp_by_service": {name: self.url + path for name, path in self.gateway.service_paths(token).items()},
            "system": system_prompt(environment),
            "request": environment.request,
            "calls": episode.world.journal_length,
        }

    def find(self, episode_id: str) -> tuple[str, LiveEpisode]:
        """The token and the episode of an id.

        Raises:
            HttpError: There is no such episode, or no longer.
        """
        found = self.episodes.get(episode_id)
        if found is None:
            raise HttpError(404, "unknown_episode", "There is no such episode.", "GET /episodes lists the open ones.")
        return found

    def end(self, episode_id: str, *, graded: bool) -> dict[str, Any]:
        """End an episode: its address dies first, then it is graded if asked, then its world is closed.

        Raises:
            HttpError: There is no such episode, or no longer.
            StorageError: Its files cannot be set aside.
        """
        episode = self._leave(episode_id)
        try:
            return grade_json(episode.grade()) if graded else {}
        finally:
            episode.world.close()
            if episode.files is not None:
                episode.files.set_aside()

    def close(self) -> None:
        """Let go of every episode; worlds in files stay and come back."""
        for episode_id in list(self.episodes):
            self._leave(episode_id).world.close()

    def _leave(self, episode_id: str) -> LiveEpisode:
        token, episode = self.find(episode_id)
        self.gateway.close(token)
        del self.episodes[episode_id]
        return episode

    def routes(self, admin_token: str) -> list[BaseRoute]:
        """The routes of the control plane, all behind the admin token."""

        def route(path: str, endpoint: Endpoint, method: str) -> Route:
            return Route(path, admin_only(admin_token, endpoint), methods=[method])

        return [
            route("/environments", self._environments, "GET"),
            route("/episodes", self._list, "GET"),
            route("/episodes", self._create, "POST"),
            route("/episodes/{episode}/message", self._message, "POST"),
            route("/episodes/{episode}/advance", self._advance, "POST"),
            route("/episodes/{episode}/grade", self._grade, "POST"),
            route("/episodes/{episode}", self._delete, "DELETE"),
        ]

    async def _environments(self, request: Request) -> Response:
        rows = [{"id": e.id, "family": e.family, "request": e.request} for e in self.environments.values()]
        return JSONResponse({"environments": rows})

    async def _list(self, request: Request) -> Response:
        return JSONResponse({"episodes": [self.describe(episode_id) for episode_id in self.episodes]})

    async def _create(self, request: Request) -> Response:
        body = await _body(request)
        return JSONResponse(self.describe(self.open(_text(body, "environment"))), status_code=201)

    async def _message(self, request: Request) -> Response:
        body = await _body(request)
        _, episode = self.find(request.path_params["episode"])
        reply = episode.say(_text(body, "text"))
        return JSONResponse({"reply": reply.text, "stop": reply.stop})

    async def _advance(self, request: Request) -> Response:
        body = await _body(request)
        _, episode = self.find(request.path_params["episode"])
        seconds = body.get("seconds")
        if not isinstance(seconds, int) or isinstance(seconds, bool) or not 0 <= seconds <= LONGEST_ADVANCE:
            raise HttpError(422, "invalid", f"seconds must be a whole number from 0 to {LONGEST_ADVANCE}.")
        episode.advance(seconds)
        return JSONResponse({"now": episode.world.now})

    async def _grade(self, request: Request) -> Response:
        return JSONResponse(self.end(request.path_params["episode"], graded=True))

    async def _delete(self, request: Request) -> Response:
        self.end(request.path_params["episode"], graded=False)
        return Response(status_code=204)


def grade_json(result: Grade) -> dict[str, Any]:
    """A grade as JSON."""
    score = result.score
    return {
        "score": None if score is None else {name: getattr(score, name) for name in score.__slots__},
        "checks": [
            {"id": r.check.id, "about": r.check.about, "guard": r.check.guard, "verdict": r.verdict, "detail": r.detail}
            for r in result.checks
        ],
    }


def client_config(url: str) -> str:
    """The snippet that most MCP clients take to connect."""
    return json.dumps({"mcpServers": {"workplace": {"type": "http", "url": url}}}, indent=2)


async def _body(request: Request) -> Mapping[str, Any]:
    try:
        body = from_json(await request.body())
    except ValueError:
        body = None
    if not isinstance(body, dict):
        raise HttpError(400, "no_json", "The body must be a JSON object.")
    return body  # pyright: ignore[reportUnknownVariableType]


def _text(body: Mapping[str, Any], name: str) -> str:
    value = body.get(name)
    if not isinstance(value, str) or not value:
        raise HttpError(422, "invalid", f"{name} must be a text that is not empty.")
    return value
