"""Opening, forking, calling and grading a workplace with eight services and 600 records, without MCP.

Times are processor time of this process, so that a busy machine changes them little. Titles carry the budgets.
"""

from __future__ import annotations

import sqlite3
import time
from typing import Any

import anyio
import pytest

from harness.agents import scripted
from harness.environment import Environment
from harness.episode import Episode, Limits
from harness.grading import grade
from harness.outcome import Outcome
from servers.desk import Desk, agent_desk
from servers.world import World
from tests.bench.workload import READS, WRITES, busy

pytestmark = pytest.mark.benchmark(timer=time.process_time)
TWENTY = 20
EACH = {"iterations": TWENTY, "rounds": 50, "warmup_rounds": 2}


def fresh() -> Desk:
    """A desk with every tool in a workplace that was just opened."""
    environment = busy(all_tools=True)
    return agent_desk(World.open(environment.image), environment.exposed)


@pytest.mark.benchmark(group="open an episode (budget 0.5 ms)")
def test_open(benchmark: Any) -> None:
    image = busy().image
    benchmark(lambda: World.open(image).close())


@pytest.mark.benchmark(group="open an episode (budget 0.5 ms)")
def test_open_and_the_first_call(benchmark: Any) -> None:
    """SQLite reads the schema at the first statement, so opening alone flatters."""

    def both() -> None:
        desk = fresh()
        assert desk.call("tickets_get", READS["tickets_get"]).ok
        desk.world.close()

    benchmark(both)


@pytest.mark.benchmark(group="open an episode (budget 0.5 ms)")
def test_anchor_a_bare_copy_of_the_database(benchmark: Any) -> None:
    data = busy().image.data
    template = sqlite3.connect(":memory:")
    template.deserialize(data)

    def copy() -> None:
        connection = sqlite3.connect(":memory:")
        template.backup(connection)
        connection.close()

    benchmark(copy)
    template.close()


@pytest.mark.benchmark(group="open an episode (budget 0.5 ms)")
def test_anchor_building_the_workplace_anew(benchmark: Any) -> None:
    """What an image saves: records are validated, linked, stored and indexed once and not for every episode."""
    plain = busy().dump()
    benchmark.pedantic(lambda one: one.image, setup=lambda: ((Environment.parse(plain),), {}), rounds=5)


@pytest.mark.benchmark(group="fork a world (budget 0.3 ms)")
def test_fork(benchmark: Any) -> None:
    desk = fresh()
    for tool, arguments in WRITES.items():
        assert desk.call(tool, arguments).ok
    benchmark(lambda: desk.world.fork().close())


@pytest.mark.benchmark(group="read at the inner door (budget 0.06 ms)")
@pytest.mark.parametrize("tool", READS)
def test_read(benchmark: Any, tool: str) -> None:
    desk = fresh()
    assert desk.call(tool, READS[tool]).ok
    benchmark.pedantic(desk.call, (tool, READS[tool]), **EACH)


@pytest.mark.benchmark(group=f"{TWENTY} writes at the inner door (budget 0.1 ms each: 2 ms)")
@pytest.mark.parametrize("tool", WRITES)
def test_write(benchmark: Any, tool: str) -> None:
    """Twenty calls in a fresh workplace to a round, so that what they leave behind slows nothing."""

    def open_again() -> tuple[tuple[Desk], dict[str, Any]]:
        desk = fresh()
        assert desk.call("desk_list", {}).ok  # the schema is parsed
        return (desk,), {}

    def write(desk: Desk) -> None:
        for number in range(TWENTY):
            given = WRITES[tool] | ({"owner": f"Ann Li {number}"} if tool == "desk_assign" else {})
            assert desk.call(tool, given).ok

    benchmark.pedantic(write, setup=open_again, rounds=30, warmup_rounds=2)


@pytest.mark.benchmark(group="state hash after a write (no budget: the rows that changed, not the rows held)")
def test_state_hash(benchmark: Any) -> None:
    desk = fresh()

    def write() -> None:
        assert desk.call("mail_create_draft", WRITES["mail_create_draft"]).ok

    benchmark.pedantic(desk.world.state_hash, setup=write, rounds=200)


@pytest.mark.benchmark(group="grade (budget 1 ms)")
def test_grade(benchmark: Any) -> None:
    environment = busy()
    world = World.open(environment.image)

    async def play() -> Episode:
        episode = Episode(environment, scripted.oracle(), world, trial=0, seed=0, limits=Limits())
        await episode.run()
        return episode

    episode = anyio.run(play)
    frozen = world.fork()

    def once() -> None:
        outcome = Outcome(frozen, messages=episode.talk.messages, disclosures=episode.disclosures)
        score = grade(environment, outcome).score
        assert score is not None
        assert score.passed

    benchmark(once)
