from __future__ import annotations

import itertools
import math
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.statistics import (
    Interval,
    Method,
    ScoredEpisode,
    TooFewEpisodesError,
    all_of_k,
    any_of_k,
    compare,
    mean,
    pass_at_k,
    pass_hat_k,
    t_quantile,
)

FAST = Method(resamples=200)


def episodes(**scores: list[float]) -> list[ScoredEpisode]:
    return [ScoredEpisode(name, score, score >= 1) for name, group in scores.items() for score in group]


runs = st.lists(
    st.builds(ScoredEpisode, st.sampled_from("abcdef"), st.sampled_from([0.0, 0.25, 0.5, 1.0]), st.booleans()),
    max_size=30,
)


@pytest.mark.parametrize(
    ("p", "df", "value"),
    [
        (0.975, 1, 12.7062),
        (0.975, 2, 4.30265),
        (0.975, 3, 3.18245),
        (0.975, 5, 2.57058),
        (0.975, 10, 2.22814),
        (0.975, 30, 2.04227),
        (0.975, 120, 1.97993),
        (0.975, 1e7, 1.959964),
        (0.95, 4, 2.13185),
        (0.95, 15, 1.75305),
        (0.995, 1, 63.6567),
        (0.995, 8, 3.35539),
        (0.995, 60, 2.66028),
        (0.9995, 6, 5.95882),
        (0.9995, 1, 636.619),
        (0.75, 9, 0.702722),
        (0.9, 20, 1.32534),
        (0.025, 10, -2.22814),
    ],
)
def test_t_quantiles_agree_with_the_printed_tables(p: float, df: float, value: float) -> None:
    assert t_quantile(p, df) == pytest.approx(value, rel=5e-6)


@given(st.floats(1e-4, 1 - 1e-4))
def test_t_quantiles_agree_with_the_closed_forms_of_one_and_two_degrees(p: float) -> None:
    assert t_quantile(p, 1) == pytest.approx(math.tan(math.pi * (p - 0.5)), rel=1e-9, abs=1e-12)
    assert t_quantile(p, 2) == pytest.approx((2 * p - 1) * math.sqrt(2 / (4 * p * (1 - p))), rel=1e-9, abs=1e-12)


@given(st.floats(0.01, 0.99))
def test_with_many_degrees_of_freedom_t_is_normal(p: float) -> None:
    assert t_quantile(p, 1e8) == pytest.approx(statistics.NormalDist().inv_cdf(p), rel=1e-6, abs=1e-9)


@pytest.mark.parametrize(("p", "df"), [(0, 3), (1, 3), (0.5, 0), (float("nan"), 3)])
def test_a_quantile_that_does_not_exist_is_refused(p: float, df: float) -> None:
    with pytest.raises(ValueError, match="expected 0 < p < 1 and df > 0"):
        t_quantile(p, df)


@given(st.integers(1, 8), st.data())
def test_pass_estimates_average_over_every_choice_of_k_episodes(n: int, data: st.DataObject) -> None:
    outcomes = data.draw(st.lists(st.booleans(), min_size=n, max_size=n))
    k = data.draw(st.integers(1, n))
    choices = list(itertools.combinations(outcomes, k))
    assert any_of_k(n, sum(outcomes), k) == pytest.approx(statistics.fmean(any(choice) for choice in choices))
    assert all_of_k(n, sum(outcomes), k) == pytest.approx(statistics.fmean(all(choice) for choice in choices))


def test_too_few_episodes_are_an_error_of_their_own() -> None:
    with pytest.raises(TooFewEpisodesError, match="k=4 episodes needs at least 4 of them; got 3"):
        any_of_k(3, 1, 4)
    with pytest.raises(TooFewEpisodesError):
        all_of_k(3, 3, 4)


@pytest.mark.parametrize(("n", "c", "k"), [(3, 4, 1), (3, -1, 1), (3, 1, 0)])
def test_impossible_counts_are_refused(n: int, c: int, k: int) -> None:
    with pytest.raises(ValueError, match="expected k >= 1 and 0 <= c <= n"):
        all_of_k(n, c, k)


def test_every_environment_counts_once_however_often_it_was_played() -> None:
    estimate = mean(episodes(a=[1.0] * 9, b=[0.0]))
    assert estimate.value == 0.5
    assert estimate.environments == 2


def test_pass_estimates_are_made_per_environment_and_then_averaged() -> None:
    run = episodes(a=[1, 1, 0, 0], b=[1, 1, 1, 1])
    assert pass_at_k(run, 2).value == pytest.approx((5 / 6 + 1) / 2)
    assert pass_hat_k(run, 2).value == pytest.approx((1 / 6 + 1) / 2)


def test_environments_with_too_few_episodes_are_left_out_and_counted() -> None:
    estimate = pass_hat_k(episodes(a=[1, 1], b=[0]), 2)
    assert (estimate.value, estimate.environments, estimate.left_out) == (1.0, 1, 1)
    assert pass_at_k(episodes(a=[1]), 2).value is None


def test_the_t_interval_is_the_cluster_robust_one_for_equal_groups() -> None:
    groups = {"a": [0.0, 0.5], "b": [1.0, 1.0], "c": [0.25, 0.0], "d": [0.5, 1.0]}
    estimate = mean(episodes(**groups))
    overall = statistics.fmean(score for group in groups.values() for score in group)
    sums = [sum(score - overall for score in group) for group in groups.values()]
    robust = math.sqrt(4 / 3 * sum(total**2 for total in sums)) / 8
    assert estimate.standard_error == pytest.approx(robust)
    assert estimate.t_interval is not None
    assert estimate.t_interval.high == pytest.approx(overall + 3.18245 * robust, rel=1e-5)


def test_playing_the_same_environments_more_often_does_not_shrink_the_interval() -> None:
    once, often = episodes(a=[0.0], b=[1.0], c=[0.5]), episodes(a=[0.0] * 50, b=[1.0] * 50, c=[0.5] * 50)
    assert mean(once, FAST) == mean(often, FAST)


def test_one_environment_gives_a_value_and_no_interval() -> None:
    estimate = mean(episodes(a=[0.0, 1.0, 1.0]))
    assert estimate.value == pytest.approx(2 / 3)
    assert (estimate.standard_error, estimate.t_interval, estimate.bootstrap) == (None, None, None)


def test_no_episodes_give_no_value() -> None:
    estimate = mean([])
    assert (estimate.value, estimate.environments) == (None, 0)
    assert compare([], []).difference.value is None


def test_equal_scores_everywhere_give_intervals_without_width() -> None:
    estimate = mean(episodes(a=[0.3], b=[0.3], c=[0.3]), FAST)
    assert estimate.t_interval == estimate.bootstrap == Interval(0.3, 0.3)


@given(runs, st.randoms(use_true_random=False))
def test_results_do_not_depend_on_which_episode_ended_first(run: list[ScoredEpisode], random: object) -> None:
    shuffled = list(run)
    random.shuffle(shuffled)
    assert mean(run, FAST) == mean(shuffled, FAST)
    assert pass_hat_k(run, 2, FAST) == pass_hat_k(shuffled, 2, FAST)


@given(runs)
def test_intervals_hold_the_value_and_the_bootstrap_stays_within_the_scores(run: list[ScoredEpisode]) -> None:
    estimate = mean(run, FAST)
    if estimate.value is not None and estimate.t_interval and estimate.bootstrap:
        assert estimate.t_interval.low <= estimate.value <= estimate.t_interval.high
        assert 0 <= estimate.bootstrap.low <= estimate.bootstrap.high <= 1


def test_a_seed_gives_the_same_bootstrap_and_another_seed_another() -> None:
    run = episodes(**{f"e{n}": [n % 7 / 7, n % 3 / 3] for n in range(30)})
    assert mean(run, Method(seed=1)).bootstrap == mean(run, Method(seed=1)).bootstrap
    assert mean(run, Method(seed=1)).bootstrap != mean(run, Method(seed=2)).bootstrap


def test_both_intervals_agree_when_there_are_many_environments() -> None:
    estimate = mean(episodes(**{f"e{n}": [n % 10 / 10] for n in range(200)}))
    assert estimate.t_interval is not None
    assert estimate.bootstrap is not None
    assert estimate.bootstrap.low == pytest.approx(estimate.t_interval.low, abs=0.005)
    assert estimate.bootstrap.high == pytest.approx(estimate.t_interval.high, abs=0.005)


def test_more_confidence_is_a_wider_interval() -> None:
    run = episodes(a=[0.1], b=[0.5], c=[0.9], d=[0.2])
    narrow, wide = mean(run, Method(confidence=0.8)), mean(run, Method(confidence=0.99))
    assert narrow.t_interval is not None
    assert wide.t_interval is not None
    assert wide.t_interval.low < narrow.t_interval.low
    assert wide.t_interval.high > narrow.t_interval.high


def test_a_small_gain_in_every_environment_shows_in_pairs_though_not_in_the_means() -> None:
    first = {f"e{n}": [n / 20] for n in range(20)}
    second = {name: [score[0] + 0.01 + (0.001 if name == "e3" else 0)] for name, score in first.items()}
    result = compare(episodes(**first), episodes(**second))
    assert result.difference.t_interval is not None
    assert result.difference.t_interval.low > 0
    assert (result.better, result.worse, result.equal) == (20, 0, 0)
    one, other = mean(episodes(**first)).t_interval, mean(episodes(**second)).t_interval
    assert one is not None
    assert other is not None
    assert one.high > other.low


def test_a_comparison_uses_common_environments_only_and_says_how_many_it_lost() -> None:
    result = compare(episodes(a=[0.5], b=[1.0], c=[0.0]), episodes(a=[0.75, 0.25], b=[0.0], d=[1.0]))
    assert result.difference.value == pytest.approx(-0.5)
    assert (result.difference.environments, result.difference.left_out) == (2, 2)
    assert (result.better, result.worse, result.equal) == (0, 1, 1)


@given(runs, runs)
def test_swapping_the_runs_turns_the_difference_round(first: list[ScoredEpisode], second: list[ScoredEpisode]) -> None:
    one, other = compare(first, second, FAST), compare(second, first, FAST)
    assert (one.better, one.worse, one.equal) == (other.worse, other.better, other.equal)
    if one.difference.value is not None and other.difference.value is not None:
        assert one.difference.value == pytest.approx(-other.difference.value)


@pytest.mark.parametrize("wrong", [{"confidence": 1.0}, {"confidence": 95}, {"resamples": 0}])
def test_a_method_that_makes_no_sense_is_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="must"):
        Method(**wrong)


def test_k_must_be_positive() -> None:
    with pytest.raises(ValueError, match="k must be at least 1; got 0"):
        pass_at_k([], 0)
