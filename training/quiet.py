"""Silence of the libraries below, so that a command shows its own progress and nothing else.

transformers, datasets, accelerate and TRL report to the terminal as if it were theirs: progress bars for
loading and writing weights, hints, a warning that a hook in use is experimental. ``quiet_libraries`` holds
that back for a while. Their errors still come through, as exceptions and on their loggers.

Not promised: silence of other threads, or of what those libraries print without a logger.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Generator
from contextlib import contextmanager

_TALKERS = ("transformers", "datasets", "accelerate", "trl")
_KNOWN: tuple[tuple[str, type[Warning]], ...] = (
    # The version of TRL is pinned for the sake of this hook, and a test holds what it does.
    ("You are using 'rollout_func', which is an experimental feature", UserWarning),
    # TRL calls transformers by names that the latter gives up in version 6; nothing that a user could change.
    (r".*gradient_checkpointing.* is deprecated and will be removed in v6", FutureWarning),
)


@contextmanager
def quiet_libraries() -> Generator[None]:
    """Hold back the progress bars, hints and known warnings of the libraries while the block runs."""
    from transformers.utils import logging as bars  # noqa: PLC0415 - takes seconds to import

    shown = bars.is_progress_bar_enabled()
    levels = {name: logging.getLogger(name).level for name in _TALKERS}
    bars.disable_progress_bar()
    for name in _TALKERS:
        logging.getLogger(name).setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            for message, category in _KNOWN:
                warnings.filterwarnings("ignore", message=message, category=category)
            yield
    finally:
        for name, level in levels.items():
            logging.getLogger(name).setLevel(level)
        if shown:
            bars.enable_progress_bar()
