"""Spans of time: half-open pairs of instants, and the set operations that availability is made of.

Lists of spans are in order and do not touch unless said otherwise.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

Span = tuple[int, int]


def merged(spans: Iterable[Span]) -> list[Span]:
    """Join spans, in any order and overlapping, into few."""
    result: list[Span] = []
    for begin, end in sorted(spans):
        if result and begin <= result[-1][1]:
            result[-1] = (result[-1][0], max(end, result[-1][1]))
        else:
            result.append((begin, end))
    return result


def common(left: Sequence[Span], right: Sequence[Span]) -> list[Span]:
    """What two lists of spans share."""
    result: list[Span] = []
    i = j = 0
    while i < len(left) and j < len(right):
        begin, end = max(left[i][0], right[j][0]), min(left[i][1], right[j][1])
        if begin < end:
            result.append((begin, end))
        if left[i][1] <= right[j][1]:
            i += 1
        else:
            j += 1
    return result


def without(spans: Sequence[Span], taken: Sequence[Span]) -> list[Span]:
    """What is left of spans when others are taken out."""
    result: list[Span] = []
    j = 0
    for begin, end in spans:
        rest = begin
        while j < len(taken) and taken[j][1] <= rest:
            j += 1
        k = j
        while k < len(taken) and taken[k][0] < end:
            if taken[k][0] > rest:
                result.append((rest, taken[k][0]))
            rest = max(rest, taken[k][1])
            k += 1
        if rest < end:
            result.append((rest, end))
    return result
