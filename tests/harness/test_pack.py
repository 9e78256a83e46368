"""Environments on disk: what can be read, and what is said when it cannot."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from harness.environment import Environment
from harness.files import StorageError
from harness.pack import load, save, to_yaml
from servers.errors import SpecError
from synth.families import FAMILIES
from synth.families.ticket_routing import TICKET_ROUTING
from tests.harness.test_environment import by_hand

EVERY_FAMILY = [family.make("pack", family.levels) for family in FAMILIES]
ENVIRONMENT = EVERY_FAMILY[0]


def trouble(path: Path) -> str:
    """The words for what cannot be loaded."""
    with pytest.raises(SpecError) as raised:
        load(path)
    return str(raised.value)


@pytest.mark.parametrize("environment", EVERY_FAMILY, ids=lambda environment: environment.family)
def test_yaml_that_we_write_is_read_back(tmp_path: Path, environment: Environment) -> None:
    path = tmp_path / "environment.yaml"
    path.write_text(to_yaml(environment), encoding="utf-8")
    assert load(path) == [environment]


def test_a_pack_is_read_back_from_its_directory_and_from_its_file(tmp_path: Path) -> None:
    save(tmp_path / "pack", EVERY_FAMILY, {"accepted": len(EVERY_FAMILY)})
    assert load(tmp_path / "pack") == EVERY_FAMILY
    assert load(tmp_path / "pack" / "environments.jsonl") == EVERY_FAMILY
    assert json.loads((tmp_path / "pack" / "pack.json").read_text(encoding="utf-8")) == {"accepted": len(EVERY_FAMILY)}


def test_a_json_file_is_read_whatever_its_white_space(tmp_path: Path) -> None:
    path = tmp_path / "environment.json"
    path.write_text(json.dumps(ENVIRONMENT.dump(), indent="\t"), encoding="utf-8")
    assert load(path) == [ENVIRONMENT]


@example("\x85")
@example("a\u2029b")
@given(st.text(min_size=1, max_size=40))
def test_any_text_survives_being_written_down(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    folder = tmp_path_factory.mktemp("text")
    environment = Environment.parse({**by_hand(), "request": text, "meta": {"note": f"{text}\u2028{text}\x85\r\n"}})
    save(folder, [environment], {})
    (folder / "environment.yaml").write_text(to_yaml(environment), encoding="utf-8", newline="")
    assert load(folder) == [environment]
    assert load(folder / "environment.yaml") == [environment]


def test_times_in_yaml_need_no_quotes(tmp_path: Path) -> None:
    path = tmp_path / "environment.yaml"
    unquoted = to_yaml(Environment.parse(by_hand())).replace("'2026-03-02T08:00:00Z'", "2026-03-02T09:00:00+01:00")
    assert "start: 2026-03-02T09:00:00+01:00" in unquoted
    path.write_text(unquoted, encoding="utf-8")
    [environment] = load(path)
    assert environment.digest == Environment.parse(by_hand()).digest


def test_a_broken_line_is_named_by_its_number(tmp_path: Path) -> None:
    path = tmp_path / "some.jsonl"
    good = json.dumps(ENVIRONMENT.dump())
    path.write_text(f"{good}\n\n{{broken\n", encoding="utf-8")
    assert trouble(path).startswith(f"{path}:3: this is no JSON")
    wrong = json.dumps({**ENVIRONMENT.dump(), "reqest": 1})
    path.write_text(f"{good}\n{wrong}\n", encoding="utf-8")
    assert trouble(path) == f"{path}:2: reqest: unknown key"


def test_broken_yaml_is_named_with_line_and_column(tmp_path: Path) -> None:
    path = tmp_path / "environment.yaml"
    path.write_text("id: x\nrecords: [1, 2\ncast: {", encoding="utf-8")
    assert trouble(path).startswith(f"{path}: this is no YAML")
    assert "line 3" in trouble(path)


def test_broken_json_is_named(tmp_path: Path) -> None:
    path = tmp_path / "environment.json"
    path.write_text('{"id": }', encoding="utf-8")
    assert trouble(path).startswith(f"{path}: this is no JSON")


@pytest.mark.parametrize("name", ["nothing.yaml", "nothing.jsonl", "no/such/folder"])
def test_a_missing_file_says_what_can_be_named(tmp_path: Path, name: str) -> None:
    words = trouble(tmp_path / name)
    assert str(tmp_path / name) in words
    assert "there is no such file" in words
    assert "coworkenv synth" in words


def test_a_directory_that_is_no_pack_names_the_file_it_lacks(tmp_path: Path) -> None:
    assert "environments.jsonl: there is no such file" in trouble(tmp_path)


def test_an_empty_pack_is_refused(tmp_path: Path) -> None:
    (tmp_path / "environments.jsonl").write_text("\n", encoding="utf-8")
    assert "no environments in it" in trouble(tmp_path)


def test_bytes_that_are_no_text_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_bytes(b"\xff\xfe\x00")
    assert "cannot be read" in trouble(tmp_path / "a.yaml")


@pytest.mark.parametrize("text", ["", "just words", "- a\n- b\n", "42"])
def test_yaml_that_is_no_environment_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "a.yaml"
    path.write_text(text, encoding="utf-8")
    assert "expected a mapping of keys (got " in trouble(path)


def test_two_environments_of_one_id_are_refused(tmp_path: Path) -> None:
    twin = TICKET_ROUTING.make("one", 1)
    save(tmp_path, [twin, ENVIRONMENT, twin], {})
    assert f"environment {twin.id!r} is there twice" in trouble(tmp_path)


def test_a_pack_that_cannot_be_written_says_so(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("a file", encoding="utf-8")
    with pytest.raises(StorageError, match="taken"):
        save(tmp_path / "taken", [ENVIRONMENT], {})
