"""Seeded random streams: one per path, independent of each other and of the order in which they are used."""

from __future__ import annotations

import hashlib
import random


def stream(seed: str, *path: str | int) -> random.Random:
    """A random stream that depends only on ``seed`` and ``path``; equal in every process.

    Adding a stream to a generator changes no other stream, so an old seed keeps giving what it gave.
    """
    text = "\0".join([seed, *map(str, path)])
    return random.Random(int.from_bytes(hashlib.sha256(text.encode()).digest()))  # noqa: S311 - not for secrets
