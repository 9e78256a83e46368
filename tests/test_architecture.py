"""The rules of the house that a type checker does not hold."""

from __future__ import annotations

import ast
import importlib
import json
import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from fnmatch import fnmatch
from functools import cache
from pathlib import Path

import click
from click.testing import CliRunner

from harness import cli, pack
from synth.families.ticket_routing import TICKET_ROUTING
from tests.command_line import ROOT, command, environment

PACKAGES = ("servers", "harness", "synth", "training")
"""From the ground up: each may import those before it."""
JOINS_ALL = "harness/cli.py"
IMPORTS_BY_NAME = {JOINS_ALL, "harness/agents/catalogue.py"}
READS_VARIABLES = {
    "harness/agents/model.py": "tells litellm, before it is imported, not to fetch prices from the network",
    "harness/agents/redaction.py": "finds the secrets around in order to hide them",
}
"""All that touches environment variables, and why. Settings are options and arguments."""
HEAVY = ("torch", "transformers", "trl", "datasets", "accelerate", "litellm", "openai", "vllm", "matplotlib")
SLOW_FOR_HELP = ("pydantic", "mcp", "mcp_types", "sqlalchemy", "anyio", "rich", "yaml", "starlette", *HEAVY)
LONGEST_FILE = 500


@cache
def modules() -> dict[str, ast.Module]:
    """Every module of the four packages by its path from the root, parsed."""
    return {
        path.relative_to(ROOT).as_posix(): ast.parse(path.read_text(encoding="utf-8"))
        for package in PACKAGES
        for path in sorted((ROOT / package).rglob("*.py"))
    }


def imported(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Line and name of every module that is imported, wherever in the file."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            yield node.lineno, node.module or ""


def name_of(node: ast.AST) -> str:
    """A name with its dots: ``time.time``; empty for anything else."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        return f"{name_of(node.value)}.{node.attr}"
    return ""


def places(found: Iterator[tuple[str, int, str]]) -> list[str]:
    return [f"{path}:{line} {what}" for path, line, what in found]


def calls(*packages: str) -> Iterator[tuple[str, ast.Call]]:
    """Every call in these packages, with the path of its module."""
    for path, tree in modules().items():
        if path.split("/")[0] in packages:
            yield from ((path, node) for node in ast.walk(tree) if isinstance(node, ast.Call))


def test_imports_point_one_way_only() -> None:
    def upward() -> Iterator[tuple[str, int, str]]:
        for path, tree in modules().items():
            if path == JOINS_ALL:
                continue
            below = PACKAGES[: PACKAGES.index(path.split("/")[0]) + 1]
            for line, name in imported(tree):
                package = name.split(".")[0]
                if package in (*PACKAGES, "tests") and package not in below:
                    yield path, line, f"imports {name}"

    assert len(modules()) > 60
    assert not places(upward())


def test_our_modules_are_imported_by_name_in_two_places_only() -> None:
    tricks = {"import_module", "__import__", "reload", "exec", "eval", "spec_from_file_location"}

    def is_foreign(node: ast.Call) -> bool:
        first = node.args[0] if node.args else None
        named = first.value if isinstance(first, ast.Constant) else None
        return isinstance(named, str) and named.split(".")[0] not in PACKAGES

    def used() -> Iterator[tuple[str, int, str]]:
        for path, node in calls(*PACKAGES):
            name = name_of(node.func)
            plain = isinstance(node.func, ast.Name) or name.startswith("importlib.")
            if plain and name.split(".")[-1] in tricks and path not in IMPORTS_BY_NAME and not is_foreign(node):
                yield path, node.lineno, name

    assert not places(used())


def test_environment_variables_are_no_channel_between_parts() -> None:
    reads = [
        f"{path}:{node.lineno}"
        for path, tree in modules().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute | ast.Name)
        and name_of(node).split(".")[-1] in {"environ", "environb", "getenv", "putenv"}
        and path not in READS_VARIABLES
    ]
    assert not reads


def test_nothing_depends_on_the_wall_clock_global_randomness_or_string_hashes() -> None:
    unsteady = re.compile(
        r"(time\.time(_ns)?|(datetime\.)?(datetime|date)\.(now|utcnow|today)|random\.(?!Random$)\w+|hash|uuid\.uuid[14])"
    )
    found = [
        f"{path}:{node.lineno} {name_of(node.func)}"
        for path, node in calls("servers", "harness", "synth")
        if unsteady.fullmatch(name_of(node.func))
    ]
    assert not found


def test_nothing_prints_past_the_console() -> None:
    assert not [f"{path}:{node.lineno}" for path, node in calls(*PACKAGES) if name_of(node.func) == "print"]


def test_text_files_are_opened_with_an_encoding() -> None:
    def is_text(node: ast.Call) -> bool:
        name = name_of(node.func).split(".")[-1] if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
        if name in {"read_text", "write_text"}:
            return True
        if name not in {"open", "fdopen", "NamedTemporaryFile", "TemporaryFile"}:
            return False
        texts = [argument.value for argument in node.args if isinstance(argument, ast.Constant)]
        modes = [text for text in texts if isinstance(text, str) and re.fullmatch(r"[rwaxbt+]+", text)]
        return bool(modes and "b" not in modes[0]) or not (node.args or node.keywords)

    careless = [
        f"{path}:{node.lineno}"
        for path, node in calls(*PACKAGES)
        if is_text(node) and not any(keyword.arg == "encoding" for keyword in node.keywords)
    ]
    assert not careless


def test_files_are_short_enough_to_be_read_in_one_sitting() -> None:
    lengths = {path: len((ROOT / path).read_text(encoding="utf-8").splitlines()) for path in modules()}
    assert not {path: length for path, length in lengths.items() if length > LONGEST_FILE}


def test_no_rule_is_switched_off_as_a_whole() -> None:
    blanket = re.compile(
        r"#\s*(noqa(?!: ?[A-Z]+\d)|type:\s*ignore(?!\[)|pyright:\s*ignore(?!\[)|pyright:\s*basic|ruff:\s*noqa)"
    )
    found = [
        f"{path}:{number}"
        for path in modules()
        for number, line in enumerate((ROOT / path).read_text(encoding="utf-8").splitlines(), start=1)
        if blanket.search(line)
    ]
    assert not found


def test_packages_ship_their_types_and_their_data() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["setuptools"]
    for package in PACKAGES:
        assert (ROOT / package / "py.typed").is_file(), package
        patterns = settings["package-data"][package]
        files = [path for path in (ROOT / package).rglob("*") if path.is_file() and path.suffix not in (".py", ".pyc")]
        left_behind = [
            str(path)
            for path in files
            if not any(fnmatch(path.relative_to(ROOT / package).as_posix(), p) for p in patterns)
        ]
        assert not left_behind
    for path in modules():
        assert (ROOT / path).with_name("__init__.py").is_file(), f"the folder of {path} would not be installed"


def loaded_by(code: str, *arguments: object) -> set[str]:
    """The top-level modules that a process has loaded after running ``code``."""
    report = "import sys, json; print(json.dumps(sorted({n.split('.')[0] for n in sys.modules})), file=sys.stderr)"
    script = f"try:\n    {code}\nexcept SystemExit:\n    pass\n{report}"
    done = subprocess.run(  # noqa: S603 - our own words
        [sys.executable, "-c", script, *map(str, arguments)],
        env=environment(), capture_output=True, encoding="utf-8", check=True, timeout=60,
    )  # fmt: skip
    return set(json.loads(done.stderr.splitlines()[-1]))


def test_help_answers_without_loading_the_packages() -> None:
    loaded = loaded_by(command()[2], "--help")
    assert "click" in loaded
    assert not loaded & {*SLOW_FOR_HELP, "servers", "synth", "training"}


def test_a_run_of_the_oracle_needs_no_machine_learning(tmp_path: Path) -> None:
    environments = [TICKET_ROUTING.make("architecture", 1)]
    pack.save(tmp_path / "pack", environments, {})
    loaded = loaded_by(command()[2], "run", tmp_path / "pack", "--agent", "oracle", "--out", tmp_path / "run")
    assert (tmp_path / "run" / "manifest.json").exists()
    assert not loaded & {*HEAVY, "training", "synth"}


def test_no_module_below_training_imports_machine_learning() -> None:
    light = [
        path.removesuffix("/__init__.py").removesuffix(".py").replace("/", ".")
        for path in modules()
        if path.split("/")[0] in ("servers", "harness", "synth")
    ]
    loaded = loaded_by("import " + ", ".join(light))
    assert not loaded & {*HEAVY, "training"}


def commands(group: click.Group, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Every command below ``group`` that is no group itself, with the words that call it."""
    context = click.Context(group)
    for name in group.list_commands(context):
        found = group.get_command(context, name)
        assert found is not None
        if isinstance(found, click.Group):
            yield from commands(found, (*path, name))
        else:
            yield (*path, name), found


@cache
def all_commands() -> dict[str, click.Command]:
    return {" ".join(path): found for path, found in commands(cli.root)}


def test_every_command_explains_itself_with_an_example() -> None:
    assert {"demo", "synth", "certify", "serve", "run", "grade", "report", "env check"} <= all_commands().keys()
    for path in all_commands():
        answer = CliRunner().invoke(cli.root, [*path.split(), "--help"])
        assert answer.exit_code == 0, path
        assert f"Example: coworkenv {path}" in " ".join(answer.output.split()), path


def test_the_examples_in_the_help_are_commands_that_exist() -> None:
    for path, found in all_commands().items():
        example = (found.epilog or "").partition("Example: coworkenv ")[2].partition(">")[0].partition("&&")[0]
        words = shlex.split(example)[len(path.split()) :]
        found.make_context(path, words)  # raises for options and arguments that are not there


def test_every_option_says_what_it_is_for() -> None:
    silent = [
        f"{path} {option.opts[0]}"
        for path, found in all_commands().items()
        for option in found.params
        if isinstance(option, click.Option) and not option.help
    ]
    assert not silent


def test_what_the_help_lists_is_what_the_packages_bring() -> None:
    for name, (place, summary) in cli.COMMANDS.items():
        module, attribute = place.split(":")
        found = getattr(importlib.import_module(module), attribute)
        assert isinstance(found, click.Command), name
        assert summary.endswith("."), name
