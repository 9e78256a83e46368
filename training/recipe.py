"""The recipe: a small student before and after supervised fine-tuning, on environments it has never seen.

Everything is made on the spot: environments of a family with a small tool surface, certified; the oracle's
demonstrations on one part of them; the student's score on the other part before training, every so many
steps, and after. Results are a table, a curve and a JSON file.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, cast

import anyio

from harness.environment import Environment
from harness.files import storage_boundary, write_atomic
from synth.author import synthesize
from synth.families import FAMILIES
from training.agent import Sampling
from training.chat import ChatML
from training.demonstrations import demonstrate
from training.errors import SettingsError
from training.evaluate import evaluate
from training.models import load_model
from training.output import Logs, check_free
from training.sft import SftSettings, train_sft


@dataclass(frozen=True, slots=True)
class RecipeSettings:
    """What to train on, and how long."""

    family: str = "ticket_routing"
    train: int = 320
    held_out: int = 32
    steps: int = 80
    batch: int = 4
    every: int = 20
    """Optimizer steps between two evaluations."""
    seed: str = "recipe"
    context: int = 768
    new_tokens: int = 64


@dataclass(frozen=True, slots=True)
class Point:
    """The student at one moment."""

    step: int
    """Optimizer steps that are done."""
    score: float
    """Mean total score on the held-out environments, 0 to 1."""
    passed: float
    """Share of them in which every check held."""
    acted: float
    """Share of them with a tool call that worked."""
    loss: float | None
    """Of the last step; None before the first."""
    minutes: float
    """Since the recipe began, loading and synthesis included."""


Report = Callable[[str], None]


def run_recipe(
    folder: Path,
    out: Path,
    settings: RecipeSettings,
    *,
    report: Report,
    on_step: Callable[[int], None] = lambda step: None,
) -> list[Point]:
    """Run the recipe from a model folder.

    Args:
        folder: The student before.
        out: Gets ``recipe.json``, ``recipe.png`` and, in ``model``, the student after.
        settings: What to train on, and how long.
        report: Told in a sentence what is going on.
        on_step: Told how many optimizer steps are done.

    Returns:
        The student before, during and after, at least two points.

    Raises:
        ModelFetchError: No model in the folder.
        SettingsError: ``out`` holds a model already, or the settings name an unknown family, or one too long.
        StorageError: ``out`` cannot be written.
    """
    began = time.perf_counter()
    with storage_boundary(out):
        out.mkdir(parents=True, exist_ok=True)
    check_free(out / "model")
    model, tokenizer = load_model(folder)
    chat = ChatML(tokenizer)
    report(f"writing and certifying {settings.train} environments to train on and {settings.held_out} held out")
    train = make(settings.family, settings.train, f"{settings.seed}/train")
    held_out = make(settings.family, settings.held_out, f"{settings.seed}/held-out")
    rows = anyio.run(lambda: demonstrate(train, chat, limit=settings.context))
    sampling = Sampling(new_tokens=settings.new_tokens, context=settings.context)
    points: list[Point] = []

    def measure(step: int, loss: float | None) -> None:
        found = evaluate(model, chat, held_out, sampling=sampling)
        minutes = (time.perf_counter() - began) / 60
        point = Point(step, found.score, found.passed, found.acted, loss, minutes)
        points.append(point)
        facts = {"settings": asdict(settings), "points": [asdict(one) for one in points]}
        write_atomic(out / "recipe.json", json.dumps(facts, indent=2) + "\n")
        report(
            f"step {step:3d}: held-out score {point.score:.2f}, passed {point.passed:.0%}, "
            f"acted {point.acted:.0%} ({minutes:.1f} min)"
        )

    def done(step: int, logs: Logs) -> None:
        on_step(step)
        if step % settings.every == 0 or step == settings.steps:
            measure(step, logs.get("loss"))

    measure(0, None)
    sft = SftSettings(steps=settings.steps, batch=settings.batch)
    train_sft(model, tokenizer, rows, out / "model", sft, on_step=done)
    draw(points, out / "recipe.png", settings)
    return points


def make(family: str, count: int, seed: str) -> list[Environment]:
    """Certified environments of one family.

    Raises:
        SettingsError: There is no such family, or it gave too few.
    """
    chosen = [one for one in FAMILIES if one.name == family]
    if not chosen:
        known = ", ".join(one.name for one in FAMILIES)
        raise SettingsError(f"there is no family {family!r}; there are {known}")
    found = anyio.run(lambda: synthesize(count, seed, families=chosen)).accepted
    if len(found) < count:
        raise SettingsError(
            f"{family} gave {len(found)} certified environments that differ; {count} are wanted. Ask for fewer"
        )
    return found


def draw(points: Sequence[Point], path: Path, settings: RecipeSettings) -> None:
    """Draw the curve as a PNG."""
    from matplotlib.figure import Figure  # noqa: PLC0415 - takes a second, and only this needs it

    figure = Figure(figsize=(7, 3.6), layout="constrained")
    axes = cast("Any", figure.subplots())  # pyright: ignore[reportUnknownMemberType] - matplotlib's **kwargs
    steps = [point.step for point in points]
    lines = (
        ("every check holds", "passed", "o", 2.2, "#2456d6"),
        ("mean score, of 100", "score", "D", 1.4, "#7aa0ee"),
        ("a tool call worked", "acted", "s", 1.4, "#9aa4b5"),
    )
    for label, name, marker, width, color in lines:
        values = [100 * getattr(point, name) for point in points]
        axes.plot(steps, values, marker=marker, markersize=5, linewidth=width, color=color, label=label)
    axes.set_xlabel(f"optimizer steps of supervised fine-tuning, batch {settings.batch}")
    axes.set_ylabel("% of held-out environments")
    axes.set_ylim(-3, 103)
    axes.set_xticks(steps)
    axes.set_title(f"{settings.family}: {settings.held_out} held-out environments", loc="left", fontsize=11)
    axes.grid(alpha=0.25)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, loc="lower right")
    with storage_boundary(path):
        cast("Any", figure).savefig(path, dpi=150)
