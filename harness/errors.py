"""Whose fault it was: the failure policy of an episode.

A failed episode is data, not a crash. Every exception that can end one is raised or wrapped as an
``EpisodeFault`` with a status, and only the episode loop (``harness.episode``) catches them:

* ``failed``: the agent's fault. Scored, like ``done``.
* ``invalid``: the simulated user, the grader or the environment is at fault. Never scored.
* ``infra``: provider, network, killed process, disk. Never scored; the same command runs the episode again.

``blame`` is the one boundary that turns foreign exceptions into faults; nothing else in this package catches
``Exception``.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Literal

from servers.errors import CoworkEnvError

Status = Literal["done", "failed", "invalid", "infra"]
FaultStatus = Literal["failed", "invalid", "infra"]


class EpisodeFault(CoworkEnvError):
    """Ends an episode with a status that is not ``done``."""

    def __init__(self, status: FaultStatus, who: str, message: str) -> None:
        super().__init__(f"{who}: {message}")
        self.status: FaultStatus = status
        self.who = who
        """Which part is to blame: ``agent``, ``user``, ``environment``, ``grader``, ``provider`` ..."""
        self.message = message


@contextmanager
def blame(status: FaultStatus, who: str) -> Generator[None]:
    """Whatever breaks inside is the fault of ``who``.

    Faults that already carry blame pass unchanged, as do cancellation and keyboard interrupts.
    """
    try:
        yield
    except EpisodeFault:
        raise
    except Exception as error:
        raise EpisodeFault(status, who, f"{type(error).__name__}: {error}") from error
