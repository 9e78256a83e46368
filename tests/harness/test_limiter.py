"""The limiter adapts to what a model bears; time passes only when somebody sleeps."""

from __future__ import annotations

import anyio
import pytest

from harness.agents.limiter import Limiter

pytestmark = pytest.mark.anyio


class Clock:
    def __init__(self) -> None:
        self.now = 0.0
        self.slept: list[float] = []

    def __call__(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds
        await anyio.lowlevel.checkpoint()


async def round_of_answers(limiter: Limiter) -> int:
    """Fill the limit, let all be answered; gives how many there were."""
    count = int(limiter.limit)
    gate = anyio.Event()

    async def one() -> None:
        async with limiter.slot():
            await gate.wait()
            limiter.answered()

    async with anyio.create_task_group() as group:
        for _ in range(count):
            group.start_soon(one)
        await anyio.wait_all_tasks_blocked()
        assert limiter.running == count
        gate.set()
    return count


async def test_it_lets_in_as_many_as_the_limit_and_the_others_in_order() -> None:
    limiter = Limiter(start=2)
    entered: list[int] = []
    gates = [anyio.Event() for _ in range(5)]

    async def one(number: int) -> None:
        async with limiter.slot():
            entered.append(number)
            await gates[number].wait()

    async with anyio.create_task_group() as group:
        for number in range(5):
            group.start_soon(one, number)
            await anyio.wait_all_tasks_blocked()
        assert entered == [0, 1]
        gates[1].set()
        await anyio.wait_all_tasks_blocked()
        assert entered == [0, 1, 2]
        for gate in gates:
            gate.set()
    assert entered == [0, 1, 2, 3, 4]
    assert limiter.running == 0


async def test_it_grows_fast_until_the_first_refusal_and_slowly_after() -> None:
    clock = Clock()
    limiter = Limiter(start=4, clock=clock, sleep=clock.sleep)
    before = [await round_of_answers(limiter) for _ in range(3)]
    assert before[0] < before[1] < before[2]
    assert before[2] >= 1.5 * before[1]
    full = limiter.limit
    clock.now = 1
    limiter.refused(begun=0.5)
    assert limiter.limit == full / 2
    await round_of_answers(limiter)
    assert full / 2 < limiter.limit <= full / 2 + 1.5


async def test_refusals_of_one_burst_halve_the_limit_once() -> None:
    clock = Clock()
    limiter = Limiter(start=16, clock=clock, sleep=clock.sleep)
    clock.now = 1
    for _ in range(5):
        limiter.refused(begun=0.5)
    assert limiter.limit == 8
    clock.now = 3
    limiter.refused(begun=2)
    assert limiter.limit == 4


async def test_it_never_falls_below_one_nor_rises_above_the_most() -> None:
    clock = Clock()
    limiter = Limiter(start=2, most=6, clock=clock, sleep=clock.sleep)
    for _ in range(5):
        await round_of_answers(limiter)
    assert limiter.limit == 6
    for moment in range(1, 9):
        clock.now = moment
        limiter.refused(begun=moment - 0.5)
    assert limiter.limit == 1
    assert await round_of_answers(limiter) == 1


async def test_a_limit_that_held_nobody_back_does_not_grow() -> None:
    limiter = Limiter(start=8)
    for _ in range(10):
        async with limiter.slot():
            limiter.answered()
    assert limiter.limit == 8


async def test_nobody_sends_while_the_provider_wants_to_be_left_alone() -> None:
    clock = Clock()
    limiter = Limiter(start=4, clock=clock, sleep=clock.sleep)
    limiter.refused(begun=0, retry_after=30)
    async with limiter.slot() as begun:
        assert begun == 30
    async with limiter.slot():
        pass
    assert clock.slept == [30]


async def test_who_is_cancelled_while_waiting_leaves_no_gap() -> None:
    limiter = Limiter(start=1)
    entered: list[int] = []

    async def one(number: int) -> None:
        async with limiter.slot():
            entered.append(number)

    async with limiter.slot(), anyio.create_task_group() as group:
        with anyio.CancelScope() as impatient:
            group.start_soon(one, 1)
            await anyio.wait_all_tasks_blocked()
            impatient.cancel()
            await one(0)
        group.cancel_scope.cancel()
    assert entered == []
    async with anyio.create_task_group() as group:
        group.start_soon(one, 2)
        group.start_soon(one, 3)
    assert entered == [2, 3]
    assert limiter.running == 0


async def test_who_is_cancelled_at_the_moment_of_being_let_in_gives_the_place_back() -> None:
    limiter = Limiter(start=1)
    holding = limiter.slot()
    await holding.__aenter__()
    async with anyio.create_task_group() as group:
        scope = anyio.CancelScope()

        async def unlucky() -> None:
            with scope:
                async with limiter.slot():
                    raise AssertionError("cancelled before it got in")

        group.start_soon(unlucky)
        await anyio.wait_all_tasks_blocked()
        scope.cancel()
        await holding.__aexit__(None, None, None)
    assert limiter.running == 0
    async with limiter.slot():
        assert limiter.running == 1
