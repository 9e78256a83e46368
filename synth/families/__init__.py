"""Workflow families: each is one file that reads like a description of the work, and one line here."""

from __future__ import annotations

from synth.families.base import Family
from synth.families.escalation import ESCALATION
from synth.families.inbox_triage import INBOX_TRIAGE
from synth.families.scheduling import SCHEDULING
from synth.families.ticket_routing import TICKET_ROUTING

FAMILIES: tuple[Family, ...] = (INBOX_TRIAGE, SCHEDULING, ESCALATION, TICKET_ROUTING)
