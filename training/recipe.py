"""The recipe: a small student before and after supervised fine-tuning, on environments it has never seen.

Everything is made on the spot: environments of a family with a small tool surface, certified; the oracle's demonstrations on one part of them; the student's
score on the other part before training, every so many steps, and after. Results are a table, a curve and a JSON file.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import anyio

from harness.environment import Environment
from harness.files import write_atomic
from synth.author import synthesize
from synth.families import FAMILIES
from training.agent import Sampling
from training.chat import ChatML
from training.demonstrations import demonstrate
from training.evaluate import evaluate
from training.models import load_model
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
    score: float
    passed: float
    acted: float
    loss: float | None
    minutes: float


Report = Callable[[str], None]


def run_recipe(folder: Path, out: Path, settings: RecipeSettings, *, report: Report) -> list[Point]:
    """Run the recipe from a model folder; write ``recipe.json``, ``recipe.png`` and the trained model into ``out``.

    Raises:
        CoworkEnvError: No model in the folder, a place that cannot be written, or no environment was accepted.
    """
    began = time.perf_counter()
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
        points.append(Point(step, found.score, found.passed, found.acted, loss, minutes))
        write_atomic(out / "recipe.json", json.dumps({"settings": asdict(settings), "points": [asdict(p) for p in points]}, indent=2))
        report(f"step {step:3d}: held-out score {found.score:.2f}, passed {found.passed:.0%}, acted {found.acted:.0%} ({minutes:.1f} min)")

    def on_step(step: int, logs: dict[str, float]) -> None:
        if step % settings.every == 0:
            measure(step, logs.get("loss"))

    out.mkdir(parents=True, exist_ok=True)
    measure(0, None)
    train_sft(model, tokenizer, rows, out / "model", SftSettings(steps=settings.steps, batch=settings.batch), on_step=on_step)
    draw(points, out / "recipe.png", f"{settings.family}: {settings.held_out} held-out environments")
    return points


def make(family: str, count: int, seed: str) -> list[Environment]:
    """Certified environments of one family."""
    chosen = [one for one in FAMILIES if one.name == family]
    return anyio.run(lambda: synthesize(count, seed, families=chosen)).accepted


def draw(points: Sequence[Point], path: Path, title: str) -> None:
    """Draw the curve."""
    import matplotlib as mpl  # noqa: PLC0415 - takes a second, and only this needs it

    mpl.use("Agg")
    from matplotlib import pyplot as plt  # noqa: PLC0415

    figure, axes = plt.subplots(figsize=(7, 3.6), layout="constrained")
    steps = [point.step for point in points]
    axes.plot(steps, [100 * point.passed for point in points], marker="o", linewidth=2.2, color="#2456d6", label="passed: every check holds")
    axes.plot(steps, [100 * point.acted for point in points], marker="s", linewidth=1.4, color="#9aa4b5", label="made a tool call that worked")
    axes.set_xlabel("optimizer steps of supervised fine-tuning (batch 4)")
    axes.set_ylabel("% of held-out environments")
    axes.set_ylim(-3, 103)
    axes.set_title(title, loc="left", fontsize=11)
    axes.grid(alpha=0.25)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, loc="lower right")
    figure.savefig(path, dpi=150)
    plt.close(figure)
