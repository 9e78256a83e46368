"""The page: which episodes are told in full, the overview, and the file.

Safety stands on three legs, each enough by itself: the template escapes (jinja2's autoescape); data reach
the script as JSON in which ``<``, ``>`` and ``&`` are written as escapes, so that nothing in it can end its
element, and the script puts them on the page as text only; and a content security policy allows exactly one
script and one style, by their hashes, and no request at all.

Not promised: every transcript of a big run. A page holds at most so many, those of failed episodes first,
and says so.
"""

from __future__ import annotations

import base64
import hashlib
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup
from pydantic_core import to_json

from harness.files import write_atomic
from harness.report.story import JsonObject, tell
from harness.results import SHOWN, AgentResult, Results, interval_text, level_text, tabulate
from harness.rundir import Manifest, RunDirectory, Summary
from harness.statistics import Estimate

DATA = Path(__file__).parents[1] / "data"
POLICY = "default-src 'none'; base-uri 'none'; form-action 'none'"
TRANSCRIPTS = 400
BYTES = 16 * 2**20
"""Of all transcripts together; browsers open that in a blink."""


@dataclass(frozen=True, slots=True)
class Written:
    """What was written."""

    path: Path
    episodes: int
    """Listed."""
    transcripts: int
    """Told in full."""


def write_report(directory: Path, path: Path, *, transcripts: int = TRANSCRIPTS) -> Written:
    """Write the report of a run.

    Args:
        directory: The run.
        path: The HTML file; its folder must exist.
        transcripts: How many episodes are told in full at most; all are listed.

    Raises:
        SpecError: The directory is no run, or a file in it is broken.
        StorageError: The report could not be written.
    """
    where = RunDirectory(directory)
    manifest = where.manifest()
    summaries = sorted(where.summaries().values(), key=_list_order)
    stories = _stories(where, manifest, summaries, transcripts)
    write_atomic(path, render("/".join(directory.resolve().parts[-2:]), manifest, summaries, stories))
    return Written(path, len(summaries), len(stories))


def render(name: str, manifest: Manifest, summaries: Sequence[Summary], stories: dict[str, JsonObject]) -> str:
    """The page as text."""
    script = (DATA / "report.js").read_text(encoding="utf-8")
    style = (DATA / "report.css").read_text(encoding="utf-8")
    results = tabulate(summaries, method=SHOWN)
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(DATA),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template("report.html.j2").render(
        name=name,
        policy=f"{POLICY}; script-src '{_hash(script)}'; style-src '{_hash(style)}'",
        script=Markup(script),  # noqa: S704 - our own file
        style=Markup(style),  # noqa: S704 - our own file
        data=embed({"episodes": [_row(summary) for summary in summaries], "stories": stories}),
        manifest=manifest,
        episodes=len(summaries),
        statuses=Counter(summary.status for summary in summaries),
        told=len(stories),
        most=max(results.ks),
        agents=[_agent_row(one) for one in results.agents],
        confidence=f"{results.method.confidence:.0%}",
        families=_families(results),
    )


def choose(summaries: Iterable[Summary]) -> list[Summary]:
    """Episodes in the order in which their transcripts are worth showing.

    Failed ones first, then what was not scored, then passed ones; agents take turns, so that one that
    always fails does not take all the room.
    """
    turns: Counter[tuple[int, str]] = Counter()
    ranked: list[tuple[int, int, str, Summary]] = []
    for summary in sorted(summaries, key=lambda one: one.key):
        rank = 2 if summary.passed else 0 if summary.scored else 1
        ranked.append((rank, turns[rank, summary.agent], summary.key, summary))
        turns[rank, summary.agent] += 1
    return [summary for *_, summary in sorted(ranked, key=lambda entry: entry[:3])]


def embed(data: JsonObject) -> Markup:
    """JSON that can stand inside a script element, whatever its strings hold."""
    text = to_json(data).decode()
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Markup(text)  # noqa: S704 - nothing in it can end the element any more


def _stories(
    where: RunDirectory, manifest: Manifest, summaries: Sequence[Summary], limit: int
) -> dict[str, JsonObject]:
    stories: dict[str, JsonObject] = {}
    room = BYTES
    for summary in choose(summaries)[:limit]:
        known = manifest.environments.get(summary.environment)
        story = tell(where.trajectory(summary.key), {} if known is None else known.events)
        room -= len(to_json(story))
        if room < 0 and stories:
            break
        stories[summary.key] = story
    return stories


def _row(summary: Summary) -> JsonObject:
    """What the list of episodes needs."""
    dropped = {"schema_", "digest", "prompt_tokens", "completion_tokens"}
    tokens = [summary.prompt_tokens, summary.completion_tokens]
    return {
        "key": summary.key,
        "passed": summary.passed,
        "tokens": tokens,
        **summary.model_dump(exclude=dropped),
    }


def _list_order(summary: Summary) -> tuple[str, int, str, str, int]:
    return summary.family, summary.level or 0, summary.environment, summary.agent, summary.trial


def _agent_row(one: AgentResult) -> dict[str, Any]:
    most = max(one.pass_at)
    return {
        "result": one,
        "score": interval_text(one.score),
        "bar": _bar(one.score),
        "pass_1": interval_text(one.pass_at[1]),
        "pass_at": interval_text(one.pass_at[most]),
        "pass_hat": interval_text(one.pass_hat[most]),
    }


def _bar(estimate: Estimate) -> dict[str, float] | None:
    """Where to draw a score and its interval, 0 to 100."""
    if estimate.value is None:
        return None
    interval = estimate.t_interval
    low, high = (estimate.value, estimate.value) if interval is None else (interval.low, interval.high)
    return {"value": 100 * estimate.value, "low": 100 * max(0.0, low), "high": 100 * min(1.0, high)}


def _families(results: Results) -> list[dict[str, Any]]:
    """For each family: levels across, agents down."""
    cells = {(cell.family, cell.level, cell.agent): cell.score for cell in results.cells}
    levels: dict[str, list[int | None]] = {}
    for family, level in dict.fromkeys((cell.family, cell.level) for cell in results.cells):
        levels.setdefault(family, []).append(level)
    return [
        {
            "name": family,
            "levels": [level_text(level) for level in some],
            "rows": [
                (one.agent, [_heat(cells.get((family, level, one.agent))) for level in some]) for one in results.agents
            ],
        }
        for family, some in levels.items()
    ]


def _heat(score: float | None) -> tuple[str, str]:
    """A score as text, and its colour from 0 to 10."""
    return ("-", "none") if score is None else (f"{score:.2f}", str(round(10 * score)))


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
