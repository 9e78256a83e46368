"""How many requests one model gets at the same time: as many as it bears.

``Limiter`` starts low and doubles with every round that goes well (slow start); after the first refusal it
halves, then adds one per round and halves again when refused (AIMD, as in V. Jacobson, "Congestion Avoidance
and Control", 1988). A provider that says how long to wait (``Retry-After``) is left alone for that long.

Waiting is first come, first served. Not promised: a limit across processes; each has its own and both adapt.
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager

import anyio


class Limiter:
    """Adapts the number of simultaneous requests to one model.

    Args:
        start: Requests at the same time in the beginning.
        most: Never more than these.
        clock: Gives seconds that only grow.
        sleep: Waits for so many seconds.
    """

    def __init__(
        self,
        *,
        start: int = 4,
        most: int = 256,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = anyio.sleep,
    ) -> None:
        self.limit = float(min(start, most))
        """Requests allowed at the same time; its whole part counts."""
        self.running = 0
        self._most = most
        self._clock = clock
        self._sleep = sleep
        self._waiting: deque[anyio.Event] = deque()
        self._threshold = math.inf
        self._closed_until = -math.inf
        self._last_cut = -math.inf

    @asynccontextmanager
    async def slot(self) -> AsyncGenerator[float]:
        """Wait for leave to send one request; gives the time at which it begins, for ``refused``."""
        await self._enter()
        try:
            while (wait := self._closed_until - self._clock()) > 0:
                await self._sleep(wait)
            yield self._clock()
        finally:
            self._leave()

    def answered(self) -> None:
        """A request went well."""
        if self.running < self.limit / 2:
            return  # the limit was not what held anybody back, so nothing was learnt about it
        step = 1.0 if self.limit < self._threshold else 1 / self.limit
        self.limit = min(float(self._most), self.limit + step)

    def refused(self, begun: float, retry_after: float | None = None) -> None:
        """A request that began at ``begun`` was refused because there were too many."""
        now = self._clock()
        if begun > self._last_cut:  # those that were under way at the last cut say nothing new
            self._last_cut = now
            self._threshold = self.limit = max(1.0, self.limit / 2)
        if retry_after is not None:
            self._closed_until = max(self._closed_until, now + retry_after)

    async def _enter(self) -> None:
        admitted = anyio.Event()
        self._waiting.append(admitted)
        self._admit()
        try:
            await admitted.wait()
        except BaseException:  # cancelled while waiting, or at the moment of being admitted
            if admitted.is_set():
                self._leave()
            else:
                self._waiting.remove(admitted)
            raise

    def _leave(self) -> None:
        self.running -= 1
        self._admit()

    def _admit(self) -> None:
        while self._waiting and self.running < int(self.limit):
            self.running += 1
            self._waiting.popleft().set()
