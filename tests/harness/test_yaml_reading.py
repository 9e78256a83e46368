"""YAML from outside: what is wrong with it is told with its line, and nothing is read as something else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from harness.pack import load, to_yaml
from harness.yaml_files import read_yaml
from servers.errors import SpecError
from synth.families import FAMILIES
from synth.importers.claw_eval import import_task


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a: 1\nb:\n  c: 1\n  d: 2\n  c: 3\n", "line 5, column 3: the key 'c' stands twice in one mapping"),
        ("{a: 1, a: 2}", "line 1, column 8: the key 'a' stands twice"),
        ("a:\n  - [1, 2\nb: {", "line 3"),
        ("a: 1\nb: !!int many", "line 2, column 4: this is no int"),
        ("a: !!bool maybe", "line 1, column 4: this is no bool"),
        ("a: !!int ''", "line 1, column 4: this is no int"),
        ("a: !!timestamp 2026-13-01", "line 1, column 4: this is no timestamp"),
        ("a: !!timestamp soon", "line 1, column 4: this is no timestamp"),
        (f"a: {'1' * 5000}", "line 1, column 4: this is no int"),
        ("a: !!python/object:os.system {}", "line 1, column 4: could not determine a constructor"),
        ("a: 1\n---\nb: 1", "expected a single document"),
        ("[" * 5000, "nest"),
        ("a: \x00", "control characters"),
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_told_with_file_and_line(text: str, words: str) -> None:
    with pytest.raises(SpecError) as raised:
        read_yaml(text, "mine.yaml")
    assert str(raised.value).startswith("mine.yaml: this is no YAML")
    assert words in str(raised.value)


def test_times_stay_as_they_were_written() -> None:
    assert read_yaml("[2026-03-02, 2026-03-02T09:00:00+01:00, 2026-13-01]", "f") == [
        "2026-03-02",
        "2026-03-02T09:00:00+01:00",
        "2026-13-01",
    ]


def test_a_merged_mapping_may_be_written_over() -> None:
    text = "a: &a {x: 1, y: 1}\nb: &b {<<: *a, x: 2}\nc: {<<: [*a, *b]}\n"
    read: Any = read_yaml(text, "f")
    assert read["b"] == {"x": 2, "y": 1}
    assert read["c"].keys() == {"x", "y"}


def test_a_date_that_does_not_exist_is_named_in_an_environment(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    lines = to_yaml(FAMILIES[0].make("dates", 1)).splitlines()
    path.write_text(
        "\n".join("start: 2026-13-01" if line.startswith("start:") else line for line in lines), encoding="utf-8"
    )
    with pytest.raises(SpecError) as raised:
        load(path)
    assert str(raised.value).startswith(f"{path}: start: ")
    assert "2026-13-01" in str(raised.value)


def test_a_task_file_is_read_by_the_same_rules(tmp_path: Path) -> None:
    path = tmp_path / "task.yaml"
    path.write_text("task_id: a\ntask_id: b\n", encoding="utf-8")
    with pytest.raises(SpecError, match="line 2, column 1: the key 'task_id' stands twice"):
        import_task(tmp_path)
    path.write_text("task_id: a\nprompt: {text: x}\ndue: 2026-13-01\n", encoding="utf-8")
    assert import_task(tmp_path).metadata["due"] == "2026-13-01"
