"""Workplace: the time, waiting, and notices; what an agent would see in the corner of its screen."""

from __future__ import annotations

from pydantic import Field

from servers.tools import Arguments, Call, JsonObject, Service, tool

LONGEST_WAIT = 24 * 60


class Now(Arguments):
    """Get the current date and time in your time zone."""


class Wait(Arguments):
    """Wait until something new happens, or until the given number of minutes has passed.

    Time in the workplace moves on.
    """

    minutes: int = Field(ge=1, le=LONGEST_WAIT, description="Longest time to wait, in minutes")


class Notices(Arguments):
    """Get notices that you have not seen yet."""


def now(call: Call, args: Now) -> JsonObject:
    """Tell the time."""
    return {"now": call.local(call.now), "timezone": call.person.timezone}


def notices(call: Call, args: Notices) -> JsonObject:
    """Hand over notices."""
    return {"notices": call.world.take_notices()}


def waited(call: Call, args: Wait) -> JsonObject:
    """Tell what came of waiting."""
    return {"now": call.local(call.now), "notices": call.world.take_notices()}


WORKPLACE = Service(
    name="workplace",
    title="Clock and notices",
    summary="The time, waiting, and notices of what happened.",
    records=(),
    tools=(
        tool("workplace_now", Now, now, latency=0),
        tool("workplace_wait", Wait, waited, effect="write", latency=0, waits=lambda args: args.minutes * 60),
        tool("workplace_notices", Notices, notices, effect="write", idempotent=True, latency=0),
    ),
)
