"""Keeping secrets out of what is stored and shown.

A provider's error message may repeat the key it was sent, and an agent's settings may hold one. ``public``
gives settings without their secrets, ``Secrets.redact`` a text without them.

Not promised: recognising a secret that nobody told us about and that looks like none.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass

from pydantic import JsonValue

HIDDEN = "***"
SHORTEST = 6
"""Shorter values are no secrets, and hiding them would tear texts apart."""

_NAME = re.compile(
    r"(?i)passw|secret|auth|cookie|credential|headers?$|api[_-]?key|access[_-]?key|(?:^|[_-])(?:key|token)$"
)
"""Names under which secrets stand."""
_LOOKS_SECRET = re.compile(
    r"(?i)(?<=\bbearer )[^\s\"',]+"  # Authorization: Bearer ...
    r"|(?<=//)[^\s/@]+(?=@)"  # https://user:password@host
    r"|(?<=[?&]key=)[^\s&\"']+"
    r"|\b(?:sk|pk|rk|gsk|xai|hf)[-_][\w*-]{6,}|\bAIza[\w-]{8,}"
)


@dataclass(frozen=True, slots=True)
class Secrets:
    """The secrets that one agent was given."""

    values: frozenset[str]

    @classmethod
    def of(cls, api_key: str | None, settings: JsonValue) -> Secrets:
        """The key, and whatever stands under a secret's name in ``settings``."""
        given = [api_key or "", *_under_secret_names(settings)]
        return cls(frozenset(text for text in given if len(text) >= SHORTEST))

    def redact(self, text: str) -> str:
        """A text without these secrets, those in the process's environment, and what looks like one."""
        # Providers read their keys from the environment, and some repeat a key that was wrong.
        around = {value for name, value in os.environ.items() if _NAME.search(name)}
        for secret in sorted(self.values | around, key=len, reverse=True):
            if len(secret) >= SHORTEST:
                text = text.replace(secret, HIDDEN)
        return _LOOKS_SECRET.sub(HIDDEN, text)


def public(settings: JsonValue) -> JsonValue:
    """Settings as they may be written down: what stands under a secret's name is hidden."""
    if isinstance(settings, dict):
        return {name: HIDDEN if _NAME.search(name) else public(value) for name, value in settings.items()}
    if isinstance(settings, list):
        return [public(item) for item in settings]
    return settings


def _under_secret_names(settings: JsonValue, *, secret: bool = False) -> Iterator[str]:
    if isinstance(settings, dict):
        for name, value in settings.items():
            yield from _under_secret_names(value, secret=secret or _NAME.search(name) is not None)
    elif isinstance(settings, list):
        for item in settings:
            yield from _under_secret_names(item, secret=secret)
    elif secret and isinstance(settings, str):
        yield settings
