"""What many live episodes weigh, measured in a process of its own: ``python -m tests.bench.live_episodes COUNT``.

Each is a workplace with eight services and 600 records behind its own address, and an agent has called a tool
there over HTTP, so that everything an episode needs is there. Prints one line of JSON.
"""

from __future__ import annotations

import json
import sys

import anyio
import psutil
from anyio.abc import TaskStatus

from harness.live import Control
from servers.gateway import Gateway, asgi_app, serve
from tests.bench.lean_client import complete, send_all, tool_call
from tests.bench.workload import READS, busy

TOOL = "mail_search"


async def measure(count: int) -> dict[str, float]:
    """Open ``count`` episodes, let an agent call a tool in each, and weigh the process before and after."""
    environment = busy()
    control = Control(Gateway(), [environment])
    app = asgi_app(control.gateway)
    process = psutil.Process()

    async def listen(*, task_status: TaskStatus[str]) -> None:
        await serve(app, on_ready=task_status.started)

    async with anyio.create_task_group() as tasks:
        url = await tasks.start(listen)
        before = process.memory_info().rss
        for _ in range(count):
            token, _ = control.find(control.open(environment.id))
            address = url + Gateway.path(token)
            load = await send_all(address, [tool_call(address, TOOL, READS[TOOL])], 1)
            assert complete(load.last)
            assert b'"isError":true' not in load.last
        after = process.memory_info().rss
        tasks.cancel_scope.cancel()
    control.close()
    return {"process_mib": round(after / 2**20, 1), "per_episode_kib": round((after - before) / 2**10 / count, 1)}


if __name__ == "__main__":
    found = anyio.run(measure, int(sys.argv[1]))
    sys.stdout.write(json.dumps(found) + "\n")
