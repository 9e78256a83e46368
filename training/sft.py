"""Supervised fine-tuning with TRL's ``SFTTrainer`` on rows of exact token ids.

Rows come pre-tokenized (``training.demonstrations``): no template is applied again and nothing is packed or cut, so what is trained is
what the ledger holds.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from datasets import Dataset
from transformers import PreTrainedModel, PreTrainedTokenizerBase, TrainerCallback, TrainerControl, TrainerState, TrainingArguments
from trl import SFTConfig, SFTTrainer

from training.ledger import SftRow


@dataclass(frozen=True, slots=True)
class SftSettings:
    """How to train. The defaults fit the small default student on a CPU."""

    steps: int = 80
    batch: int = 4
    learning_rate: float = 5e-5
    seed: int = 0


OnStep = Callable[[int, dict[str, float]], None]
"""Told the number of optimizer steps that are done, and what the trainer logged."""


def train_sft(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    rows: Sequence[SftRow],
    out: Path,
    settings: SftSettings,
    *,
    on_step: OnStep = lambda step, logs: None,
) -> None:
    """Fine-tune all weights of ``model`` in place and save model and tokenizer in ``out``.

    Args:
        model: In float32.
        tokenizer: Saved beside the model.
        rows: In the order in which they are trained; begun again when they run out.
        out: Directory of the trained model.
        settings: How to train.
        on_step: Called after every optimizer step, for progress and evaluation.
    """
    arguments = SFTConfig(
        output_dir=str(out / "trainer"),
        max_steps=settings.steps,
        per_device_train_batch_size=settings.batch,
        learning_rate=settings.learning_rate,
        lr_scheduler_type="constant_with_warmup",
        warmup_steps=min(5, settings.steps // 4),
        seed=settings.seed,
        data_seed=settings.seed,
        max_length=None,
        packing=False,
        gradient_checkpointing=False,
        bf16=False,
        use_cpu=model.device.type == "cpu",
        logging_steps=1,
        save_strategy="no",
        report_to=[],
        disable_tqdm=True,
    )
    order = list(range(len(rows)))
    random.Random(settings.seed).shuffle(order)  # noqa: S311 - a reproducible order, not a secret
    data = Dataset.from_list([{"input_ids": rows[i].input_ids, "labels": rows[i].labels} for i in order])
    trainer = SFTTrainer(
        model=cast("Any", model),
        args=arguments,
        train_dataset=data,
        processing_class=tokenizer,
        callbacks=[StepCallback(on_step)],
    )
    trainer.remove_callback(_printer())
    trainer.train()
    save(model, tokenizer, out)


def save(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, out: Path) -> None:
    """Write model and tokenizer into a folder that ``training.models.load_model`` opens."""
    cast("Any", model).save_pretrained(out)
    cast("Any", tokenizer).save_pretrained(out)


class StepCallback(TrainerCallback):
    """Tells a function about each step."""

    def __init__(self, on_step: OnStep) -> None:
        self._on_step = on_step

    def on_log(
        self,
        args: TrainingArguments,  # noqa: ARG002 - transformers' signature
        state: TrainerState,
        control: TrainerControl,  # noqa: ARG002
        logs: dict[str, float] | None = None,
        **kwargs: object,  # noqa: ARG002
    ) -> None:
        """Pass on what was logged; the summary at the very end is no step."""
        if logs and "train_runtime" not in logs:
            self._on_step(state.global_step, logs)


def _printer() -> type[TrainerCallback]:
    """The callback that prints logs when there is no progress bar."""
    from transformers.trainer_callback import PrinterCallback  # noqa: PLC0415

    return PrinterCallback
