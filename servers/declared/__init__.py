"""Declared services: a mock application given as data, interpreted by one engine.

``ServiceSpec`` is the data: entities with their fields, lifecycles, and tools as operations on them.
``declared_service`` makes an ordinary ``servers.tools.Service`` of it, with ordinary tools; nothing above can
tell it from a built-in one. No code is ever executed from a spec.

* ``spec``: the form of the data. ``rules``: what the form alone cannot show (an argument that nothing reads).
* ``records``: entities become record types. ``arguments``: JSON schemas become argument parsers.
* ``times``, ``ranking``, ``selection``: which records a list or a search gives, and in which order.
* ``operations``: what the tools do. ``service``: the pieces put together.

Not promised: rights. Whoever has a tool of a declared service sees and changes all of its records.
"""

from __future__ import annotations

from servers.declared.service import declared_service
from servers.declared.spec import ServiceSpec

__all__ = ["ServiceSpec", "declared_service"]
