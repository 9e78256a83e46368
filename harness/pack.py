"""Packs: environments on disk.

An environment is one YAML (or JSON) file by hand; a pack is a directory with ``environments.jsonl``, one
environment a line, and ``pack.json``, which says how it was made and what was proven. ``load`` reads any of
the three.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, cast

import yaml
from pydantic_core import from_json, to_json

from harness.environment import Environment
from harness.files import storage_boundary, write_atomic
from harness.yaml_files import read_yaml
from servers.errors import Problem, SpecError

ENVIRONMENTS = "environments.jsonl"
PACK = "pack.json"


def load(path: Path) -> list[Environment]:
    """Read environments from a YAML or JSON file, a file of JSON lines, or a pack directory.

    Raises:
        SpecError: Nothing is there, the text is no YAML or JSON, or an environment does not fit; with file,
        line and path.
    """
    environments = list(_read(path))
    if not environments:
        raise SpecError([Problem("empty", "", "no environments in it")], str(path))
    seen: set[str] = set()
    for environment in environments:
        if environment.id in seen:
            twice = Problem("duplicate_id", "id", f"environment {environment.id!r} is there twice")
            raise SpecError([twice], str(path))
        seen.add(environment.id)
    return environments


def save(directory: Path, environments: Sequence[Environment], facts: dict[str, Any]) -> None:
    """Write a pack: all of it or nothing of each file.

    Raises:
        StorageError: The directory cannot be written.
    """
    with storage_boundary(directory):
        directory.mkdir(parents=True, exist_ok=True)
    lines = b"".join(to_json(environment.dump()) + b"\n" for environment in environments)
    write_atomic(directory / ENVIRONMENTS, lines)
    write_atomic(directory / PACK, json.dumps(facts, indent=2, sort_keys=True).encode() + b"\n")


def make_room(directory: Path, recipe: dict[str, Any], *, replace: bool = False) -> None:
    """Make the directory of a pack before the work, so that a wrong name costs nothing.

    Args:
        directory: Where the pack will be.
        recipe: What makes the pack what it is: the command, seed and options. ``save`` gets it among the facts.
        replace: Whether a pack that was made otherwise may be written over.

    Raises:
        SpecError: A pack that was made otherwise is there.
        StorageError: The directory cannot be made.
    """
    with storage_boundary(directory):
        directory.mkdir(parents=True, exist_ok=True)
        taken = (directory / ENVIRONMENTS).exists() or (directory / PACK).exists()
    if taken and not replace:
        facts = _facts(directory / PACK)
        if any(facts.get(name) != value for name, value in recipe.items()):
            made = ", ".join(f"{name} {facts[name]}" for name in recipe if name in facts) or "not known how"
            fix = "Name another directory with --out, or write over it with --replace."
            problem = Problem("pack_exists", "--out", f"another pack is there already ({made})", fix)
            raise SpecError([problem], str(directory))


def to_yaml(environment: Environment) -> str:
    """An environment as people read and edit it."""
    return yaml.dump(environment.dump(), Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=110)


class _Dumper(yaml.SafeDumper):
    """Puts texts with rare line ends between double quotes; they would not be read back as they were."""

    def represent_scalar(self, tag: str, value: Any, style: str | None = None) -> yaml.ScalarNode:  # noqa: ANN401 - PyYAML's
        if any(end in value for end in "\x85\u2028\u2029"):
            style = '"'
        return super().represent_scalar(tag, value, style=style)  # pyright: ignore[reportUnknownMemberType]


def _read(path: Path) -> Iterator[Environment]:
    if path.is_dir():
        path /= ENVIRONMENTS
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        fix = "Name a YAML file, a .jsonl file or a pack directory; `coworkenv synth` makes one."
        raise SpecError([Problem("not_found", "", "there is no such file", fix)], str(path)) from None
    except (OSError, UnicodeDecodeError) as error:
        raise SpecError([Problem("unreadable", "", f"cannot be read ({error})")], str(path)) from None
    if path.suffix == ".jsonl":
        # Not splitlines: a text inside may hold U+2028 and its like, which JSON does not escape.
        for number, line in enumerate(text.split("\n"), start=1):
            if line.strip():
                source = f"{path}:{number}"
                yield Environment.parse(_json(line, source), source)
    elif path.suffix == ".json":
        yield Environment.parse(_json(text, str(path)), str(path))
    else:
        yield Environment.parse(read_yaml(text, str(path)), str(path))


def _facts(path: Path) -> dict[str, Any]:
    """What stands in a ``pack.json``; nothing when there is none that can be read."""
    try:
        facts: object = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return cast("dict[str, Any]", facts) if isinstance(facts, dict) else {}


def _json(text: str, source: str) -> object:
    try:
        return from_json(text)
    except ValueError as error:
        raise SpecError([Problem("no_json", "", f"this is no JSON ({error})")], source) from None
