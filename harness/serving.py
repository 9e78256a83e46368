"""What ``coworkenv serve`` runs: an HTTP server with both planes, or one desk on standard input and output."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import click

from harness.environment import Environment
from harness.live import Control, Files, LiveEpisode, client_config
from harness.talk import talking_desk
from servers.gateway import Gateway, asgi_app, serve
from servers.stdio import serve_stdio
from servers.web import LOOPBACK


@dataclass(frozen=True, slots=True)
class Serving:
    """How to serve."""

    host: str
    port: int
    hosts: tuple[str, ...]
    data: Path | None
    admin_token: str
    talk: bool
    as_json: bool


async def serve_http(environments: Sequence[Environment], first: str, serving: Serving) -> None:
    """Serve until interrupted; the environment ``first`` is open from the beginning.

    Raises:
        CoworkEnvError: The port is taken, or the place for the data does not work.
    """
    gateway = Gateway(allowed_hosts=(*LOOPBACK, serving.host, *serving.hosts))
    control = Control(gateway, environments, data=serving.data, talk=serving.talk)
    episode = control.open(first)
    app = asgi_app(gateway, control.routes(serving.admin_token))

    def ready(url: str) -> None:
        control.url = url
        # The server outlives whoever read its first lines.
        with suppress(BrokenPipeError):
            _announce(control, episode, serving)

    try:
        await serve(app, host=serving.host, port=serving.port, on_ready=ready)
    finally:
        control.close()


async def serve_stdio_episode(environment: Environment, data: Path | None, *, talk: bool = False) -> None:
    """Serve one episode on standard input and output until the client leaves.

    What it scored goes to standard error. ``talk`` gives the agent a tool to speak to its user.

    Raises:
        CoworkEnvError: The place for the data does not work.
    """
    episode = LiveEpisode.open(environment, None if data is None else Files.of(data, environment))
    try:
        desk = talking_desk(episode.desk, episode.say) if talk else episode.desk
        await serve_stdio(desk, on_fault=episode.faults.append)
        score = episode.grade().score
        click.echo(
            "no score: something broke in the workplace" if score is None else f"score {score.total:.2f}", err=True
        )
    finally:
        episode.world.close()


def _announce(control: Control, episode: str, serving: Serving) -> None:
    facts = control.describe(episode)
    if serving.as_json:
        click.echo(json.dumps(facts | {"control": control.url, "admin_token": serving.admin_token}))
        return
    click.echo(f"{facts['environment']} is open. The agent's task:\n")
    click.echo(f"  {facts['request']}\n")
    click.echo("Connect any MCP client:\n")
    click.echo(client_config(facts["mcp"]))
    services = ", ".join(facts["mcp_by_service"])
    click.echo(f"\nor one server for each application (/e/<token>/<service>/mcp): {services}.")
    plane = f"  curl -X POST -H 'Authorization: Bearer {serving.admin_token}' \\\n    "
    where = f"{control.url}/episodes/{episode}"
    if serving.talk:
        click.echo("\nThe agent asks and tells its user with the tool user_message. You can do so too:\n")
    else:
        click.echo("\nTell its user what the agent says, and get the answer (or serve with --talk):\n")
    click.echo(f"""{plane}-d '{{"text": "..."}}' {where}/message""")
    click.echo("\nWhen the agent is done, see how it did:\n")
    click.echo(f"{plane}{where}/grade\n\nCtrl-C stops the server.")
