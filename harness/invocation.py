"""How this program was called, so that commands that are printed can be run as they stand.

``make demo`` calls ``.venv/bin/coworkenv``, which is on nobody's ``PATH``: a text that says ``coworkenv serve``
would send a newcomer to an error. Nothing here reads settings, and nothing is loaded for it.
"""

from __future__ import annotations

import shlex
import shutil
import sys
from pathlib import Path

NAME = "coworkenv"
CONSTRAINED = {"train"}
"""Extras for which the constraints choose builds of PyTorch without CUDA."""


def program() -> str:
    """The word that calls this program again from the same folder: its name, or the path to it."""
    path = _called()
    if path is None or str(path) == path.name:
        return NAME
    found = shutil.which(NAME)
    same = found is not None and Path(found).resolve() == path.resolve()
    return NAME if same else shlex.quote(str(path))


def install(extra: str) -> str:
    """The command that installs an extra, from the folder of the project, with the ``pip`` beside this program."""
    path = _called()
    beside = path.with_name("pip") if path is not None else Path("pip")
    pip = shlex.quote(str(beside)) if program() != NAME and beside.exists() else "pip"
    constraints = " -c constraints-cpu.txt" if extra in CONSTRAINED else ""
    return f"{pip} install{constraints} -e '.[{extra}]'"


def _called() -> Path | None:
    """The path of this program as it was called; None when something else runs, such as a test."""
    path = Path(sys.argv[0])
    return path if path.stem == NAME else None
