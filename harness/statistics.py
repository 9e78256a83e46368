"""What a run is worth: means, pass@k, pass^k, their uncertainty, and whether one run beats another.

Input is a list of scored episodes (statuses ``done`` and ``failed``); what was ``invalid`` or ``infra`` is
counted elsewhere and never enters here.

**Environments are the unit.** Episodes of one environment share its difficulty, so ten episodes of one task
are not ten observations. Every statistic is first computed within each environment and then averaged over
environments, each counting once, however many of its episodes were scored. Intervals look only at how these
values differ between environments:

- *t interval*: mean +/- t(G-1) * s / sqrt(G), for G environments whose values have the sample deviation s.
  With as many episodes in each environment this is exactly the cluster-robust interval of the mean over
  episodes, with the G/(G-1) correction and G-1 degrees of freedom. Sources: Cameron and Miller, "A
  Practitioner's Guide to Cluster-Robust Inference", J. Human Resources 50(2), 2015; Miller, "Adding Error
  Bars to Evals", arXiv:2411.00640, 2024.
- *percentile bootstrap*: environments drawn with replacement, whole; the middle of the resampled means.
  Source: Efron and Tibshirani, "An Introduction to the Bootstrap", 1993, chapter 13. It is honest about
  bounds (never outside the range of the values) and optimistic below some twenty environments.

With one environment nothing is known about the spread between environments, so intervals are None, never
[v, v]. Where all environments agree, both intervals have no width: the sample shows no spread, which does not
prove that there is none. A t interval is not cut to [0, 1]; where it reaches beyond, there are too few
environments for it.

Results depend neither on the order of the episodes nor on anything global: the generator is seeded by the
caller.
"""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass


class TooFewEpisodesError(ValueError):
    """An estimate over k episodes was asked for where fewer than k were played."""


@dataclass(frozen=True, slots=True)
class ScoredEpisode:
    """All that statistics need of an episode."""

    environment_id: str
    score: float
    passed: bool


@dataclass(frozen=True, slots=True)
class Method:
    """How intervals are made."""

    confidence: float = 0.95
    resamples: int = 2_000
    """Of the bootstrap; its cost is this number times the number of environments."""
    seed: int = 0

    def __post_init__(self) -> None:
        if not 0 < self.confidence < 1:
            raise ValueError(f"confidence must lie between 0 and 1, such as 0.95; got {self.confidence}")
        if self.resamples < 1:
            raise ValueError(f"resamples must be at least 1; got {self.resamples}")


@dataclass(frozen=True, slots=True)
class Interval:
    """A confidence interval, both ends included."""

    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Estimate:
    """An average over environments and how far to trust it."""

    value: float | None
    """None if no environment could be counted."""
    standard_error: float | None
    """s / sqrt(G); None with fewer than two environments, as both intervals."""
    t_interval: Interval | None
    bootstrap: Interval | None
    environments: int
    """How many were averaged (G)."""
    left_out: int = 0
    """Environments with too few episodes for this k; ``value`` speaks of the others only."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """A second run minus a first one, over the environments that both have scored."""

    difference: Estimate
    """Of the mean scores, second minus first; ``left_out`` counts environments that only one run has."""
    better: int
    """Environments in which the second run scored higher."""
    worse: int
    equal: int


DEFAULT = Method()


def mean(episodes: Iterable[ScoredEpisode], method: Method = DEFAULT) -> Estimate:
    """The mean score."""
    return _estimate([_mean_score(group) for group in _by_environment(episodes).values()], method)


def pass_at_k(episodes: Iterable[ScoredEpisode], k: int, method: Method = DEFAULT) -> Estimate:
    """pass@k: the chance that at least one of k episodes passes, averaged over environments.

    Environments with fewer than k scored episodes are left out and counted.

    Raises:
        ValueError: If k is below 1.
    """
    return _pass_estimate(episodes, k, any_of_k, method)


def pass_hat_k(episodes: Iterable[ScoredEpisode], k: int, method: Method = DEFAULT) -> Estimate:
    """pass^k: the chance that all of k episodes pass, averaged over environments.

    Environments with fewer than k scored episodes are left out and counted.

    Raises:
        ValueError: If k is below 1.
    """
    return _pass_estimate(episodes, k, all_of_k, method)


def any_of_k(n: int, c: int, k: int) -> float:
    """Unbiased pass@k of one environment: 1 - C(n-c, k) / C(n, k).

    Source: Chen et al., "Evaluating Large Language Models Trained on Code", arXiv:2107.03374, 2021, equation
    1.

    Args:
        n: Episodes played.
        c: Episodes passed.
        k: Episodes allowed.

    Raises:
        TooFewEpisodesError: If n < k.
        ValueError: If k < 1, or c is not between 0 and n.
    """
    _check_counts(n, c, k)
    return 1 - math.comb(n - c, k) / math.comb(n, k)


def all_of_k(n: int, c: int, k: int) -> float:
    """Unbiased pass^k of one environment: C(c, k) / C(n, k).

    Source: Yao et al., "tau-bench: A Benchmark for Tool-Agent-User Interaction in Real-World Domains",
    arXiv:2406.12045, 2024.

    Args:
        n: Episodes played.
        c: Episodes passed.
        k: Episodes that must all pass.

    Raises:
        TooFewEpisodesError: If n < k.
        ValueError: If k < 1, or c is not between 0 and n.
    """
    _check_counts(n, c, k)
    return math.comb(c, k) / math.comb(n, k)


def compare(first: Iterable[ScoredEpisode], second: Iterable[ScoredEpisode], method: Method = DEFAULT) -> Comparison:
    """Compare two runs pairwise by environment, which removes the spread that comes from difficulty.

    The interval is that of the mean of the differences (the paired t interval). Source: Miller,
    arXiv:2411.00640.
    """
    before, after = _by_environment(first), _by_environment(second)
    common = [name for name in before if name in after]
    differences = [_mean_score(after[name]) - _mean_score(before[name]) for name in common]
    return Comparison(
        difference=_estimate(differences, method, left_out=len(before.keys() ^ after.keys())),
        better=sum(difference > 0 for difference in differences),
        worse=sum(difference < 0 for difference in differences),
        equal=sum(difference == 0 for difference in differences),
    )


def t_quantile(p: float, df: float) -> float:
    """The value below which Student's t with ``df`` degrees of freedom falls with probability ``p``.

    The tail is P(|T| > t) = I_x(df/2, 1/2) with x = df / (df + t^2), the regularized incomplete beta function
    (Abramowitz and Stegun, 26.5.27); it is inverted by bisection down to the spacing of floats.

    Raises:
        ValueError: If p is not between 0 and 1, or df is not positive.
    """
    if not 0 < p < 1 or not df > 0:
        raise ValueError(f"expected 0 < p < 1 and df > 0; got p={p}, df={df}")
    if p == 0.5:
        return 0.0
    tail = 2 * min(p, 1 - p)
    low, high = 0.0, 1.0
    while _two_sided_tail(high, df) > tail:
        low, high = high, high * 2
    while low < (middle := (low + high) / 2) < high:
        low, high = (middle, high) if _two_sided_tail(middle, df) > tail else (low, middle)
    return math.copysign(high, p - 0.5)


def _by_environment(episodes: Iterable[ScoredEpisode]) -> dict[str, list[ScoredEpisode]]:
    """Group by environment, in the order of ids: results must not depend on which episode ended first."""
    groups: dict[str, list[ScoredEpisode]] = {}
    for episode in episodes:
        groups.setdefault(episode.environment_id, []).append(episode)
    return dict(sorted(groups.items()))


def _mean_score(group: Sequence[ScoredEpisode]) -> float:
    return statistics.fmean(episode.score for episode in group)


def _pass_estimate(
    episodes: Iterable[ScoredEpisode], k: int, formula: Callable[[int, int, int], float], method: Method
) -> Estimate:
    if k < 1:
        raise ValueError(f"k must be at least 1; got {k}")
    groups: Mapping[str, list[ScoredEpisode]] = _by_environment(episodes)
    counted = [group for group in groups.values() if len(group) >= k]
    values = [formula(len(group), sum(episode.passed for episode in group), k) for group in counted]
    return _estimate(values, method, left_out=len(groups) - len(counted))


def _check_counts(n: int, c: int, k: int) -> None:
    if k < 1 or not 0 <= c <= n:
        raise ValueError(f"expected k >= 1 and 0 <= c <= n; got n={n}, c={c}, k={k}")
    if n < k:
        raise TooFewEpisodesError(f"an estimate over k={k} episodes needs at least {k} of them; got {n}")


def _estimate(values: Sequence[float], method: Method, left_out: int = 0) -> Estimate:
    """Average one value per environment."""
    count = len(values)
    value = statistics.fmean(values) if values else None
    if value is None or count < 2:
        return Estimate(value, None, None, None, count, left_out)
    error = statistics.stdev(values, value) / math.sqrt(count)
    reach = t_quantile((1 + method.confidence) / 2, count - 1) * error
    t_interval = Interval(value - reach, value + reach)
    return Estimate(value, error, t_interval, _bootstrap(values, method), count, left_out)


def _bootstrap(values: Sequence[float], method: Method) -> Interval:
    generator = random.Random(method.seed)  # noqa: S311 - resampling, not secrets
    means = sorted(statistics.fmean(generator.choices(values, k=len(values))) for _ in range(method.resamples))
    return Interval(
        _sorted_quantile(means, (1 - method.confidence) / 2),
        _sorted_quantile(means, (1 + method.confidence) / 2),
    )


def _sorted_quantile(ordered: Sequence[float], p: float) -> float:
    """Linear between order statistics (type 7 of Hyndman and Fan, 1996)."""
    position = p * (len(ordered) - 1)
    below = math.floor(position)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (position - below)


def _two_sided_tail(t: float, df: float) -> float:
    square = t * t
    return _incomplete_beta(df / 2, 0.5, df / (df + square), square / (df + square))


def _incomplete_beta(a: float, b: float, x: float, y: float) -> float:
    """I_x(a, b), with y = 1 - x given apart because the subtraction would lose digits when x is near 1."""
    if x <= 0 or y <= 0:
        return 0.0 if x <= 0 else 1.0
    if x > (a + 1) / (a + b + 2):
        return 1 - _incomplete_beta(b, a, y, x)
    log_front = a * math.log(x) + b * math.log(y) + math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b)
    return math.exp(log_front) * _beta_fraction(a, b, x) / a


def _beta_fraction(a: float, b: float, x: float) -> float:
    """The continued fraction of DLMF 8.17.22 by Lentz's method; converges in about sqrt(max(a, b)) steps."""
    tiny = 1e-300
    fraction, c, d = 1.0, 1.0, 0.0
    for step in range(1, 100_000):
        m = step // 2
        if step % 2:
            term = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        else:
            term = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        d = 1 / ((1 + term * d) or tiny)
        c = (1 + term / c) or tiny
        fraction *= c * d
        if abs(c * d - 1) < 1e-15:
            return 1 / fraction
    raise ArithmeticError(f"the incomplete beta function did not converge for a={a}, b={b}, x={x}")
