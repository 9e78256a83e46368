"""The importer on a task of our own, and on fixtures as odd as they come."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from servers.desk import agent_desk
from servers.errors import SpecError
from servers.records import iso_utc
from servers.world import World
from synth.importers.claw_eval import ImportedTask, import_task, to_environment
from tests.any_arguments import any_arguments
from tests.synth.claw_calls import ask, call_at_random, open_desk, read, refuse

ROOT = Path(__file__).parents[2]
SAMPLE = ROOT / "tests" / "data" / "claw_eval" / "tasks" / "T900_sample"


def sample() -> ImportedTask:
    return read(SAMPLE)


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_no_valid_arguments_break_a_tool_of_the_sample(data: st.DataObject) -> None:
    call_at_random(sample(), data)


def test_what_was_odd_or_missing_is_a_warning_with_its_place() -> None:
    assert {(warning.code, warning.where) for warning in sample().warnings} == {
        ("missing_fixture", "services.crm"),
        ("missing_fixture", "services.caption"),
        ("odd_key", "services.lab[0].sample_id"),
        ("duplicate_id", "services.lab[2].sample_id"),
        ("odd_key", "services.lab[3].sample_id"),
        ("odd_fixture", "services.lab"),
        ("unknown_tool", "tools.lab_calibrate"),
    }


def test_everything_else_of_the_task_file_is_kept() -> None:
    task = sample()
    assert (task.max_turns, task.timeout_seconds, task.max_rounds) == (12, 300, 5)
    assert task.persona == "You run a small laboratory."
    assert task.rules == ("Ask when something is missing.",)
    assert task.attachments == ("fixtures/media/label.png",)
    assert task.metadata["made_up_key"] == "kept"
    environment = to_environment(task)
    assert environment.budget.steps == 12
    assert environment.meta["persona"] == task.persona


def test_the_principal_is_the_owner_of_the_mailbox_and_time_goes_on_after_the_newest_mail() -> None:
    task = sample()
    assert task.principal == "tom@lab.example"
    assert task.timezone == "Etc/GMT-2"
    assert iso_utc(task.start) == "2026-04-20T07:35:00Z"
    names = {person.email: person.name for person in task.cast}
    assert names["ines@lab.example"] == "Ines Kolb"
    assert [person.email for person in task.cast if person.external] == ["vendor@cold.example"]


def test_mail_of_the_last_days_comes_newest_first_without_bodies() -> None:
    desk = open_desk(sample())
    recent = ask(desk, "gmail_list_messages")
    assert [mail["message_id"] for mail in recent["messages"]] == ["msg_041"]
    assert "body" not in recent["messages"][0]
    assert recent["messages"][0]["x_priority"] == 1
    everything = ask(desk, "gmail_list_messages", days_back=60)
    assert [mail["message_id"] for mail in everything["messages"]] == ["msg_041", "msg_042"]


def test_sent_mail_and_drafts_are_in_the_mailbox_with_ids_that_go_on() -> None:
    desk = open_desk(sample())
    sent = ask(desk, "gmail_send_message", to="ines@lab.example", subject="Re: Freezer two", body="On my way")
    draft = ask(
        desk,
        "gmail_save_draft",
        to="vendor@cold.example",
        subject="Re: Offer",
        body="?",
        reply_to_message_id="msg_042",
    )
    assert (sent["message_id"], draft["message_id"]) == ("msg_043", "msg_044")
    mails = {mail["message_id"]: mail for mail in ask(desk, "gmail_list_messages")["messages"]}
    assert (mails["msg_043"]["labels"], mails["msg_044"]["labels"]) == (["SENT"], ["DRAFT"])
    assert mails["msg_043"]["from"] == "tom@lab.example"
    words = refuse(desk, "gmail_save_draft", to="a", subject="b", body="c", reply_to_message_id="msg_999")
    assert "there is no message 'msg_999'" in words


def test_a_fixture_of_another_task_is_used_when_the_task_names_it() -> None:
    desk = open_desk(sample())
    day = ask(desk, "calendar_list_events", start_date="2026-04-21", end_date="2026-04-21")
    assert [event["event_id"] for event in day["events"]] == ["evt_007"]
    made = ask(
        desk,
        "calendar_create_event",
        title="Delivery",
        start_time="2026-04-21T09:00:00",
        end_time="2026-04-21T09:30:00",
    )
    day = ask(desk, "calendar_list_events", start_date="2026-04-21", end_date="2026-04-21")
    assert [event["event_id"] for event in day["events"]] == [made["event_id"], "evt_007"]


@pytest.mark.parametrize(
    ("start", "end", "words"),
    [
        ("next Tuesday", "2026-04-21T09:00", "'next Tuesday' is not a time"),
        ("2026-04-21T10:00", "2026-04-21T09:00", "end_time lies before start_time"),
    ],
)
def test_an_event_at_no_time_or_with_its_end_first_is_refused(start: str, end: str, words: str) -> None:
    desk = open_desk(sample())
    assert words in refuse(desk, "calendar_create_event", title="x", start_time=start, end_time=end)


def test_stock_status_follows_from_quantity_and_reorder_level() -> None:
    desk = open_desk(sample())

    def names(status: str) -> list[str]:
        return [item["name"] for item in ask(desk, "inventory_list_items", status=status)["products"]]

    assert names("out_of_stock") == ["Tube rack"]
    assert names("low_stock") == ["Pipette"]
    assert names("normal") == ["Gloves"]
    assert len(names("all")) == 3


def test_an_order_is_seen_with_its_product_and_only_of_products_that_exist() -> None:
    desk = open_desk(sample())
    order = ask(desk, "inventory_create_order", product_id="EQ-9", quantity=12)
    product = ask(desk, "inventory_get_item", product_id="EQ-9")
    assert product["quantity"] == 3
    assert [(item["order_id"], item["quantity"]) for item in product["orders"]] == [(order["order_id"], 12)]
    assert "EQ-9" in refuse(desk, "inventory_create_order", product_id="EQ-99", quantity=1)


def test_the_web_is_what_the_fixtures_hold() -> None:
    desk = open_desk(sample())
    results = ask(desk, "web_search", query="minus 80 freezer")["results"]
    assert [result["title"] for result in results] == ["Freezers compared"]
    assert ask(desk, "web_search", query="xylophone banana")["results"] == []
    assert ask(desk, "web_fetch", url=results[0]["url"])["content"] == "Long text"
    assert "there is no page" in refuse(desk, "web_fetch", url="https://other.example")
    ask(desk, "send_notification", channel="sms", message="hello")
    assert [change.type for change in desk.world.changes()] == ["web.notification"]


def test_jobs_are_filtered_by_last_status_and_by_being_enabled() -> None:
    desk = open_desk(sample())

    def ids(**arguments: Any) -> list[str]:
        return [job["job_id"] for job in ask(desk, "scheduler_list_jobs", **arguments)["jobs"]]

    assert ids(status="failed") == ids(status="enabled") == ids(tag="data") == ids(enabled=True) == ["JOB-001"]
    assert ids(status="disabled") == ["JOB-002"]
    history = ask(desk, "scheduler_job_history", job_id="JOB-001", limit=1)
    assert history["execution_history"] == [{"run_at": "2026-04-20T02:00:00+02:00", "status": "failed"}]
    assert history["total"] == 2


def test_a_filter_that_finds_nothing_names_the_values_there_are() -> None:
    answer = ask(open_desk(sample()), "scheduler_list_jobs", status="broken")
    assert "failed, success" in answer["note"]


def test_feeds_are_gathered_from_their_articles() -> None:
    desk = open_desk(sample())
    feeds = ask(desk, "rss_list_feeds")["feeds"]
    assert [(feed["name"], feed["article_count"]) for feed in feeds] == [
        ("Lab Weekly", 2),
        ("Money Daily", 1),
    ]
    assert [feed["name"] for feed in ask(desk, "rss_list_feeds", category="goods")["feeds"]] == ["Lab Weekly"]
    feed = ask(desk, "rss_get_feed", feed_name="lab weekly")
    assert [article["title"] for article in feed["articles"]] == ["Cold chains", "New tubes"]
    articles = ask(desk, "rss_list_articles", feed_name="Money")["articles"]
    assert [article["title"] for article in articles] == ["Grants"]


def test_an_unknown_service_works_by_verbs_and_by_the_shape_of_its_fixture() -> None:
    desk = open_desk(sample())
    assert ask(desk, "lab_list_samples")["total"] == 4
    assert ask(desk, "lab_find_samples", phrase="donor plasma")["samples"][0]["sample_id"] == "S-18"
    assert [s["sample_id"] for s in ask(desk, "lab_list_samples", min_amount=2.6)["samples"]] == ["17"]
    odd = ask(desk, "lab_get_sample", sample_id="17")
    assert odd["_hidden"] == [1]
    assert odd["nested"] == {"deep": [{"x": None}]}
    assert (odd["key"], odd["json"], odd["model_name"], odd["Label"]) == (
        "kept",
        "a",
        "kept too",
        "other case",
    )
    ask(desk, "lab_archive_sample", sample_id="S-18", reason="used up")
    archived = ask(desk, "lab_get_sample", sample_id="s-18")
    assert (archived["state"], archived["reason"]) == ("archived", "used up")


def test_what_is_not_here_says_so() -> None:
    desk = open_desk(sample())
    assert "not available" in refuse(desk, "lab_calibrate")
    assert "no shell" in refuse(desk, "Bash", command="ls")
    assert "not part of this workplace" in refuse(desk, "caption_describe_image", image_path="x.png")
    assert ask(desk, "ocr_extract_text", image_path="x.png")["texts"][0]["text"] == "Best before 2027\n"
    assert ask(desk, "crm_list_customers", status="active")["customers"] == []


def test_a_folder_without_a_task_is_an_error_that_names_the_file(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match=r"task\.yaml"):
        import_task(tmp_path)


def test_fixture_paths_that_leave_the_collection_are_not_read(tmp_path: Path) -> None:
    (tmp_path / "secret.json").write_text('[{"message_id": "m1"}]', encoding="utf-8")
    folder = tmp_path / "collection" / "tasks" / "T1"
    folder.mkdir(parents=True)
    task = {
        "task_id": "T1",
        "prompt": {"text": "x"},
        "services": [{"name": "gmail", "env": {"GMAIL_FIXTURES": "../secret.json"}}],
        "tools": [{"name": "gmail_list_messages", "input_schema": {"type": "object", "properties": {}}}],
    }
    (folder / "task.yaml").write_text(yaml.safe_dump(task), encoding="utf-8")
    imported = import_task(folder)
    assert imported.records == {}
    assert [warning.code for warning in imported.warnings] == ["missing_fixture"]


@pytest.mark.parametrize(
    ("request_text", "start"),
    [
        ("Today is 2026-05-07. Do it.", "2026-05-07T09:00:00Z"),
        ("今天是2026年5月7日。请处理。", "2026-05-07T09:00:00Z"),
        ("Plan the meeting of 2026-05-07.", "2026-05-06T09:00:00Z"),
        ("Do it.", "2026-03-02T09:00:00Z"),
    ],
)
def test_without_records_the_request_tells_the_day(tmp_path: Path, request_text: str, start: str) -> None:
    folder = tmp_path / "tasks" / "T1"
    folder.mkdir(parents=True)
    task = {"task_id": "T1", "prompt": {"text": request_text}}
    (folder / "task.yaml").write_text(yaml.safe_dump(task, allow_unicode=True), encoding="utf-8")
    assert iso_utc(import_task(folder).start) == start


def write_task(folder: Path, tools: list[dict[str, Any]], fixtures: dict[str, Any], **more: Any) -> ImportedTask:
    folder.mkdir(parents=True, exist_ok=True)
    services = [{"name": name} for name in fixtures]
    task = {"task_id": folder.name, "prompt": {"text": "x"}, "services": services, "tools": tools, **more}
    (folder / "task.yaml").write_text(yaml.safe_dump(task), encoding="utf-8")
    for name, records in fixtures.items():
        (folder / "fixtures" / name).mkdir(parents=True, exist_ok=True)
        (folder / "fixtures" / name / "data.json").write_text(json.dumps(records), encoding="utf-8")
    return import_task(folder)


def tool(name: str, required: str = "", optional: str = "") -> dict[str, Any]:
    names = [*required.split(), *optional.split()]
    schema = {"type": "object", "properties": {name: {"type": "string"} for name in names}}
    return {"name": name, "description": name, "input_schema": {**schema, "required": required.split()}}


def test_the_live_web_is_not_there_but_what_is_sent_is_recorded(tmp_path: Path) -> None:
    tools = [tool("web_search", "query"), tool("web_fetch", "url"), tool("send_report", "title content")]
    services = [{"name": "web_real", "port": 9114}]
    endpoints = [{"tool_name": one["name"], "url": "http://localhost:9114/web/x"} for one in tools]
    task = write_task(tmp_path / "tasks" / "T1", tools, {}, services=services, tool_endpoints=endpoints)
    desk = open_desk(task)
    assert "cannot be reached" in refuse(desk, "web_search", query="x")
    assert "cannot be reached" in refuse(desk, "web_fetch", url="x")
    ask(desk, "send_report", title="Report", content="All well")
    assert [change.type for change in desk.world.changes()] == ["web_real.report"]


def test_a_verb_that_nobody_knows_records_what_was_done_to_a_record(tmp_path: Path) -> None:
    tools = [tool("pots_list_pots", optional="fired_before"), tool("pots_glaze", "pot_id colour")]
    pots = [
        {"pot_id": "P1", "name": "Jug", "fired_at": "2026-01-02"},
        {"pot_id": "P2", "fired_at": "2026-02-02"},
    ]
    desk = open_desk(write_task(tmp_path / "tasks" / "T2", tools, {"pots": pots}))
    assert ask(desk, "pots_list_pots", fired_before="2026-01-31")["total"] == 1
    assert "there is no pot 'P9'" in refuse(desk, "pots_glaze", pot_id="P9", colour="blue")
    ask(desk, "pots_glaze", pot_id="P2", colour="blue")
    assert ask(desk, "pots_list_pots")["pots"][1]["glazes"][0]["colour"] == "blue"


_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=12) | st.sampled_from(["2026-03-01", "2026-03-01T09:00:00+08:00", "P1", "P-2"]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=4), inner, max_size=2),
    max_leaves=4,
)  # fmt: skip
_KEYS = st.text(max_size=6) | st.sampled_from(
    ["id", "ticket_id", "pot_id", "status", "Status", "key", "json", "copy", "model_x", "_extra", "type_name", "self",
     "created_at", "due_date", "tags", "from", "order", "select", "notes", "title"]
)  # fmt: skip
_FIXTURES = st.lists(st.dictionaries(_KEYS, _VALUES, max_size=6) | _VALUES, max_size=5) | _VALUES


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(tickets=_FIXTURES, pots=_FIXTURES, data=st.data())
def test_no_fixture_is_too_odd(
    tmp_path_factory: pytest.TempPathFactory, tickets: Any, pots: Any, data: st.DataObject
) -> None:
    tools = [
        tool("helpdesk_list_tickets", optional="status tags assigned_to created_before days_back limit"),
        tool("helpdesk_get_ticket", "ticket_id"),
        tool("helpdesk_update_ticket", "ticket_id", "priority json key Status copy"),
        tool("helpdesk_close_ticket", "ticket_id", "resolution"),
        tool("helpdesk_create_ticket", "title", "ticket_id due_date"),
        tool("pots_search_pots", "query", "model_x"),
        tool("pots_delete_pot", "pot_id"),
        tool("pots_share", "pot_id recipients"),
        tool("pots_set_2", "pot_id", "order select _extra"),
    ]
    folder = tmp_path_factory.mktemp("odd") / "tasks" / "T3"
    task = write_task(folder, tools, {"helpdesk": tickets, "pots": pots})
    environment = to_environment(task)
    desk = agent_desk(World.open(environment.image), environment.exposed)
    assert set(environment.exposed) == {one["name"] for one in tools}
    rows = [record for records in task.records.values() for record in records]
    keys = [record.get("ticket_id") or record.get("pot_id") for record in rows]
    for one in tools:
        arguments = data.draw(any_arguments(one["input_schema"]))
        for name in arguments.keys() & {"ticket_id", "pot_id"} if keys else ():
            arguments[name] = data.draw(st.sampled_from(keys))
        desk.call(one["name"], {name: value for name, value in arguments.items() if value is not None})
