"""Keeping secrets out of what is stored and shown.

A provider's error message may repeat the key it was sent; settings may hold one. ``Secrets`` takes both apart:
``public`` gives settings without them, ``redact`` gives a text without them.

Not promised: that a secret which nobody told us about, and which looks like no secret, is recognised.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

HIDDEN = "***"
SHORTEST = 6
"""Shorter values are no secrets, and hiding them would tear texts apart."""

_SECRET_NAME = re.compile(
    r"(?i)passw|secret|auth|cookie|credential|headers?$|api[_-]?key|access[_-]?key|(?:^|[_-])(?:key|token)$"
)
_SECRET_TEXT = re.compile(
    r"(?i)(?P<before>\bbearer\s+|[?&](?:api[_-]?)?key=|//)"
    r"(?:(?<=//)[^\s/@]+(?=@)|(?<!//)[^\s&\"',;]+)"
    r"|\b(?:sk|pk|rk|gsk|xai|hf|AIza)[-_]?[A-Za-z0-9_*-]{8,}"
)


@dataclass(frozen=True, slots=True)
class Secrets:
    """The secrets that one agent uses."""

    values: frozenset[str]

    @classmethod
    def of(cls, api_key: str | None, settings: Mapping[str, Any]) -> Secrets:
        """Those given openly: the key, and whatever stands under a secret's name in ``settings``."""
        found = {text for text in _secret_texts(settings, hidden=False) if len(text) >= SHORTEST}
        return cls(frozenset(found | ({api_key} if api_key else set())))

    def redact(self, text: str) -> str:
        """A text without these secrets, without those of the environment, and without what looks like one."""
        # Providers read their keys from the environment, and some repeat them when they are wrong.
        around = {value for name, value in os.environ.items() if _SECRET_NAME.search(name)}
        for secret in sorted(self.values | around, key=len, reverse=True):
            if len(secret) >= SHORTEST:
                text = text.replace(secret, HIDDEN)
        return _SECRET_TEXT.sub(lambda found: (found["before"] or "") + HIDDEN, text)


def public(settings: Any) -> Any:  # noqa: ANN401 - plain JSON
    """Settings as they may be written down: what stands under a secret's name is hidden."""
    if isinstance(settings, Mapping):
        return {
            name: HIDDEN if _SECRET_NAME.search(str(name)) else public(value)  # pyright: ignore[reportUnknownArgumentType]
            for name, value in settings.items()  # pyright: ignore[reportUnknownVariableType]
        }
    if isinstance(settings, list | tuple):
        return [public(item) for item in settings]  # pyright: ignore[reportUnknownVariableType]
    return settings


def _secret_texts(settings: object, *, hidden: bool) -> Iterator[str]:
    if isinstance(settings, Mapping):
        for name, value in settings.items():  # pyright: ignore[reportUnknownVariableType]
            yield from _secret_texts(value, hidden=hidden or bool(_SECRET_NAME.search(str(name))))  # pyright: ignore[reportUnknownArgumentType]
    elif isinstance(settings, list | tuple):
        for item in settings:  # pyright: ignore[reportUnknownVariableType]
            yield from _secret_texts(item, hidden=hidden)
    elif hidden and isinstance(settings, str):
        yield settings
