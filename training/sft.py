"""Supervised fine-tuning with TRL's ``SFTTrainer`` on rows of exact token ids.

Rows come pre-tokenized (``training.demonstrations``): no template is applied again and nothing is packed or
cut, so what is trained is what the ledger holds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, cast

import torch
from torch import nn
from torch.nn import functional
from transformers import PreTrainedModel, PreTrainedTokenizerBase
from trl.trainer.sft_config import SFTConfig
from trl.trainer.sft_trainer import SFTTrainer

from training.errors import SettingsError
from training.ledger import IGNORED, SftRow
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


class LedgerTrainer(SFTTrainer):
    """Computes logits only where the student speaks.

    Most of an episode is what others said. TRL skips those positions where Triton is installed and computes
    them all elsewhere, which on a CPU is about a third of a step. Loss and gradients are the same; TRL's
    entropy and accuracy are not logged.
    """

    def compute_loss(
        self,
        model: nn.Module,
        inputs: dict[str, torch.Tensor],
        return_outputs: bool = False,
        num_items_in_batch: torch.Tensor | int | None = None,
    ) -> torch.Tensor | tuple[torch.Tensor, Any]:
        """Return the summed cross entropy of the labelled ids over their number in the whole step."""
        ids = inputs["input_ids"]
        if ids.device.type != "cpu" or return_outputs:
            return cast("Any", super()).compute_loss(model, inputs, return_outputs, num_items_in_batch)
        labels = inputs["labels"][:, 1:]  # what the model should say after each id but the last
        places = (labels != IGNORED).any(dim=0).nonzero()[:, 0]
        logits = model(
            input_ids=ids, attention_mask=inputs["attention_mask"], use_cache=False, logits_to_keep=places
        ).logits
        wanted = labels[:, places]
        total = functional.cross_entropy(logits.flatten(0, 1), wanted.flatten(), ignore_index=IGNORED, reduction="sum")
        return total / (num_items_in_batch or (wanted != IGNORED).sum())


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
    on_cpu = model.device.type == "cpu"
    with workshop(out, model) as shop, quiet_libraries():
        config = SFTConfig(
            **arguments(
                shop.scratch,
                model,
                steps=settings.steps,
                learning_rate=settings.learning_rate,
                seed=settings.seed,
            ),
            # Rows one by one need no padding and little memory, and a CPU gains nothing from more at once.
            per_device_train_batch_size=1 if on_cpu else settings.batch,
            gradient_accumulation_steps=settings.batch if on_cpu else 1,
            lr_scheduler_type="constant_with_warmup",
            warmup_steps=min(WARMUP, settings.steps // 4),
            max_length=None,
            packing=False,
        )
        trainer = LedgerTrainer(
            model=cast("Any", model),
            args=config,
            train_dataset=dataset([{"input_ids": row.input_ids, "labels": row.labels} for row in rows]),
            processing_class=tokenizer,
            callbacks=[StepCallback(on_step)],
        )
        history = optimize(trainer)
        shop.finish(model, tokenizer, history)
    return history
