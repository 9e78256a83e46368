"""The importer on real tasks, read from the checkout beside the repository."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from harness.environment import Environment
from servers.desk import Desk
from servers.records import iso_utc
from synth.importers.claw_eval import ImportedTask, import_task, to_environment
from tests.support import over_mcp
from tests.synth.claw_calls import ask, call_at_random, entity_of, open_desk, read, refuse, tools_of, valid_arguments

ROOT = Path(__file__).parents[2]
REAL = ROOT.parent / "shared" / "claw-eval" / "tasks"
TASKS = sorted(path.parent for path in REAL.glob("*/task.yaml")) or [REAL / "missing"]


@pytest.fixture(params=TASKS, ids=lambda path: path.name)
def folder(request: pytest.FixtureRequest) -> Path:
    """The folder of one real task."""
    assert REAL.is_dir(), f"the benchmark's tasks are missing: expected them in {REAL}"
    return request.param


@pytest.mark.anyio
async def test_agents_see_exactly_the_tools_that_a_task_declares(folder: Path) -> None:
    declared = yaml.safe_load((folder / "task.yaml").read_text(encoding="utf-8")).get("tools") or []
    async with over_mcp(open_desk(read(folder))) as agent:
        listed = (await agent.client.list_tools()).tools
    shown = {tool.name: (tool.description, tool.input_schema) for tool in listed}
    assert shown == {tool["name"]: (tool["description"], tool["input_schema"]) for tool in declared}
    assert len(listed) == len(declared)


@pytest.mark.anyio
async def test_every_tool_answers_valid_calls_or_says_why_it_is_not_available(folder: Path) -> None:
    task = read(folder)
    async with over_mcp(open_desk(task)) as agent:
        for service, tool in sorted(tools_of(task), key=lambda item: item[1].does.operation == "delete"):
            if tool.does.operation == "unavailable":
                arguments = dict.fromkeys(tool.input_schema.get("required", []), "x")
                assert "workplace" in await agent.refused(tool.name, **arguments)
                continue
            full = valid_arguments(task, service, tool, all_arguments=True)
            short = valid_arguments(task, service, tool, all_arguments=False)
            assert await agent.ok(tool.name, **full)
            if tool.does.operation == "update" and len(short) == 1:
                assert "nothing to change" in await agent.refused(tool.name, **short)
            elif tool.does.operation != "delete":
                assert await agent.ok(tool.name, **short)


def test_what_is_created_is_there_afterwards(folder: Path) -> None:
    task = read(folder)
    for service, tool in tools_of(task):
        if tool.does.operation not in {"create", "append"}:
            continue
        desk, entity = open_desk(task), entity_of(service, tool)
        arguments = valid_arguments(task, service, tool, all_arguments=True)
        made = ask(desk, tool.name, **arguments)
        change = next(change for change in desk.world.changes() if change.operation == "created")
        assert change.key == made[entity.key]
        assert change.after is not None
        assert arguments.items() <= change.after.items()
        for other_service, other in tools_of(task):
            if other_service is service and other.does.operation in {"list", "search", "get"}:
                assert shows(desk, task, (service, other), (entity.name, made[entity.key])), (
                    tool.name,
                    other.name,
                )


def shows(desk: Desk, task: ImportedTask, where: Any, made: tuple[str, str]) -> bool:
    """Whether a reading tool shows a record; true for a tool that has nothing to do with it."""
    (service, tool), (entity, key) = where, made
    does = tool.does
    about = does.entity == entity
    related = [item for item in does.related if item.entity == entity]
    if not about and not related:
        return True
    if about and does.operation == "get" and getattr(does, "items", None) is None:
        return ask(desk, tool.name, **{does.target.argument: key})[entity_of(service, tool).key] == key
    if not about and does.operation == "get":
        return key in json.dumps(ask(desk, tool.name, **valid_arguments(task, service, tool, all_arguments=False)))
    if getattr(does, "items", None) is not None:
        return True
    arguments = valid_arguments(task, service, tool, all_arguments=False)
    arguments |= {name: "all" for name in tool.input_schema["properties"] if name == "status"}
    arguments |= {does.query.argument: ""} if does.query is not None else {}
    return key in json.dumps(ask(desk, tool.name, **arguments))


def test_what_is_changed_reads_so_afterwards(folder: Path) -> None:
    task = read(folder)
    for service, tool in tools_of(task):
        if tool.does.operation not in {"update", "transition"}:
            continue
        desk, entity = open_desk(task), entity_of(service, tool)
        arguments = valid_arguments(task, service, tool, all_arguments=True)
        arguments |= {
            name: "changed" for name, schema in tool.input_schema["properties"].items()
            if schema["type"] == "string" and name != tool.does.target.argument
        }  # fmt: skip
        ask(desk, tool.name, **arguments)
        get = next(
            (
                o
                for s, o in tools_of(task)
                if s is service and o.does.operation == "get" and o.does.entity == entity.name
            ),
            None,
        )
        key = arguments[tool.does.target.argument]
        if get is not None:
            assert arguments.items() <= ask(desk, get.name, **{get.does.target.argument: key}).items()
        change = next(change for change in desk.world.changes() if change.key == key)
        assert change.operation == "updated"
        assert change.before is not None
        assert change.after is not None
        unchanged = change.before.keys() - set(change.fields)
        assert len(unchanged) >= len(change.before) - len(arguments) - 2


def test_records_read_exactly_as_the_fixtures_have_them(folder: Path) -> None:
    task = read(folder)
    desk = open_desk(task)
    kept = [record for records in task.records.values() for record in records]
    for path in folder.rglob("fixtures/**/*.json"):
        for record in json.loads(path.read_text("utf-8")):
            assert any({name: other.get(name, ...) for name in record} == record for other in kept), record
    for service, tool in tools_of(task):
        if tool.does.operation == "get" and tool.does.items is None:
            key = entity_of(service, tool).key
            related = {item.name for item in tool.does.related}
            for record in task.records.get(f"{service.name}.{tool.does.entity}", []):
                shown = ask(desk, tool.name, **{tool.does.target.argument: record[key]})
                assert {name: value for name, value in shown.items() if name not in related} == record


def test_arguments_that_are_not_declared_are_refused_with_those_that_are(folder: Path) -> None:
    task = read(folder)
    desk = open_desk(task)
    for _, tool in tools_of(task):
        words = refuse(desk, tool.name, made_up_argument="x")
        assert "made_up_argument is not an argument" in words
        assert all(name in words for name in tool.input_schema.get("properties", {}))


def test_no_record_of_something_that_happened_lies_after_the_start(folder: Path) -> None:
    task = read(folder)
    start = iso_utc(task.start)
    for name, records in task.records.items():
        for record in records:
            for field in ("created_at", "published_at", "last_run", "last_verified"):
                if record.get(field) is not None and str(record[field]).endswith("Z"):
                    assert record[field] <= start, (name, record[field], start)


def test_the_same_folder_gives_the_same_environment(folder: Path) -> None:
    first, again = to_environment(import_task(folder)), to_environment(import_task(folder))
    assert first.digest == again.digest
    assert first.image.workplace is again.image.workplace
    assert Environment.parse(first.dump()).digest == first.digest


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_no_valid_arguments_break_a_tool_of_a_real_task(data: st.DataObject) -> None:
    assert REAL.is_dir(), f"the benchmark's tasks are missing: expected them in {REAL}"
    task = read(data.draw(st.sampled_from(TASKS)))
    call_at_random(task, data)
