from __future__ import annotations

import base64
import hashlib
import json
import re
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness import runs
from harness.agents.base import Agent
from harness.agents.scripted import ScriptedAgent, noop, oracle
from harness.environment import Environment, Step
from harness.report import write_report
from harness.report.page import choose, embed
from harness.report.story import tell
from harness.rundir import RunDirectory
from servers.errors import SpecError
from tests.harness.mailroom import KLARA, Moody, broken_user, calls, mailroom, provider_down
from tests.harness.test_results import episode

HOSTILE = "</script><script>alert('got you')</script><img src=x onerror=alert(1)>\u2028 & \"'"


@dataclass
class Page(HTMLParser):
    """What a browser would make of a page."""

    scripts: list[tuple[dict[str, str | None], str]] = field(default_factory=list)
    styles: list[str] = field(default_factory=list)
    tags: list[tuple[str, dict[str, str | None]]] = field(default_factory=list)
    text: str = ""

    def __post_init__(self) -> None:
        super().__init__(convert_charrefs=True)

    def __hash__(self) -> int:
        return id(self)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self.text += " "
        if tag == "script":
            self.scripts.append((dict(attrs), ""))
        if tag == "style":
            self.styles.append("")

    def handle_data(self, data: str) -> None:
        if self.lasttag == "script" and self.cdata_elem == "script":
            attributes, text = self.scripts[-1]
            self.scripts[-1] = (attributes, text + data)
        elif self.lasttag == "style" and self.cdata_elem == "style":
            self.styles[-1] += data
        else:
            self.text += data

    @property
    def data(self) -> dict[str, Any]:
        return json.loads(self.scripts[0][1])


def read(path: Path) -> Page:
    page = Page()
    page.feed(path.read_text(encoding="utf-8"))
    return page


def played(directory: Path, agents: list[Agent], environments: list[Environment], **options: Any) -> Path:
    async def main() -> None:
        await runs.run(environments, agents, directory, **options)

    anyio.run(main)
    return directory


def report(directory: Path, **options: Any) -> Page:
    target = directory / "report.html"
    write_report(directory, target, **options)
    return read(target)


# ---------------------------------------------------------------- one file, and safe


def test_a_report_is_one_file_that_asks_for_nothing(tmp_path: Path) -> None:
    page = report(played(tmp_path, [oracle()], [mailroom()]))
    policy = next(
        attrs["content"] or "" for tag, attrs in page.tags if attrs.get("http-equiv") == "Content-Security-Policy"
    )
    assert policy.startswith("default-src 'none';")
    assert not {"src", "href", "action"} & {name for _, attrs in page.tags for name in attrs}
    assert not re.search(r"url\(|@import", page.styles[0])
    assert not re.search(
        r"\b(fetch|XMLHttpRequest|WebSocket|import)\b *\(|innerHTML|insertAdjacent|eval\(", page.scripts[1][1]
    )


def test_its_policy_allows_its_own_script_and_style_and_no_other(tmp_path: Path) -> None:
    page = report(played(tmp_path, [oracle()], [mailroom()]))
    policy = next(
        attrs["content"] or "" for tag, attrs in page.tags if attrs.get("http-equiv") == "Content-Security-Policy"
    )

    def allowed(text: str) -> str:
        return "'sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() + "'"

    assert f"script-src {allowed(page.scripts[1][1])};" in policy
    assert f"style-src {allowed(page.styles[0])}" in policy
    assert "unsafe" not in policy
    assert not [attrs for _, attrs in page.tags if "style" in attrs or any(name.startswith("on") for name in attrs)]


def hostile_environment() -> Environment:
    data = mailroom().dump()
    data["records"]["mail.message"][0]["body"] = HOSTILE
    data["request"] = HOSTILE
    data["family"] = HOSTILE
    data["checks"][0]["about"] = HOSTILE
    return Environment.parse(data)


def test_what_an_agent_or_a_mail_says_is_inert(tmp_path: Path) -> None:
    reads = Step(call="mail_get_message", arguments={"message_id": "0123456789abcdef"})
    writes = Step(call="mail_create_draft", arguments={"to": [KLARA], "subject": HOSTILE, "body": HOSTILE})
    lost = Step(call=HOSTILE, arguments={HOSTILE: HOSTILE})
    agent = ScriptedAgent(HOSTILE, lambda _: [reads, writes, lost, Step(say=HOSTILE)])
    page = report(played(tmp_path, [agent], [hostile_environment()]))
    assert len(page.scripts) == 2
    assert not [tag for tag, _ in page.tags if tag == "img"]
    assert "got you" not in page.scripts[1][1]
    (story,) = page.data["stories"].values()
    assert story["request"] == HOSTILE
    assert [step["tool"] for step in story["steps"] if step["kind"] == "call"][2] == HOSTILE
    assert any(step["text"] == HOSTILE for step in story["steps"] if step["kind"] == "say")


PLAIN = st.text(max_size=20) | st.integers() | st.none()


@given(st.lists(PLAIN, max_size=4) | st.dictionaries(st.text(max_size=20), PLAIN, max_size=4))
def test_embedded_data_come_back_as_they_were_and_hold_no_markup(value: Any) -> None:
    text = embed({"value": value})
    assert json.loads(text) == {"value": value}
    assert not re.search("[<>&\u2028\u2029]", text)


# ---------------------------------------------------------------- what it shows


def test_facts_and_scores_are_in_the_page_itself(tmp_path: Path) -> None:
    page = report(
        played(tmp_path / "study", [oracle(), noop()], [mailroom(f"m-{n}", level=n) for n in (1, 2, 3)], trials=2)
    )
    words = " ".join(page.text.split())
    assert f"{tmp_path.name}/study" in words
    assert "episodes 12 environments 3 families 1 agents 2 trials 2 seed 0" in words
    assert "oracle 1.00 ±0.00 1.00 ±0.00 1.00 ±0.00 1.00 ±0.00 6 /6 0% 0%" in words
    assert "answers 1 2 3 oracle 1.00 1.00 1.00 noop 0.00 0.00 0.00" in words
    assert [attrs["aria-label"] for tag, attrs in page.tags if tag == "svg"] == [
        "mean score 1.00 ±0.00",
        "mean score 0.00 ±0.00",
    ]


def test_every_episode_is_listed_with_its_outcome(tmp_path: Path) -> None:
    agents: list[Agent] = [oracle(), Moody([provider_down(), broken_user()])]
    page = report(played(tmp_path, agents, [mailroom(f"m-{n}") for n in range(3)], concurrency=1))
    rows = [(row["environment"], row["agent"], row["status"], row["passed"]) for row in page.data["episodes"]]
    assert rows == [
        ("m-0", "moody", "infra", False), ("m-0", "oracle", "done", True), ("m-1", "moody", "invalid", False),
        ("m-1", "oracle", "done", True), ("m-2", "moody", "done", False), ("m-2", "oracle", "done", True),
    ]  # fmt: skip
    assert "invalid 1 infra 1" in " ".join(page.text.split())


def test_an_unfinished_run_says_so(tmp_path: Path) -> None:
    played(tmp_path, [oracle(), noop()], [mailroom("a"), mailroom("b")])
    (tmp_path / "summaries" / "a__noop__0.json").unlink()
    assert "3 of 4 episodes are there. The same command resumes it." in report(tmp_path).text


def test_a_big_run_tells_failed_episodes_first_and_says_what_it_left_out(tmp_path: Path) -> None:
    page = report(played(tmp_path, [oracle(), noop()], [mailroom(f"m-{n}") for n in range(3)]), transcripts=4)
    assert "Transcripts of 4 of 6 episodes are in this file, failed ones first" in page.text
    assert len(page.data["episodes"]) == 6
    assert sum(key.split("__")[1] == "noop" for key in page.data["stories"]) == 3


def test_agents_take_turns_for_the_room_in_a_report() -> None:
    lazy = [episode(f"e-{n}", "lazy", 0, 0.0) for n in range(5)]
    others = [episode("e-4", "keen", 0, 0.0), episode("e-5", "keen", 0, 1.0), episode("e-6", "keen", 0, None)]
    told = [(one.agent, one.environment) for one in choose([*lazy, *others])]
    assert told[:2] == [("lazy", "e-0"), ("keen", "e-4")]
    assert told[-2:] == [("keen", "e-6"), ("keen", "e-5")]


def test_no_run_makes_no_report(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="this is no run"):
        write_report(tmp_path, tmp_path / "report.html")
    assert list(tmp_path.iterdir()) == []


# ---------------------------------------------------------------- the story of an episode


def story_of(directory: Path, agent: Agent) -> dict[str, Any]:
    where = RunDirectory(played(directory, [agent], [mailroom()]))
    events = where.manifest().environments["mailroom"].events
    return tell(where.trajectory(f"mailroom__{agent.name}__0"), events)


def test_each_call_stands_next_to_what_it_changed(tmp_path: Path) -> None:
    steps = story_of(tmp_path, oracle())["steps"]
    search, draft = [step for step in steps if step["kind"] == "call"]
    assert (search["tool"], search["arguments"], search["changes"]) == ("mail_search", {"query": "from:klara"}, [])
    (change,) = draft["changes"]
    assert (change["type"], change["operation"]) == ("mail.draft", "created")
    fields = {name: after for name, _, after in change["fields"]}
    assert fields["subject"] == "Re: ORD-2041"
    assert "id" not in fields  # its key says that already
    assert json.loads(draft["result"])["draft_id"] == change["key"]


def test_what_coworkers_did_stands_where_it_happened(tmp_path: Path) -> None:
    steps = story_of(tmp_path, oracle())["steps"]
    assert [step["kind"] for step in steps] == ["call", "call", "event", "say", "event", "user", "say"]
    loud, silent = [step for step in steps if step["kind"] == "event"]
    assert (loud["event"], loud["notice"]) == ("omar-writes", "New mail from Omar Haddad: Lunch")
    assert (silent["event"], silent["notice"]) == ("omar-again", None)
    (act,) = loud["acts"]
    assert (act["tool"], act["arguments"]["subject"], act["error"]) == ("mail_send", "Lunch", None)
    assert {change["type"] for change in act["changes"]} >= {"mail.message"}
    assert loud["at"] == "2026-03-02T08:00:42Z"


def test_notices_are_told_apart_from_the_result(tmp_path: Path) -> None:
    draft = story_of(tmp_path, oracle())["steps"][1]
    assert draft["notices"] == ["New mail from Omar Haddad: Lunch"]
    assert draft["result"].endswith("}")


def test_times_in_changes_are_written_as_times(tmp_path: Path) -> None:
    sent = story_of(tmp_path, calls("sender", "mail_send", to=[KLARA], subject="Hi", body="Hi"))["steps"][0]
    fields = {name: after for change in sent["changes"] for name, _, after in change["fields"]}
    assert fields["sent_at"] == "2026-03-02T08:00:22Z"


def test_a_refused_call_shows_the_words_of_the_refusal(tmp_path: Path) -> None:
    (step, *_) = story_of(tmp_path, calls("lost", "mail_get_message", message_id="nothing"))["steps"]
    assert step["error"] is True
    assert "nothing" in step["result"]
    assert step["changes"] == []


def test_an_episode_that_never_began_has_an_empty_story(tmp_path: Path) -> None:
    story = story_of(tmp_path, Moody([provider_down()]))
    assert (story["steps"], story["request"], story["reason"]) == ([], "", "provider: 502 Bad Gateway")
