"""Key and value memory for many conversations that grow at different speeds.

A ``SlotCache`` is a transformers ``Cache`` with one *slot* per conversation. One forward pass does either of
two things, told beforehand through ``Window``: it *extends* one slot by several tokens, or it *steps* the
first ``n`` slots by one token each, every one at its own position. Stepping reads a plain view and gathers
nothing: that is why busy slots are kept at the front with ``swap``.

Needs full attention in every layer: a sliding window or a recurrent state has other memory.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from transformers.cache_utils import Cache, CacheLayerMixin

_GROWTH = 256
"""Slots grow by this many tokens, so that short conversations stay small and growing stays rare."""


@dataclass(slots=True)
class Window:
    """What the next forward pass writes and reads; shared by all layers of one cache.

    Attributes:
        slots: How many conversations there is memory for.
        row: The slot to extend, or None to step the first slots.
        start: First position written when extending.
        end: One past the last position read.
        positions: Where each of the first slots writes when stepping, shape (n,).
    """

    slots: int
    row: int | None = None
    start: int = 0
    end: int = 0
    positions: torch.Tensor = field(default_factory=lambda: torch.empty(0, dtype=torch.long))


class _SlotLayer(CacheLayerMixin):
    """Keys and values of one layer, shape (slots, key-value heads, tokens, head dimension)."""

    is_sliding = False

    def __init__(self, window: Window) -> None:
        super().__init__()  # pyright: ignore[reportUnknownMemberType] - **kwargs without a type there
        self._window = window
        self.store: tuple[torch.Tensor, torch.Tensor] | None = None

    def lazy_initialization(self, key_states: torch.Tensor, value_states: torch.Tensor) -> None:
        self.store = (self._zeros(key_states, 0), self._zeros(value_states, 0))
        self.is_initialized = True

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: object, **kwargs: object
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Write keys and values, each (rows, heads, new tokens, head dimension); return all to attend to."""
        if self.store is None:
            self.lazy_initialization(key_states, value_states)
        keys, values = self._grown()
        window = self._window
        if window.row is not None:
            at = slice(window.start, window.end)
            keys[window.row, :, at] = key_states[0]
            values[window.row, :, at] = value_states[0]
            rows = slice(window.row, window.row + 1)
        else:
            count = key_states.shape[0]
            index = torch.arange(count, device=keys.device)
            keys[index, :, window.positions] = key_states[:, :, 0]
            values[index, :, window.positions] = value_states[:, :, 0]
            rows = slice(0, count)
        return keys[rows, :, : window.end], values[rows, :, : window.end]

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        return self._window.end, 0

    def get_seq_length(self) -> int:
        return self._window.start

    def get_max_length(self) -> int:
        return -1

    def _zeros(self, like: torch.Tensor, tokens: int) -> torch.Tensor:
        # Zeros, not empty memory: a masked key has weight 0, and 0 times a stray NaN would be NaN.
        return like.new_zeros((self._window.slots, like.shape[1], tokens, like.shape[-1]))

    def _grown(self) -> tuple[torch.Tensor, torch.Tensor]:
        assert self.store is not None  # noqa: S101 - update() initializes first
        keys, values = self.store
        missing = self._window.end - keys.shape[2]
        if missing > 0:
            more = -(-missing // _GROWTH) * _GROWTH
            keys = torch.cat([keys, self._zeros(keys, more)], dim=2)
            values = torch.cat([values, self._zeros(values, more)], dim=2)
            self.store = (keys, values)
        return keys, values


class SlotCache(Cache):
    """One slot of key and value memory per conversation.

    Args:
        layers: Decoder layers of the model.
        slots: Conversations to hold.
    """

    def __init__(self, layers: int, slots: int) -> None:
        self.window = Window(slots)
        self._slot_layers = [_SlotLayer(self.window) for _ in range(layers)]
        super().__init__(layers=list(self._slot_layers))

    def extend(self, row: int, start: int, count: int) -> None:
        """Let the next forward pass write ``count`` tokens of slot ``row`` from position ``start`` on."""
        self.window.row, self.window.start, self.window.end = row, start, start + count

    def step(self, positions: torch.Tensor) -> None:
        """Let the next pass write one token in each of the first slots, at ``positions``, shape (n,)."""
        self.window.row, self.window.positions = None, positions
        self.window.start, self.window.end = 0, int(positions.max()) + 1

    def swap(self, one: int, other: int) -> None:
        """Exchange two slots."""
        for layer in self._slot_layers:
            for tensor in layer.store or ():
                tensor[[one, other]] = tensor[[other, one]]

    def copy(self, source: int, target: int, tokens: int) -> None:
        """Copy the first ``tokens`` positions of slot ``source`` to slot ``target``."""
        for layer in self._slot_layers:
            for tensor in layer.store or ():
                tensor[target, :, :tokens] = tensor[source, :, :tokens]
