"""Commands of ``harness``: serve, run, grade, report, env."""

from __future__ import annotations

import json
import secrets
import shlex
from collections import Counter
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from textwrap import shorten
from typing import Any

import anyio
import click
from rich.table import Table
from rich.text import Text

from harness import pack
from harness.environment import Environment
from harness.files import storage_boundary
from harness.invocation import program
from harness.rundir import Summary
from harness.screen import json_option, progress_bar, wide_console
from servers.errors import Problem, SpecError, suggest

PATH = click.Path(path_type=Path)
FOLDER = click.Path(path_type=Path, file_okay=False)
AT_LEAST_ONE = click.IntRange(min=1)
SHORTEST_TOKEN = 16
LONGEST_REASON = 200
MOST_REASONS = 5


def _admin_token(ctx: click.Context, param: click.Parameter, value: str | None) -> str:
    """The given token, or a fresh one."""
    if value is None:
        return secrets.token_urlsafe(24)
    if len(value) < SHORTEST_TOKEN:
        raise click.BadParameter(
            f"a token needs at least {SHORTEST_TOKEN} characters; leave it out for a fresh one", ctx, param
        )
    return value


@click.command(epilog="Example: coworkenv serve packs/mine --id inbox_triage-3-0a1b2c3d4e")
@click.argument("path", metavar="PACK", type=PATH)
@click.option("--id", "chosen", help="Environment to serve; the first of the pack by default.")
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen at.")
@click.option("--port", default=8765, show_default=True, type=click.IntRange(0, 65535), help="0 takes a free port.")
@click.option("--allow-host", "hosts", multiple=True, help="Further host name under which clients reach the server.")
@click.option("--data", type=FOLDER, help="Keep workplaces in files there; they come back after a restart.")
@click.option(
    "--admin-token",
    callback=_admin_token,
    help="Token of the control plane, 16 characters or more; by default a fresh one.",
)
@click.option("--talk", is_flag=True, help="Give the agent a tool to speak to its user: user_message.")
@click.option("--stdio", is_flag=True, help="Speak MCP on standard input and output instead of HTTP.")
@json_option
def serve(
    *,
    path: Path,
    chosen: str | None,
    host: str,
    port: int,
    hosts: tuple[str, ...],
    data: Path | None,
    admin_token: str,
    talk: bool,
    stdio: bool,
    as_json: bool,
) -> None:
    """Serve a workplace over MCP, for any agent.

    PACK is a pack, a .jsonl file or one environment in YAML. One episode is opened at once; the control plane
    opens more.
    """
    environments = pack.load(path)
    environment = choose(environments, chosen)
    if stdio:
        from harness.serving import serve_stdio_episode  # noqa: PLC0415 - starts fast without the web stack

        anyio.run(partial(serve_stdio_episode, environment, data, talk=talk))
        return
    from harness.serving import Serving, serve_http  # noqa: PLC0415
    from servers.gateway import fast_loop  # noqa: PLC0415

    serving = Serving(host=host, port=port, hosts=hosts, data=data, admin_token=admin_token, talk=talk, as_json=as_json)
    anyio.run(serve_http, environments, environment.id, serving, backend_options={**fast_loop()})


@click.command(epilog="Example: coworkenv run packs/mine --agent oracle --agent litellm:openai/gpt-5 --out runs/mine")
@click.argument("path", metavar="PACK", type=PATH)
@click.option(
    "--agent",
    "agents",
    multiple=True,
    required=True,
    help="oracle, noop, read-only, claim, careless, litellm:MODEL or local:DIRECTORY; may be repeated.",
)
@click.option(
    "--out",
    type=FOLDER,
    default=Path("runs/new"),
    show_default=True,
    help="Directory of the run; an existing one is resumed.",
)
@click.option(
    "--trials",
    default=1,
    show_default=True,
    type=AT_LEAST_ONE,
    help="Episodes for each environment and agent.",
)
@click.option("--seed", default=0, show_default=True, help="Seed of agents that sample.")
@click.option("--concurrency", default=64, show_default=True, type=AT_LEAST_ONE, help="Episodes at once.")
@click.option("--id", "ids", multiple=True, help="Only this environment; may be repeated.")
@click.option("--api-base", help="For litellm: address of the model endpoint.")
@click.option("--retry-invalid", is_flag=True, help="Also run again what ended invalid.")
@json_option
def run(
    *,
    path: Path,
    agents: tuple[str, ...],
    out: Path,
    trials: int,
    seed: int,
    concurrency: int,
    ids: tuple[str, ...],
    api_base: str | None,
    retry_invalid: bool,
    as_json: bool,
) -> int:
    """Run agents through environments.

    The directory is the state: the same command finishes what is missing, and more agents, trials or
    environments extend the study. The exit code is 2 when no episode could be scored.
    """
    from harness import results, runs  # noqa: PLC0415 - keeps other commands fast
    from harness.agents.catalogue import make_agent  # noqa: PLC0415

    environments = pack.load(path)
    if ids:
        environments = [choose(environments, one) for one in ids]
    made = [make_agent(text, api_base=api_base) for text in agents]
    with storage_boundary(out):
        out.mkdir(parents=True, exist_ok=True)
    total = len(environments) * len(made) * trials
    with progress_bar("run", total, quiet=as_json) as advance:
        result = anyio.run(
            lambda: runs.run(
                environments,
                made,
                out,
                trials=trials,
                seed=seed,
                concurrency=concurrency,
                retry_invalid=retry_invalid,
                on_progress=lambda done, _total, _last: advance(done),
            )
        )
    summaries = runs.load_summaries(out)
    if as_json:
        click.echo(json.dumps(results.as_json(summaries)))
    else:
        wide_console().print(results.table(summaries))
        click.echo(f"\nrun directory: {out}\nlook at it:    {program()} report {shlex.quote(str(out))}")
    _tell_unscored(result.summaries)
    return 0 if any(summary.scored for summary in result.summaries) else 2


@click.command(epilog="Example: coworkenv grade runs/mine --pack packs/mine --write")
@click.argument("directory", metavar="RUN", type=PATH)
@click.option("--pack", "path", type=PATH, required=True, help="The environments, whose checks may have changed.")
@click.option("--write", is_flag=True, help="Keep the new grades.")
@json_option
def grade(directory: Path, path: Path, write: bool, as_json: bool) -> None:
    """Grade a run again, by replaying what the agents did; no model is asked."""
    from harness import replay  # noqa: PLC0415

    environments = pack.load(path)
    with progress_bar("grade", 1, quiet=as_json) as advance:
        regrades = anyio.run(lambda: replay.grade_run(directory, environments, write=write))
        advance(1)
    changed = [one for one in regrades if one.differs]
    if as_json:
        rows = [replay.as_json(one) for one in changed]
        click.echo(json.dumps({"episodes": len(regrades), "changed": len(changed), "changes": rows}))
        return
    for one in changed:
        click.echo(str(one))
    kept = " and kept" if write and changed else ""
    click.echo(f"{len(regrades)} episodes graded again, {len(changed)} grades changed{kept}")


@click.command(epilog="Example: coworkenv report runs/mine --out report.html")
@click.argument("directory", metavar="RUN", type=PATH)
@click.option("--out", type=PATH, help="The HTML file; report.html in the run directory by default.")
@json_option
def report(directory: Path, out: Path | None, as_json: bool) -> None:
    """Show a run: a table here, and one HTML file with every transcript next to what changed."""
    from harness import results, runs  # noqa: PLC0415
    from harness.report import write_report  # noqa: PLC0415

    summaries = runs.load_summaries(directory)
    if as_json:
        click.echo(json.dumps(results.as_json(summaries)))
        return
    wide_console().print(results.table(summaries))
    target = out or directory / "report.html"
    write_report(directory, target)
    click.echo(f"\nreport: {target}")


@click.group()
def env() -> None:
    """Look at environments: list, show, check, schema."""


@env.command("list", epilog="Example: coworkenv env list packs/mine")
@click.argument("path", metavar="PACK", type=PATH)
@json_option
def env_list(path: Path, as_json: bool) -> None:
    """List the environments of a pack."""
    environments = pack.load(path)
    if as_json:
        rows = [{"id": e.id, "family": e.family, "difficulty": e.difficulty, "digest": e.digest} for e in environments]
        click.echo(json.dumps(rows))
        return
    table = Table()
    for name in ("id", "family", "level", "request"):
        table.add_column(name, no_wrap=name != "request")
    for environment in environments:
        level = environment.difficulty.get("level")
        shown = (environment.id, environment.family, "" if level is None else f"{level:g}", environment.request)
        table.add_row(*map(Text, shown))  # not markup, whatever stands in it
    wide_console().print(table)


@env.command("show", epilog="Example: coworkenv env show packs/mine --id inbox_triage-3-0a1b2c3d4e > mine.yaml")
@click.argument("path", metavar="PACK", type=PATH)
@click.option("--id", "chosen", help="Environment to show; the first by default.")
@json_option
def env_show(path: Path, chosen: str | None, as_json: bool) -> None:
    """Print an environment as the YAML file that you would write by hand."""
    environment = choose(pack.load(path), chosen)
    click.echo(json.dumps(environment.dump()) if as_json else pack.to_yaml(environment), nl=False)


@env.command("check", epilog="Example: coworkenv env check my-environment.yaml")
@click.argument("path", metavar="PACK", type=PATH)
@json_option
def env_check(path: Path, as_json: bool) -> None:
    """Find unknown keys, dangling ids, impossible times and wrong names.

    `coworkenv certify` then proves the grader.
    """
    environments = pack.load(path)
    problems: list[Problem] = []
    for environment in environments:
        try:
            environment.validate_all()
        except SpecError as error:
            problems += [Problem(p.code, f"{environment.id}: {p.where}", p.message, p.fix) for p in error.problems]
    if as_json:
        rows: list[dict[str, Any]] = [
            {"code": p.code, "where": p.where, "message": p.message, "fix": p.fix} for p in problems
        ]
        click.echo(json.dumps({"environments": len(environments), "problems": rows}))
    if problems:
        raise SpecError(problems, str(path))
    if not as_json:
        click.echo(f"{len(environments)} environments, nothing wrong")


@env.command("schema", epilog="Example: coworkenv env schema > environment.schema.json")
def env_schema() -> None:
    """Print the JSON schema of an environment, for editors."""
    click.echo(json.dumps(Environment.model_json_schema(by_alias=True), indent=2))


def choose(environments: Sequence[Environment], chosen: str | None) -> Environment:
    """The environment of this id, or the first.

    Raises:
        SpecError: There is no such environment.
    """
    if chosen is None:
        return environments[0]
    by_id = {environment.id: environment for environment in environments}
    if chosen not in by_id:
        raise SpecError(
            [
                Problem(
                    "unknown_environment",
                    "--id",
                    f"there is no environment {chosen!r}",
                    suggest(chosen, by_id),
                )
            ]
        )
    return by_id[chosen]


def _tell_unscored(summaries: Sequence[Summary]) -> None:
    """Say on standard error why episodes have no score or were cut short, the most frequent reasons first."""
    reasons = Counter(
        (one.status, shorten(one.reason, LONGEST_REASON, placeholder=" ..."))
        for one in summaries
        if not one.scored or one.status == "failed"
    )
    for (status, reason), count in reasons.most_common(MOST_REASONS):
        scored = "scored as it was" if status == "failed" else "not scored"
        click.echo(f"{count} {scored}, {status}: {reason}", err=True)
    if len(reasons) > MOST_REASONS:
        click.echo(f"... and {len(reasons) - MOST_REASONS} other reasons; the report shows them all.", err=True)
    if any(status == "infra" for status, _ in reasons):
        click.echo("The same command plays what ended infra again.", err=True)
