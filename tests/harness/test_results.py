from __future__ import annotations

import json
import random
from typing import Any

import pytest
from rich.console import Console

from harness import results
from harness.rundir import Summary
from harness.trajectory import ScoreRecord


def episode(environment: str, agent: str, trial: int, total: float | None, **changes: Any) -> Summary:
    """A summary; ``total`` None is an episode that ended ``invalid``."""
    score = None
    if total is not None:
        parts = dict.fromkeys(("total", "completion", "constraint", "communication", "robustness", "efficiency"), total)
        score = ScoreRecord(**parts, gate=True, passed=total == 1)
    values: dict[str, Any] = {
        "environment": environment, "digest": "d", "family": environment.split("-", maxsplit=1)[0], "level": 1,
        "agent": agent, "trial": trial, "status": "invalid" if total is None else "done",
        "reason": "user_stop", "truncated": False, "score": score, "missed": [], "steps": 4, "calls": 3,
        "refused": 1, "prompt_tokens": 1000, "completion_tokens": 50, "cost": 0.25, "wall_seconds": 2.0,
    }  # fmt: skip
    return Summary(**(values | changes))


STUDY = [
    *(episode(f"triage-{number}", "good", trial, 1.0) for number in range(4) for trial in range(2)),
    *(episode(f"triage-{number}", "fair", trial, float(trial)) for number in range(4) for trial in range(2)),
    episode("routing-0", "fair", 0, 0.25, family="routing", level=2),
    episode("routing-1", "fair", 0, None, family="routing", level=2),
    episode("routing-2", "fair", 0, None, family="routing", level=2, status="infra"),
]


def text(summaries: list[Summary], width: int = 100, **options: Any) -> str:
    console = Console(width=width, color_system=None)
    with console.capture() as capture:
        console.print(results.table(summaries, **options))
    return capture.get()


def test_agents_are_ranked_and_measured() -> None:
    good, fair = results.tabulate(STUDY).agents
    assert (good.agent, good.score.value, good.pass_hat[2].value) == ("good", 1.0, 1.0)
    assert (fair.episodes, fair.scored, fair.environments) == (11, 9, 7)
    assert fair.score.value == pytest.approx(0.45)
    assert (fair.pass_at[1].value, fair.pass_at[2].value, fair.pass_hat[2].value) == (0.4, 1.0, 0.0)
    assert fair.pass_at[2].left_out == 1  # one trial only
    assert (fair.effort.calls, fair.effort.refused, fair.effort.wall_seconds, fair.total_cost) == (3, 1, 2, 2.75)


def test_what_is_not_scored_is_counted_and_never_scored() -> None:
    fair = results.tabulate(STUDY).agents[1]
    assert fair.statuses == {"done": 9, "failed": 0, "invalid": 1, "infra": 1}
    assert fair.share("invalid") == pytest.approx(1 / 11)
    only = results.tabulate([episode("a", "x", 0, None)])
    assert only.agents[0].score.value is None
    assert only.cells[0].score is None


def test_the_order_of_episodes_does_not_matter() -> None:
    shuffled = list(STUDY)
    random.Random(3).shuffle(shuffled)  # noqa: S311 - an order, not a secret
    assert results.as_json(shuffled) == results.as_json(STUDY)


def test_families_and_levels_are_broken_down_by_agent() -> None:
    cells = {(cell.family, cell.level, cell.agent): (cell.scored, cell.score) for cell in results.tabulate(STUDY).cells}
    assert cells["routing", 2, "fair"] == (1, 0.25)
    assert cells["triage", 1, "good"] == (8, 1.0)
    assert ("routing", 2, "good") not in cells


def test_the_terminal_shows_scores_with_intervals() -> None:
    shown = text(STUDY)
    lines = shown.splitlines()
    assert max(map(len, lines)) <= 100
    heads = next(line.split() for line in lines if line.startswith("agent"))
    assert heads == ["agent", "episodes", "scored", "invalid", "infra", "mean", "score", "pass@1", "pass@2", "pass^2"]
    fair = next(line.split() for line in lines if line.startswith("fair"))
    assert fair[:6] == ["fair", "11", "9", "9%", "9%", "0.45"]
    assert fair[6].startswith("±")
    assert next(line.split() for line in lines if line.startswith("routing")) == ["routing", "2", "-", "0.25"]


def test_many_agents_with_long_names_still_fit_a_terminal() -> None:
    study = [
        episode(f"a-family-with-a-long-name-{n}", f"openai/some-provider/a-rather-long-model-name-{agent}", 0, 1.0)
        for n in range(3)
        for agent in range(12)
    ]
    assert max(map(len, text(study).splitlines())) <= 100
    assert text(study).count("Mean score by family and level") == 3


def test_an_empty_run_is_shown_empty() -> None:
    assert "Scores" in text([])
    assert results.as_json([])["agents"] == ()


def test_ks_can_be_chosen() -> None:
    assert results.tabulate(STUDY, ks=(2,)).agents[0].pass_at.keys() == {2}
    assert "pass^2" in text(STUDY, ks=(2, 1))
    with pytest.raises(ValueError, match="k must be at least 1"):
        results.tabulate(STUDY, ks=(0,))


def test_json_holds_every_estimate_with_its_interval() -> None:
    data = json.loads(json.dumps(results.as_json(STUDY)))
    fair = next(agent for agent in data["agents"] if agent["agent"] == "fair")
    assert data["schema"] == "coworkenv/results/1"
    assert fair["score"]["t_interval"]["low"] < fair["score"]["value"] < fair["score"]["t_interval"]["high"]
    assert fair["pass_hat"]["2"]["value"] == 0.0
