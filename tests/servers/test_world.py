"""What the world engine promises, as properties over random sequences of calls."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from servers.errors import CoworkEnvError, ServiceFault, WorldClosed
from servers.image import hash_rows
from servers.journal import Actor
from servers.world import World
from tests.servers.notebook import AUTHORED, Note, notebook, seat
from tests.support import NORA, OMAR, desk

IMAGE = notebook()
AGENT = Actor("agent", NORA)
Op = tuple[str, dict[str, Any]]

relaxed = settings(max_examples=40, deadline=None)

keys = st.sampled_from("abcde")
texts = st.text(alphabet="xyü '\"", max_size=3)
ops: st.SearchStrategy[Op] = st.one_of(
    st.tuples(
        st.just("notes_put"),
        st.fixed_dictionaries({"note_id": keys, "text": texts, "tags": st.lists(texts, max_size=2)}),
    ),
    st.tuples(st.just("notes_edit"), st.fixed_dictionaries({"note_id": keys, "text": texts, "done": st.booleans()})),
    st.tuples(st.just("notes_drop"), st.fixed_dictionaries({"note_id": keys})),
    st.tuples(st.just("notes_show"), st.fixed_dictionaries({"note_id": keys})),
    st.tuples(st.just("notes_spoil"), st.fixed_dictionaries({"note_id": keys})),
    st.tuples(st.just("notes_fresh"), st.just({})),
)


def scratch_hash(world: World) -> str:
    """The state hash, computed from nothing but the rows."""
    frozen = World.open(world.image)
    frozen._live().deserialize(world.freeze())
    return f"{hash_rows(frozen._live(), world.image.workplace):064x}"


def notes(world: World) -> dict[str, dict[str, Any]]:
    return {row["id"]: row for row in world.dump(Note.type_name)}


def run(world: World, sequence: list[Op]) -> list[bool]:
    return [world.call(tool, arguments, AGENT).ok for tool, arguments in sequence]


class Model:
    """Text and state of every note, as a dict keeps them."""

    def __init__(self) -> None:
        self.notes = {row["id"]: (row.get("text", ""), False) for row in AUTHORED}

    def expects(self, tool: str, arguments: dict[str, Any]) -> bool:
        """Apply a call; whether it succeeds."""
        key = arguments.get("note_id", "")
        if tool == "notes_put":
            ok = key not in self.notes
            self.notes.setdefault(key, (arguments["text"], False))
            return ok
        if key not in self.notes or tool == "notes_spoil":
            return False
        if tool == "notes_edit":
            self.notes[key] = (arguments["text"], arguments["done"])
        if tool == "notes_drop":
            del self.notes[key]
        return True


@relaxed
@given(st.lists(ops.filter(lambda op: op[0] != "notes_fresh"), max_size=30))
def test_a_world_holds_what_a_dict_would_hold_and_refuses_the_rest(sequence: list[Op]) -> None:
    world, model = World.open(IMAGE), Model()
    for tool, arguments in sequence:
        assert world.call(tool, arguments, AGENT).ok == model.expects(tool, arguments)
    assert {key: (row["text"], row["done"]) for key, row in notes(world).items()} == model.notes


@relaxed
@given(st.lists(ops, max_size=30), st.sets(st.integers(0, 30)))
def test_the_state_hash_is_the_hash_from_scratch_whenever_it_is_asked_for(sequence: list[Op], asked: set[int]) -> None:
    world = World.open(IMAGE)
    for number, op in enumerate(sequence):
        run(world, [op])
        if number in asked:
            assert world.state_hash() == scratch_hash(world)
    assert world.state_hash() == scratch_hash(world)


@relaxed
@given(
    st.lists(st.tuples(keys, texts, st.booleans()), unique_by=lambda item: item[0]),
    st.randoms(use_true_random=False),
)
def test_the_state_hash_does_not_depend_on_the_order_of_writes_that_commute(
    writes: list[tuple[str, str, bool]], shuffle: random.Random
) -> None:
    sequence: list[Op] = []
    for key, text, done in writes:
        if key in "de":
            sequence.append(("notes_put", {"note_id": key, "text": text}))
        else:
            sequence.append(("notes_edit", {"note_id": key, "text": text, "done": done}))
    other = list(sequence)
    shuffle.shuffle(other)
    first, second = World.open(IMAGE), World.open(IMAGE)
    for world, order in ((first, sequence), (second, other)):
        for tool, arguments in order:
            assert world.call(tool, arguments, Actor("coworker", OMAR)).ok  # takes no time, so times are equal
    assert first.state_hash() == second.state_hash()


@relaxed
@given(st.lists(ops, max_size=12), keys)
def test_a_refused_call_changes_nothing_but_stands_in_the_journal(before: list[Op], key: str) -> None:
    world = World.open(IMAGE)
    run(world, before)
    state, changes = world.state_hash(), world.row_changes()
    twin = world.fork()
    result = world.call("notes_spoil", {"note_id": key}, AGENT)
    entry = world.journal()[-1]
    assert not result.ok
    assert (entry.seq, entry.tool, entry.arguments, entry.result, entry.error) == (
        result.seq,
        "notes_spoil",
        {"note_id": key},
        None,
        result.text,
    )
    assert (world.state_hash(), world.row_changes(), world.take_notices()) == (state, changes, [])
    # Not even the id streams have moved.
    assert world.call("notes_fresh", {}, AGENT).value == twin.call("notes_fresh", {}, AGENT).value


def test_a_tool_that_breaks_leaves_nothing_and_the_world_goes_on() -> None:
    world = World.open(IMAGE)
    state = world.state_hash()
    with pytest.raises(ServiceFault, match="notes_crash"):
        world.call("notes_crash", {"note_id": "a"}, AGENT)
    assert (world.state_hash(), world.journal(), world.changes(), world.take_notices()) == (state, [], [], [])
    assert world.call("notes_show", {"note_id": "a"}, AGENT).ok


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("notes_show", {"note_id": "half \ud800 a pair"}),
        ("notes_show", {"note_id": "a", "\udfff": 1}),
        ("no_such\ud800tool", {"note_id": "a"}),
        ("notes_show", {"note_id": "a", "deep": [[[]]]}),
        ("notes_show", {"note_id": float("nan")}),
        ("notes_show", {"note_id": 1 << 200}),
    ],
)
def test_arguments_that_nobody_can_read_are_refused_and_the_world_goes_on(tool: str, arguments: dict[str, Any]) -> None:
    world = World.open(IMAGE)
    if "deep" in arguments:
        for _ in range(230):
            arguments = {"note_id": "a", "deep": [arguments["deep"]]}
    assert not world.call(tool, arguments, AGENT).ok
    assert world.call("notes_show", {"note_id": "a"}, AGENT).ok
    assert [entry.error is None for entry in world.journal()] == [False, True]


@relaxed
@given(st.lists(ops, max_size=10), st.lists(ops, max_size=10), st.lists(ops, max_size=10))
def test_a_fork_is_independent_both_ways(before: list[Op], here: list[Op], there: list[Op]) -> None:
    world = World.open(IMAGE)
    run(world, before)
    assert world.state_hash() == scratch_hash(world)  # what was hashed so far goes along
    fork = world.fork()
    assert fork.freeze() == world.freeze()
    run(world, here)
    run(fork, there)
    alone = [World.open(IMAGE), World.open(IMAGE)]
    run(alone[0], before + here)
    run(alone[1], before + there)
    for one, other in ((world, alone[0]), (fork, alone[1])):
        assert one.journal() == other.journal()
        assert one.row_changes() == other.row_changes()
        assert one.state_hash() == other.state_hash() == scratch_hash(one)
        assert one.now == other.now


def test_a_fork_takes_pending_events_and_notices_along() -> None:
    image = notebook(
        {
            "id": "later",
            "when": {"after": "10m"},
            "do": [{"by": OMAR, "tool": "notes_fresh"}],
            "notice": "new",
        }
    )
    world = World.open(image)
    world.notify("unread")
    fork = world.fork()
    world.advance(600)
    assert world.take_notices() == ["unread", "new"]
    assert fork.take_notices() == ["unread"]
    assert fork.changes() == []
    fork.advance(600)
    assert fork.take_notices() == ["new"]
    assert fork.changes() == world.changes()


@relaxed
@given(st.lists(ops, max_size=30))
def test_the_change_set_is_the_difference_to_the_beginning(sequence: list[Op]) -> None:
    world = World.open(IMAGE)
    before = notes(world)
    run(world, sequence)
    after = notes(world)
    differing = {key for key in before.keys() | after.keys() if before.get(key) != after.get(key)}
    changes = {change.key: change for change in world.changes()}
    assert changes.keys() == differing
    for key, change in changes.items():
        operation = "created" if key not in before else "deleted" if key not in after else "updated"
        assert change.operation == operation
        for side, row in ((change.before, before.get(key)), (change.after, after.get(key))):
            assert (side is None) == (row is None)
            if side is not None and row is not None:
                assert (side["text"], side["done"], side["tags"]) == (row["text"], row["done"], row["tags"])


def test_what_ends_as_it_began_is_no_change() -> None:
    world = World.open(IMAGE)
    run(
        world,
        [
            ("notes_put", {"note_id": "d"}),
            ("notes_drop", {"note_id": "d"}),
            ("notes_edit", {"note_id": "a", "text": "other"}),
            ("notes_edit", {"note_id": "a", "text": "alpha"}),
            ("notes_edit", {"note_id": "b", "done": True}),
            ("notes_edit", {"note_id": "b", "text": "gamma"}),
        ],
    )
    [change] = world.changes()
    assert (change.key, change.fields, change.call) == ("b", ("done", "text"), 6)
    assert len(world.row_changes()) == 6


@pytest.mark.parametrize("seed", range(1))
def test_two_hundred_worlds_in_one_process_stay_apart(seed: int) -> None:
    draw = random.Random(seed)  # noqa: S311
    worlds = [(World.open(IMAGE), Model()) for _ in range(200)]
    for _ in range(3000):
        world, model = draw.choice(worlds)
        tool = draw.choice(("notes_put", "notes_edit", "notes_drop", "notes_spoil"))
        arguments: dict[str, Any] = {"note_id": draw.choice("abcdef")}
        if tool in {"notes_put", "notes_edit"}:
            arguments["text"] = f"{draw.random()}"
        if tool == "notes_edit":
            arguments["done"] = draw.random() < 0.5
        assert world.call(tool, arguments, AGENT).ok == model.expects(tool, arguments)
    for world, model in worlds:
        assert {key: (row["text"], row["done"]) for key, row in notes(world).items()} == model.notes
        assert world.state_hash() == scratch_hash(world)
        world.close()
    assert World.open(IMAGE).freeze() == World.open(notebook()).freeze()


def test_two_processes_with_different_hash_seeds_build_the_same_bytes() -> None:
    root = Path(__file__).parents[2]
    started = [
        subprocess.Popen(
            [sys.executable, "-m", "tests.servers.notebook"],
            cwd=root,
            env={**os.environ, "PYTHONHASHSEED": seed},
            stdout=subprocess.PIPE,
            text=True,
        )
        for seed in ("1", "4242")
    ]
    said = {process.communicate()[0] for process in started}
    assert [process.returncode for process in started] == [0, 0]
    assert len(said) == 1
    assert '"journal"' in said.pop()


def test_another_seed_gives_other_ids_and_the_same_one_the_same() -> None:
    def ids(seed: str) -> list[Any]:
        world = World.open(notebook(seed=seed))
        return [world.call("notes_fresh", {}, AGENT).value for _ in range(3)]

    assert ids("one") == ids("one")
    assert ids("one")[0] != ids("two")[0]
    assert [entry["note_id"][-2:] for entry in ids("one")] == ["-1", "-2", "-3"]


def test_tools_that_are_not_exposed_are_refused_and_not_named() -> None:
    agent = desk(IMAGE, ["notes_show", "workplace_now"])
    for name in ("notes_drop", "notes_dorp", "notes_spoil"):
        refusal = agent.call(name, {"note_id": "a"})
        assert not refusal.ok
        words = refusal.text.replace(repr(name), "")
        assert not any(
            hidden in words for hidden in ("notes_drop", "notes_put", "notes_edit", "notes_spoil", "directory")
        )
    assert "notes_show" in agent.call("x", {}).text
    assert agent.world.changes() == []
    assert [entry.tool for entry in agent.world.journal()] == ["notes_drop", "notes_dorp", "notes_spoil", "x"]
    assert seat(agent.world, OMAR).call("notes_drop", {"note_id": "a"}).ok


def test_nobody_can_act_who_is_not_in_the_cast() -> None:
    result = World.open(IMAGE).call("notes_drop", {"note_id": "a"}, Actor("agent", "mallory@evil.example"))
    assert "nobody in this workplace" in result.text


def test_an_agents_calls_take_time_and_other_peoples_do_not() -> None:
    world = World.open(IMAGE)
    start = world.now
    seat(world, OMAR).call("notes_show", {"note_id": "a"})
    assert world.now == start
    desk_of_agent = desk(IMAGE)
    desk_of_agent.call("notes_show", {"note_id": "a"})
    assert desk_of_agent.world.now == start + 1
    with pytest.raises(ValueError, match="backwards"):
        world.advance(-1)


@pytest.mark.parametrize("seed", range(3))
def test_a_world_in_a_file_goes_on_where_it_was(seed: int, tmp_path: Path) -> None:
    draw = random.Random(seed)  # noqa: S311
    before, after = (
        [(draw.choice(("notes_put", "notes_drop", "notes_spoil")), {"note_id": draw.choice("abcde")}) for _ in range(8)]
        for _ in range(2)
    )
    image = notebook({"id": "later", "when": {"after": "12s"}, "do": [{"by": OMAR, "tool": "notes_fresh"}]})
    straight = World.open(image)
    run(straight, before + after)
    path = tmp_path / "world.db"
    world = World.open(image, path)
    run(world, before)
    world.end_turn()
    world.close()
    again = World.open(image, path)
    run(again, after)
    assert again.journal() == straight.journal()
    assert again.changes() == straight.changes()
    assert again.state_hash() == straight.state_hash()
    assert (again.now, again.turn) == (straight.now, 1)
    again.close()
    with pytest.raises(CoworkEnvError, match="another environment"):
        World.open(notebook(seed="other"), path)


def test_a_closed_world_says_so() -> None:
    world = World.open(IMAGE)
    world.close()
    world.close()
    with pytest.raises(WorldClosed):
        world.call("notes_show", {"note_id": "a"}, AGENT)
    with pytest.raises(WorldClosed):
        world.state_hash()
