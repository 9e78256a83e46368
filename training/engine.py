"""The seam between an episode and whatever produces a student's tokens.

A ``TokenEngine`` continues a list of token ids. Ids go in and ids come out, so nothing on the way can
re-tokenize what the student really sampled. ``training.engine_transformers`` runs a model in this process,
``training.engine_vllm`` asks a vLLM server.

What an engine promises:

* ``logprobs`` are those of the distribution that was sampled from: after the temperature, over the whole
  vocabulary (no top-k, no top-p), as importance ratios need them. Greedy decoding (temperature 0)
  reports them at temperature 1.
* Many calls may run at once. Cancelling a call frees its place.

What it does not promise: equal tokens for an equal seed when the company in the batch differs. Sums of floats
depend on the batch's shape in the last bits, and now and then a sample sits exactly on such a bit.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

Finish = Literal["stop", "length"]
"""``stop``: the last id is a stop id. ``length``: ``max_new_tokens`` were sampled without meeting one."""


@dataclass(frozen=True, slots=True)
class Generated:
    """The continuation of a prompt.

    Attributes:
        ids: The sampled ids, verbatim; with ``finish == "stop"`` the stop id is the last one.
        logprobs: One natural logarithm per id, in the same order.
        finish: Why sampling ended.
    """

    ids: tuple[int, ...]
    logprobs: tuple[float, ...]
    finish: Finish


class TokenEngine(Protocol):
    """Continues token ids."""

    async def generate(
        self,
        ids: Sequence[int],
        *,
        max_new_tokens: int,
        temperature: float,
        stop_ids: Collection[int],
        seed: int,
    ) -> Generated:
        """Sample up to ``max_new_tokens`` ids after ``ids``.

        Args:
            ids: The whole context so far; at least one id.
            max_new_tokens: Upper limit of sampled ids, stop id included; at least 1.
            temperature: 0 for greedy decoding.
            stop_ids: Sampling ends after any of these; nothing else ends it, not even the model's own
                end-of-text id.
            seed: Start of this call's own random stream.

        Raises:
            EngineError: No tokens came back; a subclass and the message say why and what to do.
        """
        ...
