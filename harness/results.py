"""What a run came to, as tables for the terminal and as JSON.

``tabulate`` counts and estimates (``harness.statistics``: environments are the unit, intervals are
clustered by them), ``table`` shows that in the terminal within 100 columns, ``as_json`` for programs.
Episodes that ended ``invalid`` or ``infra`` are never scored, and always counted next to those that are.

Not promised: that two agents can be compared by looking at two intervals; ``harness.statistics.compare``
does that, in pairs.
"""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, TypeVar

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from harness.rundir import Summary
from harness.statistics import DEFAULT, Estimate, Method, ScoredEpisode, mean, pass_at_k, pass_hat_k

K = TypeVar("K", bound=Hashable)

SCHEMA = "coworkenv/results/1"
STATUSES = ("done", "failed", "invalid", "infra")
SHOWN = Method(resamples=1)
"""Tables show t intervals; resampling thousands of environments for nothing would take seconds."""
_COLUMNS = 5
"""Agents side by side in one table of families."""


@dataclass(frozen=True, slots=True)
class Effort:
    """What an episode took, on average over all episodes of an agent."""

    calls: float
    refused: float
    steps: float
    prompt_tokens: float
    completion_tokens: float
    cost: float
    """US dollars."""
    wall_seconds: float


@dataclass(frozen=True, slots=True)
class Cell:
    """The episodes of one agent in one family at one level."""

    family: str
    level: int | None
    agent: str
    scored: int
    score: float | None
    """Mean over environments; None when nothing was scored."""
    pass_1: float | None


@dataclass(frozen=True, slots=True)
class AgentResult:
    """What one agent came to."""

    agent: str
    episodes: int
    environments: int
    statuses: dict[str, int]
    """Number of episodes by status."""
    truncated: int
    score: Estimate
    pass_at: dict[int, Estimate]
    """pass@k by k."""
    pass_hat: dict[int, Estimate]
    """pass^k by k."""
    effort: Effort
    total_cost: float

    @property
    def scored(self) -> int:
        """Number of scored episodes."""
        return self.statuses["done"] + self.statuses["failed"]

    def share(self, status: str) -> float:
        """Share of episodes that ended with ``status``."""
        return self.statuses[status] / self.episodes


@dataclass(frozen=True, slots=True)
class Results:
    """What a run came to."""

    agents: tuple[AgentResult, ...]
    """Best first."""
    cells: tuple[Cell, ...]
    """By family, level and agent."""
    ks: tuple[int, ...]
    method: Method


def tabulate(summaries: Iterable[Summary], *, ks: Sequence[int] | None = None, method: Method = DEFAULT) -> Results:
    """Count and estimate.

    Args:
        summaries: Of any number of agents.
        ks: For pass@k and pass^k; by default 1 and the most episodes that an agent has played in one
            environment.
        method: How intervals are made.

    Raises:
        ValueError: A k is below 1.
    """
    episodes = sorted(summaries, key=lambda summary: (summary.environment, summary.agent, summary.trial))
    by_agent = _grouped(episodes, lambda summary: summary.agent)
    if ks is None:
        ks = (1, max(Counter((s.environment, s.agent) for s in episodes).values(), default=1))
    chosen = tuple(sorted(set(ks)))
    agents = [_agent_result(name, group, chosen, method) for name, group in by_agent.items()]
    agents.sort(key=lambda one: (-(one.score.value if one.score.value is not None else -1.0), one.agent))
    cells = _grouped(
        episodes,
        lambda summary: (summary.family, -1 if summary.level is None else summary.level, summary.agent),
    )
    return Results(tuple(agents), tuple(_cell(group) for _, group in sorted(cells.items())), chosen, method)


def table(summaries: Iterable[Summary], *, ks: Sequence[int] | None = None, method: Method = SHOWN) -> RenderableType:
    """The tables of a run, for a terminal of at least 100 columns."""
    results = tabulate(summaries, ks=ks, method=method)
    tables = [_score_table(results), *_family_tables(results), _effort_table(results)]
    return Group(*(part for one in tables for part in (one, "")))


def as_json(
    summaries: Iterable[Summary], *, ks: Sequence[int] | None = None, method: Method = DEFAULT
) -> dict[str, Any]:
    """Everything that ``tabulate`` found, as plain JSON."""
    results = tabulate(summaries, ks=ks, method=method)
    return {"schema": SCHEMA, **asdict(results)}


def interval_text(estimate: Estimate) -> str:
    """An estimate with its interval: ``0.84 ±0.06``; a dash where nothing was scored."""
    if estimate.value is None:
        return "-"
    if estimate.t_interval is None:
        return f"{estimate.value:.2f}"
    return f"{estimate.value:.2f} ±{estimate.t_interval.high - estimate.value:.2f}"


def level_text(level: int | None) -> str:
    """A level, or a dash for environments without one."""
    return "-" if level is None else str(level)


def _agent_result(name: str, group: Sequence[Summary], ks: Sequence[int], method: Method) -> AgentResult:
    scored = _scored(group)
    counts = Counter(summary.status for summary in group)
    return AgentResult(
        agent=name,
        episodes=len(group),
        environments=len({summary.environment for summary in group}),
        statuses={status: counts[status] for status in STATUSES},
        truncated=sum(summary.truncated for summary in group),
        score=mean(scored, method),
        pass_at={k: pass_at_k(scored, k, method) for k in ks},
        pass_hat={k: pass_hat_k(scored, k, method) for k in ks},
        effort=Effort(
            calls=statistics.fmean(summary.calls for summary in group),
            refused=statistics.fmean(summary.refused for summary in group),
            steps=statistics.fmean(summary.steps for summary in group),
            prompt_tokens=statistics.fmean(summary.prompt_tokens for summary in group),
            completion_tokens=statistics.fmean(summary.completion_tokens for summary in group),
            cost=statistics.fmean(summary.cost for summary in group),
            wall_seconds=statistics.fmean(summary.wall_seconds for summary in group),
        ),
        total_cost=sum(summary.cost for summary in group),
    )


def _cell(group: Sequence[Summary]) -> Cell:
    scored = _scored(group)
    first = group[0]
    return Cell(
        family=first.family,
        level=first.level,
        agent=first.agent,
        scored=len(scored),
        score=mean(scored, SHOWN).value,
        pass_1=pass_at_k(scored, 1, SHOWN).value,
    )


def _scored(group: Iterable[Summary]) -> list[ScoredEpisode]:
    return [
        ScoredEpisode(summary.environment, summary.score.total, summary.score.passed)
        for summary in group
        if summary.scored and summary.score is not None
    ]


def _grouped(episodes: Iterable[Summary], key: Callable[[Summary], K]) -> dict[K, list[Summary]]:
    groups: dict[K, list[Summary]] = {}
    for episode in episodes:
        groups.setdefault(key(episode), []).append(episode)
    return groups


def _score_table(results: Results) -> Table:
    confidence = f"{results.method.confidence:.0%}"
    most = max(results.ks)
    shown = _table(f"Scores (± {confidence} interval, clustered by environment)")
    shown.add_column("agent", overflow="fold", max_width=24)
    for name in ("episodes", "scored", "invalid", "infra", "mean score", "pass@1"):
        shown.add_column(name, justify="right", no_wrap=True)
    if most > 1:
        shown.add_column(f"pass@{most}", justify="right", no_wrap=True)
        shown.add_column(f"pass^{most}", justify="right", no_wrap=True)
    for one in results.agents:
        row: list[str | Text] = [
            Text(one.agent, style="bold"),
            str(one.episodes),
            str(one.scored),
            _share_text(one.share("invalid"), "yellow"),
            _share_text(one.share("infra"), "yellow"),
            Text(interval_text(one.score), style=_colour(one.score.value)),
            interval_text(one.pass_at[1]) if 1 in one.pass_at else "-",
        ]
        if most > 1:
            row += [interval_text(one.pass_at[most]), interval_text(one.pass_hat[most])]
        shown.add_row(*row)
    return shown


def _family_tables(results: Results) -> list[Table]:
    """Families down, agents across, a few agents to a table."""
    names = [one.agent for one in results.agents]
    values = {(cell.family, cell.level, cell.agent): cell for cell in results.cells}
    rows = list(dict.fromkeys((cell.family, cell.level) for cell in results.cells))
    tables: list[Table] = []
    for start in range(0, len(names), _COLUMNS):
        some = names[start : start + _COLUMNS]
        shown = _table("Mean score by family and level")
        shown.add_column("family", overflow="fold", max_width=24)
        shown.add_column("level", justify="right")
        for name in some:
            shown.add_column(Text(name), justify="right", overflow="fold", max_width=14)
        last = ""
        for family, level in rows:
            if last and family != last:
                shown.add_section()
            cells = [values.get((family, level, name)) for name in some]
            shown.add_row(
                Text("" if family == last else family), level_text(level), *(_cell_text(cell) for cell in cells)
            )
            last = family
        tables.append(shown)
    return tables


def _effort_table(results: Results) -> Table:
    shown = _table("Effort (mean per episode)")
    shown.add_column("agent", overflow="fold", max_width=24)
    for name in ("messages", "calls", "refused", "tokens in", "out", "cost $", "total $", "wall s", "cut"):
        shown.add_column(name, justify="right", no_wrap=True)
    for one in results.agents:
        effort = one.effort
        shown.add_row(
            Text(one.agent, style="bold"),
            f"{effort.steps:.1f}",
            f"{effort.calls:.1f}",
            f"{effort.refused:.1f}",
            f"{effort.prompt_tokens:,.0f}",
            f"{effort.completion_tokens:,.0f}",
            f"{effort.cost:.4f}",
            f"{one.total_cost:.2f}",
            f"{effort.wall_seconds:.2f}",
            _share_text(one.truncated / one.episodes, "yellow"),
        )
    return shown


def _table(title: str) -> Table:
    return Table(
        title=title,
        title_justify="left",
        title_style="bold",
        header_style="dim",
        box=None,
        pad_edge=False,
        padding=(0, 2, 0, 0),
    )


def _cell_text(cell: Cell | None) -> Text:
    if cell is None or cell.score is None:
        return Text("-", style="dim")
    return Text(f"{cell.score:.2f}", style=_colour(cell.score))


def _share_text(share: float, style: str) -> Text:
    return Text(f"{share:.0%}", style=style if share else "dim")


def _colour(value: float | None) -> str:
    if value is None:
        return "dim"
    return "green" if value >= 0.8 else "yellow" if value >= 0.4 else "red"
