"""The command line as tests use it: in this process where that is enough, in one of its own where it is not."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from harness.cli import main

ROOT = Path(__file__).parents[1]
START = "from harness.cli import main; main()"


@dataclass(frozen=True, slots=True)
class Ended:
    """How a command ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """What it printed, as JSON."""
        return json.loads(self.out)

    @property
    def words(self) -> str:
        """What it said on standard error, on one line."""
        return " ".join(self.err.split())


Cowork = Callable[..., Ended]
"""Runs ``coworkenv`` with these arguments."""


def runner(patch: pytest.MonkeyPatch, capture: pytest.CaptureFixture[str]) -> Cowork:
    """Something that runs the real entry point, exit code included, in this process."""

    def run(*arguments: object) -> Ended:
        patch.setattr(sys, "argv", ["coworkenv", *map(str, arguments)])
        capture.readouterr()
        with pytest.raises(SystemExit) as ended:
            main()
        said = capture.readouterr()
        code = ended.value.code
        assert isinstance(code, int)
        return Ended(code, said.out, said.err)

    return run


def command(*arguments: object, before: str = "") -> list[str]:
    """The words that start ``coworkenv`` in a process of its own; ``before`` is Python that runs first."""
    return [sys.executable, "-c", before + START, *map(str, arguments)]


def environment() -> dict[str, str]:
    """The environment variables of such a process."""
    return {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"}


def process(*arguments: object, before: str = "") -> Ended:
    """Run ``coworkenv`` in a process of its own and wait for its end."""
    done = subprocess.run(  # noqa: S603 - our own words
        command(*arguments, before=before),
        env=environment(),
        capture_output=True,
        encoding="utf-8",
        check=False,
        timeout=100,
    )
    return Ended(done.returncode, done.stdout, done.stderr)


@contextmanager
def started(*arguments: object) -> Iterator[subprocess.Popen[str]]:
    """``coworkenv`` running in a process of its own; it is killed if it is still there at the end."""
    with subprocess.Popen(  # noqa: S603 - our own words
        command(*arguments), env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8"
    ) as running:
        try:
            yield running
        finally:
            running.kill()
