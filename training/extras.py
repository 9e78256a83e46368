"""Whether the packages of the train extra are installed, told before anything starts."""

from __future__ import annotations

from importlib.util import find_spec

from harness.invocation import install
from servers.errors import Problem, SpecError


def needs_extra(*modules: str) -> None:
    """Say what to install when the train extra is missing; imports nothing.

    Raises:
        SpecError: A module is not there.
    """
    missing = [name for name in modules if find_spec(name) is None]
    if missing:
        fix = f"Install them: {install('train')} (leave out -c for GPU builds)."
        raise SpecError([Problem("missing_extra", "", f"training needs {', '.join(missing)}", fix)])
