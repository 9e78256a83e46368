"""Commands of ``synth``: demo, synth, certify, import."""

from __future__ import annotations

import json
import shlex
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import anyio
import click
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from harness import pack
from harness.environment import Environment
from harness.invocation import install, program
from harness.screen import json_option, progress_bar, wide_console
from servers.errors import Problem, SpecError, suggest
from synth.author import Synthesis, by_operator, synthesize, totals
from synth.certify import Certificate
from synth.certify import certify as certify_one
from synth.families import FAMILIES
from synth.families.base import Family

Advance = Callable[[int], None]
DEMO_COUNT = 12
DEMO_TRIALS = 3
TASK_FILE = "task.yaml"
PATH = click.Path(path_type=Path)
FOLDER = click.Path(path_type=Path, file_okay=False)
replace_option = click.option("--replace", is_flag=True, help="Write over a pack that was made otherwise.")


@click.command(epilog="Example: coworkenv synth --count 100 --seed mine --out packs/mine")
@click.option("--count", type=click.IntRange(min=1), default=12, show_default=True, help="Environments to accept.")
@click.option("--seed", default="1", show_default=True, help="The same seed gives the same environments.")
@click.option("--out", type=FOLDER, default=Path("packs/new"), show_default=True, help="Directory of the pack.")
@click.option("--family", "families", multiple=True, help="Only these workflow families; may be repeated.")
@click.option("--level", "levels", type=int, multiple=True, help="Only these levels of difficulty; may be repeated.")
@replace_option
@json_option
def synth(
    *,
    count: int,
    seed: str,
    out: Path,
    families: tuple[str, ...],
    levels: tuple[int, ...],
    replace: bool,
    as_json: bool,
) -> None:
    """Write environments from a seed, certify each over real MCP, and keep what is proven.

    The numbers, also of --json: oracle_mean is what the oracles score and has to be 1. noop_mean is what the best
    of the three lazy agents scores (one does nothing, one only reads, one only claims to be done), the mean over
    all environments, and has to be 0. Of wrong variants all are killed, of harmless ones all kept.
    """
    chosen = _families(families, levels)
    names = [one.name for one in chosen]
    recipe = {"command": "synth", "count": count, "seed": seed, "families": names, "levels": list(levels)}
    pack.make_room(out, recipe, replace=replace)
    with progress_bar("synthesize", count, quiet=as_json) as advance:
        result = anyio.run(_synthesize, count, seed, chosen, levels, advance)
    pack.save(out, result.accepted, recipe | _lasting(result))
    if as_json:
        click.echo(json.dumps(result.summary()))
    else:
        show_synthesis(wide_console(), result)
        click.echo(f"\n{len(result.accepted)} environments in {out}")
    if len(result.accepted) < count:
        first = "; ".join(str(defect) for _, defects in result.rejected[:3] for defect in defects[:2])
        fix = f"They are in {out}. Rejected: {first}" if first else f"They are in {out}; ask for fewer, or more levels."
        raise SpecError([Problem("too_few", "", f"only {len(result.accepted)} of {count} were accepted", fix)])


@click.command(epilog="Example: coworkenv certify packs/mine --json")
@click.argument("path", metavar="PACK", type=PATH)
@json_option
def certify(path: Path, as_json: bool) -> int:
    """Prove the graders of environments that exist.

    PACK is a pack directory, a .jsonl file or one environment in YAML. For every defect it says where it sits
    and how to mend it; then the exit code is 2.
    """
    environments = pack.load(path)
    began = time.perf_counter()
    with progress_bar("certify", len(environments), quiet=as_json) as advance:
        certificates = anyio.run(_certify, environments, advance)
    accepted = [certificate for certificate in certificates if certificate.accepted]
    numbers = {"accepted": len(accepted), "rejected": len(certificates) - len(accepted)}
    numbers |= totals(certificates, time.perf_counter() - began)
    defects = [(one.environment, defect) for one in certificates for defect in one.defects]
    if as_json:
        click.echo(json.dumps(numbers))
    else:
        _show_certificates(wide_console(), certificates)
        click.echo(f"{numbers['accepted']} accepted, {numbers['rejected']} rejected")
    for name, defect in defects:
        click.echo(f"{name}: {defect}", err=True)
    return 2 if defects else 0


@click.group()
def importing() -> None:
    """Turn tasks of a public benchmark into environments."""


@importing.command("claw-eval", epilog="Example: coworkenv import claw-eval tasks --out packs/imported")
@click.argument("path", type=PATH)
@click.option("--out", type=FOLDER, default=Path("packs/imported"), show_default=True, help="Directory of the pack.")
@replace_option
@json_option
def import_claw_eval(path: Path, out: Path, replace: bool, as_json: bool) -> int:
    """Turn tasks into environments with declared services over their fixtures.

    PATH is a task folder (with task.yaml), or a folder of task folders. The MCP tools keep the names,
    descriptions and input schemas of task.yaml. A task that does not fit is skipped, with the reason; then the
    exit code is 2.
    """
    from synth.importers.claw_eval import import_all  # noqa: PLC0415 - needed here only

    folders = _task_folders(path)
    recipe = {"command": "import claw-eval", "tasks": path.as_posix()}
    pack.make_room(out, recipe, replace=replace)
    with progress_bar("import", len(folders), quiet=as_json) as advance:
        result = import_all(folders, advance)
    facts: dict[str, Any] = {
        "source": "claw-eval",
        "environments": len(result.environments),
        "tools": sum(len(environment.exposed) for environment in result.environments),
        "warnings": result.warnings,
        "skipped": result.skipped,
    }
    if result.environments:
        pack.save(out, result.environments, recipe | facts)
    if as_json:
        numbers = {"imported": len(result.environments), "warnings": len(result.warnings), "skipped": result.skipped}
        click.echo(json.dumps(numbers))
    else:
        for warning in result.warnings:
            click.echo(f"note: {warning}", err=True)
        for name, reason in result.skipped.items():
            click.echo(f"skipped {name}: {reason}", err=True)
        click.echo(f"{len(result.environments)} imported, {len(result.skipped)} skipped")
        if result.environments:
            words = [program(), "serve", shlex.quote(str(out)), "--id", result.environments[0].id]
            click.echo(f"They are in {out}. Serve one: {' '.join(words)}")
    return 2 if result.skipped else 0


def _task_folders(path: Path) -> list[Path]:
    if (path / TASK_FILE).is_file():
        return [path]
    folders = sorted(file.parent for file in path.glob(f"*/{TASK_FILE}"))
    if not folders:
        fix = f"Name a folder with {TASK_FILE} in it, or one with such folders in it."
        raise SpecError([Problem("not_found", "", "there are no tasks here", fix)], str(path))
    return folders


async def _synthesize(
    count: int, seed: str, families: Sequence[Family], levels: Sequence[int], advance: Advance
) -> Synthesis:
    return await synthesize(count, seed, families=families, levels=levels, progress=lambda done, total: advance(done))


async def _certify(environments: Sequence[Environment], advance: Advance) -> list[Certificate]:
    certificates: list[Certificate] = []
    for environment in environments:
        certificates.append(await certify_one(environment))
        advance(len(certificates))
    return certificates


def _families(names: Sequence[str], levels: Sequence[int]) -> Sequence[Family]:
    known = {family.name: family for family in FAMILIES}
    for name in names:
        if name not in known:
            what = f"there is no family {name!r}"
            raise SpecError([Problem("unknown_family", "--family", what, suggest(name, known))])
    chosen = [known[name] for name in names] or FAMILIES
    highest = max(family.levels for family in chosen)
    for level in levels:
        if not 1 <= level <= highest:
            what = f"there is no level {level}"
            raise SpecError([Problem("unknown_level", "--level", what, f"Levels are 1 to {highest}.")])
    return chosen


def _lasting(result: Synthesis) -> dict[str, Any]:
    """The numbers that stay with a pack: those that the same seed gives again."""
    return {name: value for name, value in result.summary().items() if name != "seconds"}


def show_synthesis(console: Console, result: Synthesis) -> None:
    """Print what was proven about a pack."""
    _show_certificates(console, result.certificates)
    speed = len(result.accepted) / max(result.seconds, 1e-9)
    console.print(
        f"{len(result.accepted)} accepted, {len(result.rejected)} rejected, {result.repaired} repaired, "
        f"{result.duplicates} duplicates dropped; {speed:.1f} certified per second",
        soft_wrap=True,
    )
    for environment, defects in result.rejected[:5]:
        for defect in defects[:2]:
            console.print(
                f"[yellow]rejected {escape(environment.id)}[/]: {escape(str(defect))}", highlight=False, soft_wrap=True
            )


def _show_certificates(console: Console, certificates: Sequence[Certificate]) -> None:
    numbers = totals(certificates, 0)
    table = Table(title="What the certificates prove", title_justify="left")
    table.add_column("played over MCP")
    table.add_column("must", justify="right")
    table.add_column("did", justify="right")
    table.add_row("the oracle, mean score", "1", f"{numbers['oracle_mean']:g}")
    table.add_row("doing nothing, reading only, claiming: best mean score", "0", f"{numbers['noop_mean']:g}")
    for operator, (killed, total) in by_operator(certificates).items():
        table.add_row(f"wrong: {operator.replace('_', ' ')}", f"{total} fail", f"{killed} failed")
    kept, harmless = numbers["harmless_kept"], numbers["harmless_total"]
    table.add_row("harmless variants", f"{harmless} pass", f"{kept} passed")
    console.print(table)


@click.command(epilog="Example: coworkenv demo --out runs/demo")
@click.option(
    "--out",
    type=PATH,
    default=Path("runs/demo"),
    show_default=True,
    help="Where everything goes; a new name beside it if it is taken.",
)
@click.option("--seed", default="demo", show_default=True, help="The same seed gives the same demo.")
def demo(out: Path, seed: str) -> None:
    """See everything once: synthesize, certify, run, report.

    Twelve environments of three workflow families; the oracle, a no-op and a careless agent over real MCP; a
    table, a run directory and one HTML report. No network, key, GPU or container.
    """
    from harness import results, runs  # noqa: PLC0415
    from harness.agents import scripted  # noqa: PLC0415
    from harness.report import write_report  # noqa: PLC0415

    console = wide_console()
    home = _free(out)
    recipe = {"command": "demo", "seed": seed}
    pack.make_room(home / "pack", recipe)
    families = [family for family in FAMILIES if family.name != "ticket_routing"]
    console.rule("1. Synthesize and certify", align="left")
    with progress_bar("synthesize", DEMO_COUNT) as advance:
        result = anyio.run(_synthesize, DEMO_COUNT, seed, families, (), advance)
    pack.save(home / "pack", result.accepted, recipe | _lasting(result))
    show_synthesis(console, result)

    console.rule("2. Run three agents over MCP", align="left")
    agents = [scripted.oracle(), scripted.noop(), scripted.careless()]
    total = len(result.accepted) * len(agents) * DEMO_TRIALS
    with progress_bar("run", total) as advance:
        anyio.run(
            lambda: runs.run(
                result.accepted,
                agents,
                home / "run",
                trials=DEMO_TRIALS,
                on_progress=lambda done, _total, _last: advance(done),
            )
        )
    console.rule("3. What they scored", align="left")
    console.print(results.table(runs.load_summaries(home / "run")))
    write_report(home / "run", home / "report.html")

    console.rule("4. Look, and go on", align="left")
    chosen = next(e for e in result.accepted if e.events)
    call, made, run = program(), shlex.quote(str(home / "pack")), shlex.quote(str(home / "run"))
    click.echo(
        f"Report, every transcript next to what changed: {home / 'report.html'}\n\n"
        f"Connect an MCP client to a live workplace:\n  {call} serve {made} --id {chosen.id}\n"
        f"Run a model through the same environments (MODEL is any name that litellm takes):\n"
        f"  {install('models')}\n"
        f"  {call} run {made} --agent litellm:MODEL --out {run}\n"
        f"Train a small student:\n"
        f"  {install('train')}\n"
        f"  {call} train fetch-model && {call} train recipe"
    )


def _free(wanted: Path) -> Path:
    """The first name that is not taken: ``demo``, ``demo-2`` ..."""
    number, path = 1, wanted
    while path.exists():
        number += 1
        path = wanted.with_name(f"{wanted.name}-{number}")
    return path
