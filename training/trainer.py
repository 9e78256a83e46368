"""What supervised and reinforcement training share of TRL: arguments, data, and word of every step.

TRL and datasets are only partly typed; their untyped corners are crossed here and in the two trainers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, cast

from datasets import Dataset  # pyright: ignore[reportMissingTypeStubs] - it ships none
from transformers import (
    PreTrainedModel,
    PrinterCallback,
    Trainer,
    TrainerCallback,
    TrainerControl,
    TrainerState,
    TrainingArguments,
)

from training.output import Logs

OnStep = Callable[[int, Logs], None]
"""Told the number of optimizer steps that are done, and what the trainer logged."""


def silent(step: int, logs: Logs) -> None:
    """Tell nobody."""


class StepCallback(TrainerCallback):
    """Tells a function about each step."""

    def __init__(self, on_step: OnStep) -> None:
        self._on_step = on_step

    def on_log(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        logs: Logs | None = None,
        **kwargs: object,
    ) -> None:
        """Pass on what was logged; the summary at the very end is no step."""
        if logs and "train_runtime" not in logs:
            self._on_step(state.global_step, logs)


def arguments(scratch: Path, model: PreTrainedModel, *, steps: int, learning_rate: float, seed: int) -> dict[str, Any]:
    """The training arguments that do not depend on the method."""
    on_cpu = model.device.type == "cpu"
    return {
        "output_dir": str(scratch / "trainer"),
        "max_steps": steps,
        "learning_rate": learning_rate,
        "seed": seed,
        "data_seed": seed,
        "use_cpu": on_cpu,
        "dataloader_pin_memory": not on_cpu,
        "activation_checkpointing": False,
        "bf16": False,
        "logging_steps": 1,
        "save_strategy": "no",
        "report_to": [],
        "disable_tqdm": True,
    }


def dataset(rows: Sequence[dict[str, Any]]) -> Any:  # noqa: ANN401 - datasets is untyped
    """Rows as TRL takes them."""
    return cast("Any", Dataset).from_list(list(rows))


def optimize(trainer: Trainer) -> list[Logs]:
    """Run a trainer to its end and give what it logged, one entry a step."""
    trainer.remove_callback(PrinterCallback)  # it prints logs wherever there is no progress bar
    cast("Any", trainer).train()
    return [entry for entry in trainer.state.log_history if "train_runtime" not in entry]
