"""The container recipes fit the repository and the command line, as far as that shows without a container engine."""

from __future__ import annotations

import json
import re
from fnmatch import fnmatch
from typing import Any

import click
import pytest
import yaml

from harness.commands import serve
from tests.command_line import ROOT

DOCKERFILE = ROOT / "compose" / "Dockerfile"
COMPOSE = ROOT / "compose" / "compose.yaml"
WORDS = {"ARG", "CMD", "COPY", "ENTRYPOINT", "ENV", "EXPOSE", "FROM", "HEALTHCHECK", "LABEL", "RUN", "USER", "VOLUME"}


def instructions() -> list[tuple[str, str]]:
    """The Dockerfile's instructions with their arguments, comments dropped and continued lines joined."""
    text = re.sub(r"^\s*#.*\n", "", DOCKERFILE.read_text(encoding="utf-8"), flags=re.MULTILINE)
    lines = text.replace("\\\n", " ").splitlines()
    found = [line.strip().partition(" ") for line in lines if line.strip()]
    return [(word, rest.strip()) for word, _, rest in found]


def arguments(word: str) -> list[str]:
    return [rest for name, rest in instructions() if name == word]


@pytest.fixture(scope="module")
def gateway() -> dict[str, Any]:
    """The gateway as the compose file describes it."""
    return yaml.safe_load(COMPOSE.read_text(encoding="utf-8"))["services"]["gateway"]


def served(words: list[str]) -> dict[str, Any]:
    """What ``coworkenv`` makes of these words; raises for what it does not know."""
    assert words[0] == "serve"
    return serve.make_context("serve", list(words[1:])).params


def test_the_dockerfile_has_known_instructions_and_begins_with_an_image() -> None:
    assert {word for word, _ in instructions()} <= {*WORDS, "WORKDIR"}
    assert instructions()[0][0] in {"ARG", "FROM"}
    for image in arguments("FROM"):
        assert re.fullmatch(r"[a-z0-9./-]+:[\w.-]+( AS [a-z]+)?", image), f"{image} needs a tag"


def test_what_is_copied_into_the_image_exists_and_is_not_ignored() -> None:
    ignored = (ROOT / ".dockerignore").read_text(encoding="utf-8").split()
    stages = {image.split(" AS ")[1] for image in arguments("FROM") if " AS " in image}
    for words in arguments("COPY"):
        *sources, _ = [word for word in words.split() if not word.startswith("--")]
        stage = re.search(r"--from=(\S+)", words)
        if stage:
            assert stage[1] in stages
            continue
        for source in sources:
            assert (ROOT / source).exists(), source
            assert not any(fnmatch(source, pattern.rstrip("/")) for pattern in ignored), source


def test_what_the_build_installs_is_all_copied_before() -> None:
    copied = {word.rstrip("/") for words in arguments("COPY") if "--from" not in words for word in words.split()[:-1]}
    assert {"pyproject.toml", "README.md", "LICENSE", "servers", "harness", "synth", "training"} <= copied


def test_the_image_does_not_run_as_root_and_is_started_without_a_shell() -> None:
    words = [word for word, _ in instructions()]
    assert arguments("USER")[-1] not in {"root", "0"}
    last_stage = len(words) - words[::-1].index("FROM")
    assert "USER" in words[last_stage : words.index("ENTRYPOINT")]
    assert json.loads(arguments("ENTRYPOINT")[-1]) == ["coworkenv"]
    assert all(isinstance(word, str) for word in json.loads(arguments("CMD")[-1]))


def test_the_commands_of_image_and_compose_are_understood(gateway: dict[str, Any]) -> None:
    image = served(json.loads(arguments("CMD")[-1]))
    composed = served([re.sub(r"\$\{.*\}", "a-token-of-sixteen", word) for word in gateway["command"]])
    for params in (image, composed):
        assert params["host"] == "0.0.0.0"  # noqa: S104 - inside a container
        assert str(params["port"]) == arguments("EXPOSE")[-1]
        assert str(params["data"]) == json.loads(arguments("VOLUME")[-1])[0]
    with pytest.raises(click.BadParameter):
        served([re.sub(r"\$\{.*\}", "short", word) for word in gateway["command"]])


def test_the_health_checks_are_programs_that_ask_the_served_port(gateway: dict[str, Any]) -> None:
    in_image = arguments("HEALTHCHECK")[-1].partition(" CMD ")[2]
    port = arguments("EXPOSE")[-1]
    for word, program in (
        ("CMD", json.loads(in_image)),
        (gateway["healthcheck"]["test"][0], gateway["healthcheck"]["test"][1:]),
    ):
        assert word == "CMD"
        assert program[:2] == ["python", "-c"]
        compile(program[2], "healthcheck", "exec")
        assert f":{port}/healthz" in program[2]


def test_the_compose_file_has_values_of_the_right_types(gateway: dict[str, Any]) -> None:
    document = yaml.safe_load(COMPOSE.read_text(encoding="utf-8"))
    assert set(document) <= {"name", "services", "volumes", "networks", "secrets", "configs"}
    for service in document["services"].values():
        for name in ("command", "ports", "volumes", "tmpfs", "cap_drop", "security_opt"):
            assert all(isinstance(word, str) for word in service.get(name, [])), name
        for volume in service.get("volumes", []):
            source, target = re.sub(r"\$\{.*?\}", "./x", volume).split(":")[:2]
            assert target.startswith("/")
            assert source.startswith((".", "/")) or source in document["volumes"]
    check = gateway["healthcheck"]
    assert isinstance(check["retries"], int)
    for name in ("interval", "timeout", "start_period"):
        assert re.fullmatch(r"\d+(ms|s|m)", check[name]), name
    for port in gateway["ports"]:
        host, outside, inside = port.split(":")
        assert host == "127.0.0.1"  # nobody else on the network, unless the user says so
        assert outside.isdigit()
        assert inside == arguments("EXPOSE")[-1]
    build = gateway["build"]
    context = (COMPOSE.parent / build["context"]).resolve()
    assert context == ROOT
    assert (context / build["dockerfile"]) == DOCKERFILE
    version = re.search(r'^version = "(.+)"', (ROOT / "pyproject.toml").read_text(encoding="utf-8"), re.MULTILINE)
    assert version is not None
    assert gateway["image"].endswith(f":{version[1]}")
