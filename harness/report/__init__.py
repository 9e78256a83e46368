"""The report of a run: one HTML file that holds everything it shows.

``write_report`` makes it. ``story`` turns a trajectory into what is shown of it: every step of the
conversation next to what it changed in the workplace, and what coworkers did meanwhile. ``page`` chooses
how much of a run fits, and fills the template in ``harness/data``.

The file asks nothing of a network or a server; it opens from a disk, in light or dark. Everything in it
that an agent, a mail or a tool wrote is shown as text: the template escapes it, the script only ever sets
text, and the page's own policy lets no other script run.
"""

from __future__ import annotations

from harness.report.page import write_report

__all__ = ["write_report"]
