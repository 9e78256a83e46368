"""A gateway with one office, in a process of its own: what the gateway benchmark talks to.

Prints the URL of the episode when it is ready, and serves until it is told to stop.
"""

from __future__ import annotations

import anyio

from servers.errors import ServiceFault
from servers.gateway import Gateway, asgi_app, fast_loop, serve
from servers.services.directory import DIRECTORY
from servers.services.workplace import WORKPLACE
from tests.support import desk, office


def _fail(fault: ServiceFault) -> None:
    raise SystemExit(str(fault))


async def main() -> None:
    """Serve one office until a signal comes."""
    gateway = Gateway()
    token = gateway.open(desk(office([WORKPLACE, DIRECTORY])), on_fault=_fail)
    await serve(asgi_app(gateway), on_ready=lambda url: print(url + gateway.path(token), flush=True))


if __name__ == "__main__":
    anyio.run(main, backend_options=fast_loop())
