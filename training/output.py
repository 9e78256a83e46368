"""The folder of a trained model: it is there complete, or not at all.

A ``Workshop`` is a hidden folder beside the final one. The trainer keeps its scratch files in it, the model
is written in it, and the last thing that happens is one rename. Whatever goes wrong, Ctrl-C included, the
hidden folder is removed and nothing has the final name.

Not promised: cleaning up after a process that was killed outright; it leaves the hidden folder behind.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from harness.files import storage_boundary, write_atomic
from training.errors import SettingsError
from training.quiet import quiet_libraries

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

HISTORY = "history.json"
"""In a trained model's folder: what the trainer logged after each optimizer step, a JSON list."""

Logs = Mapping[str, Any]
"""What a trainer logs after one step; values are numbers or None."""


@dataclass(frozen=True, slots=True)
class Workshop:
    """Where a model is trained and written before it gets its name."""

    scratch: Path
    """For the trainer's own files."""
    out: Path

    def finish(self, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, history: Sequence[Logs]) -> None:
        """Write model, tokenizer and history, and give the folder its name.

        Raises:
            StorageError: The disk refuses.
        """
        folder = self.scratch / "model"
        with storage_boundary(self.out), quiet_libraries():
            folder.mkdir()
            cast("Any", model).save_pretrained(folder)
            cast("Any", tokenizer).save_pretrained(folder)
            # Weights are written readable by their owner alone; whoever may read the rest may read them.
            for weights in folder.glob("*.safetensors"):
                weights.chmod((folder / "config.json").stat().st_mode)
        write_atomic(folder / HISTORY, json.dumps(history, indent=1) + "\n")
        with storage_boundary(self.out):
            folder.rename(self.out)


@contextmanager
def workshop(out: Path, model: PreTrainedModel) -> Generator[Workshop]:
    """Open a workshop for a model that will live at ``out``; it is gone after the block.

    Raises:
        SettingsError: Something lives at ``out``, or the disk is too full for the model.
        StorageError: The place cannot be written.
    """
    check_free(out)
    needed = sum(weights.numel() * weights.element_size() for weights in model.parameters())
    free = shutil.disk_usage(out.parent).free
    if free < needed:
        raise SettingsError(
            f"the model takes {needed / 1e6:.0f} MB, and {free / 1e6:.0f} MB are free at {out.parent}. "
            "Free some, or choose another folder"
        )
    with storage_boundary(out):
        scratch = tempfile.TemporaryDirectory(dir=out.parent, prefix=f".{out.name}.")
    with scratch as folder:
        yield Workshop(Path(folder), out)


def check_free(out: Path) -> None:
    """Make sure that a new folder ``out`` can be written, before any work is put into what goes there.

    Raises:
        SettingsError: Something lives at ``out``.
        StorageError: The place cannot be written.
    """
    with storage_boundary(out):
        if out.is_file() or (out.is_dir() and any(out.iterdir())):
            raise SettingsError(f"{out} is there already. Choose another folder for the model, or remove it")
        out.parent.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryDirectory(dir=out.parent, prefix=f".{out.name}.").cleanup()
