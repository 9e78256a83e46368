"""Supervised fine-tuning with TRL's ``SFTTrainer`` on rows of exact token ids.

Rows come pre-tokenized (``training.demonstrations``): no template is applied again and nothing is packed or
cut, so what is trained is what the ledger holds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, cast

from transformers import PreTrainedModel, PreTrainedTokenizerBase
from trl.trainer.sft_config import SFTConfig
from trl.trainer.sft_trainer import SFTTrainer

from training.errors import SettingsError
from training.ledger import SftRow
from training.models import context_of
from training.output import Logs, workshop
from training.quiet import quiet_libraries
from training.trainer import OnStep, StepCallback, arguments, dataset, optimize, silent

WARMUP = 5
"""Steps over which the learning rate rises; a quarter of a shorter training."""


@dataclass(frozen=True, slots=True)
class SftSettings:
    """How to train. The defaults fit the small default student on a CPU.

    Raises:
        SettingsError: A number is out of range.
    """

    steps: int = 80
    batch: int = 4
    """Demonstrations in a step."""
    learning_rate: float = 5e-5
    seed: int = 0
    """Of the order in which demonstrations come."""

    def __post_init__(self) -> None:
        if self.steps < 1 or self.batch < 1 or self.learning_rate <= 0:
            raise SettingsError(f"steps, batch and learning rate have to be positive; got {asdict(self)}")


def train_sft(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    rows: Sequence[SftRow],
    out: Path,
    settings: SftSettings,
    *,
    on_step: OnStep = silent,
) -> list[Logs]:
    """Fine-tune all weights of ``model`` in place and save it in ``out``, which is written last and at once.

    Args:
        model: In float32.
        tokenizer: Saved beside the model.
        rows: In any order; they come shuffled by ``settings.seed``, and again when they run out.
        out: Folder of the trained model; must not exist, or be empty.
        settings: How to train.
        on_step: Called after every optimizer step, for progress and evaluation.

    Returns:
        What was logged after each step.

    Raises:
        SettingsError: Something lives at ``out``, a row is longer than the model's context, or there is none.
        StorageError: ``out`` cannot be written.
    """
    longest = max((len(row.input_ids) for row in rows), default=0)
    context = context_of(model)
    if not 0 < longest <= context:
        raise SettingsError(
            f"the longest of {len(rows)} demonstrations has {longest} tokens; expected 1 to {context}, "
            "the model's context"
        )
    with workshop(out, model) as shop, quiet_libraries():
        config = SFTConfig(
            **arguments(
                shop.scratch,
                model,
                steps=settings.steps,
                learning_rate=settings.learning_rate,
                seed=settings.seed,
            ),
            per_device_train_batch_size=settings.batch,
            lr_scheduler_type="constant_with_warmup",
            warmup_steps=min(WARMUP, settings.steps // 4),
            max_length=None,
            packing=False,
        )
        trainer = SFTTrainer(
            model=cast("Any", model),
            args=config,
            train_dataset=dataset([{"input_ids": row.input_ids, "labels": row.labels} for row in rows]),
            processing_class=tokenizer,
            callbacks=[StepCallback(on_step)],
        )
        history = optimize(trainer)
        shop.finish(model, tokenizer, history)
    return history
