from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from servers.declared import ServiceSpec, declared_service
from servers.declared import spec as spec_module
from servers.declared.ranking import best
from servers.desk import Desk
from servers.errors import SpecError
from servers.image import workplace
from tests.any_arguments import any_arguments
from tests.support import NORA, OMAR, act, desk, office, over_mcp

SPEC: dict[str, Any] = yaml.safe_load((Path(__file__).parents[1] / "data" / "claims_service.yaml").read_text("utf-8"))
RECORDS: dict[str, list[dict[str, Any]]] = {
    "claims.claim": [
        {
            "claim_id": "CLM-0007",
            "title": "Train to Ghent",
            "amount": 80,
            "category": "travel",
            "owner": OMAR,
            "limit": 50,
            "tags": ["Rail", "Belgium"],
            "begins": "2026-02-20",
            "ends": "2026-02-22",
            "filed_at": "2026-02-23T10:00:00+01:00",
            "state": "filed",
            "cost centre": 12,
        },
        {
            "claim_id": "CLM-0008",
            "title": "Team lunch",
            "amount": 120.5,
            "category": "meals",
            "owner": NORA,
            "limit": 200,
            "tags": ["lunch"],
            "begins": "2026-02-27",
            "ends": "2026-02-27",
            "filed_at": "2026-02-28T10:00:00+01:00",
        },
        {"claim_id": "CLM-0009", "title": "Straße toll", "amount": 9.9},
    ]
}


def spec(**changes: Any) -> ServiceSpec:
    return ServiceSpec.model_validate({**copy.deepcopy(SPEC), **changes})


def claims() -> Desk:
    return desk(office([declared_service(spec())], RECORDS))


def ask(where: Desk, tool: str, **arguments: Any) -> dict[str, Any]:
    result = where.call(tool, arguments)
    assert result.ok, result.text
    assert result.value is not None
    return result.value


def refuse(where: Desk, tool: str, **arguments: Any) -> str:
    result = where.call(tool, arguments)
    assert not result.ok, result.text
    return result.text


def ids(where: Desk, tool: str = "claims_list", **arguments: Any) -> list[str]:
    return [claim["claim_id"] for claim in ask(where, tool, **arguments)["claims"]]


# ---------------------------------------------------------------------- the service as agents meet it


@pytest.mark.anyio
async def test_agents_see_tools_exactly_as_declared_with_true_annotations() -> None:
    async with over_mcp(claims()) as agent:
        listed = (await agent.client.list_tools()).tools
        claim = await agent.ok("claims_get", claim="CLM-0008")
    assert [tool.input_schema for tool in listed] == [tool["input_schema"] for tool in SPEC["tools"]]
    by_name = {tool.name: tool.annotations for tool in listed}
    assert by_name["claims_list"].read_only_hint
    assert by_name["claims_delete"].destructive_hint
    assert not by_name["claims_create"].idempotent_hint
    assert claim["filed_at"] == "2026-02-28T10:00:00+01:00"


@pytest.mark.parametrize(
    ("arguments", "found"),
    [
        ({"state": "all"}, ["CLM-0008", "CLM-0007", "CLM-0009"]),
        ({}, ["CLM-0008", "CLM-0009"]),
        ({"state": "FILED "}, ["CLM-0007"]),
        ({"state": "all", "tags": ["rail", "other"]}, ["CLM-0007"]),
        ({"state": "all", "owner": "omar"}, ["CLM-0007"]),
        ({"state": "all", "minimum": 80}, ["CLM-0008", "CLM-0007"]),
        ({"state": "all", "day": "2026-02-21"}, ["CLM-0007"]),
        ({"state": "all", "day": "2026-02-21", "days": 7}, ["CLM-0008", "CLM-0007"]),
        ({"state": "all", "since": "2026-02-28"}, ["CLM-0008"]),
        ({"state": "all", "since": "2026-02-28T10:00:01+01:00"}, []),
        ({"state": "all", "recent": 3}, ["CLM-0008"]),
        ({"state": "all", "money": "over"}, ["CLM-0007"]),
        ({"state": "all", "count": 1}, ["CLM-0008"]),
        ({"state": None}, ["CLM-0008", "CLM-0009"]),
    ],
)
def test_arguments_narrow_a_list(arguments: dict[str, Any], found: list[str]) -> None:
    assert ids(claims(), **arguments) == found


def test_a_list_counts_what_fits_not_what_it_shows() -> None:
    answer = ask(claims(), "claims_list", state="all", count=1)
    assert (len(answer["claims"]), answer["total"]) == (1, 3)
    assert "tags" not in answer["claims"][0]


def test_an_empty_list_says_which_values_there_are() -> None:
    answer = ask(claims(), "claims_list", state="paid")
    assert "state 'paid' (there are: draft, filed)" in answer["note"]


def test_a_record_shows_undeclared_keys_and_leaves_out_sparse_fields() -> None:
    claim = ask(claims(), "claims_get", claim="train to ghent")
    assert claim["cost centre"] == 12
    assert claim["amount"] == 80
    assert "receipt" not in claim
    assert ask(claims(), "claims_get", claim="CLM-0009")["owner"] is None


def test_an_unknown_record_is_refused_with_the_closest() -> None:
    assert "Did you mean CLM-0007" in refuse(claims(), "claims_get", claim="CLM-007")


def test_a_new_record_continues_the_ids_and_is_filled_in() -> None:
    where = claims()
    claim = ask(where, "claims_create", title="Taxi", amount=25)["claim"]
    assert claim["claim_id"] == "CLM-0010"
    assert (claim["owner"], claim["state"], claim["category"]) == (NORA, "draft", "other")
    assert claim["filed_at"] == "2026-03-02T09:00:01+01:00"
    assert ids(where, minimum=20, state="draft") == ["CLM-0008", "CLM-0010"]


def test_what_was_done_is_shown_with_the_record() -> None:
    where = claims()
    act(where.world, OMAR, "claims_remind", claim_id="CLM-0008", text="Please file it")
    claim = ask(where, "claims_get", claim="CLM-0008")
    assert claim["reminders"] == [{"text": "Please file it", "sent_by": "Omar Haddad"}]
    assert "there is no claim 'CLM-1'" in refuse(where, "claims_remind", claim_id="CLM-1", text="x")


def test_only_allowed_transitions_happen_and_the_refusal_says_which() -> None:
    where = claims()
    assert ask(where, "claims_file", claim_id="CLM-0009")["state"] == "filed"
    words = refuse(where, "claims_update", claim_id="CLM-0009", state="draft")
    assert "cannot become 'draft'. From there it can become approved or rejected." in words
    assert ask(where, "claims_update", claim_id="CLM-0009", state="approved")["state"] == "approved"
    assert "That is final." in refuse(where, "claims_file", claim_id="CLM-0009")


@pytest.mark.parametrize(
    ("tool", "arguments", "words"),
    [
        ("claims_create", {"title": "x"}, "amount is required"),
        ("claims_create", {"title": "x", "amount": "9"}, "amount must be of type number (got '9')"),
        ("claims_create", {"title": "x", "amount": -1}, "less than the minimum"),
        (
            "claims_create",
            {"title": "x", "amount": 1, "category": "fun"},
            "category must be one of travel, meals, other",
        ),
        (
            "claims_create",
            {"title": "x", "amount": 1, "tags": ["a", 2]},
            "tags.1 must be of type string (got 2)",
        ),
        ("claims_create", {"title": "x", "amount": 1, "price": 2}, "price is not an argument of this tool"),
        ("claims_create", {"title": "x", "amount": 1, "begins": "soon"}, "begins 'soon' is not a date"),
        (
            "claims_create",
            {"title": "x", "amount": 1, "begins": "2026-03-02", "ends": "2026-03-01"},
            "ends lies before begins",
        ),
        (
            "claims_update",
            {"claim_id": "CLM-0007"},
            "nothing to change. Give at least one of amount, state, ends, limit",
        ),
        ("claims_update", {"claim_id": "CLM-0007", "limit": 10**30}, "limit"),
        ("claims_update", {"claim_id": "CLM-0008", "ends": "2026-02-26"}, "ends lies before begins"),
        ("claims_list", {"count": 0}, "count must be 1 or more"),
        ("claims_list", {"day": "2026-02-30"}, "is not a time"),
        ("claims_list", {"day": "2026-02-20", "days": 10**9}, "days must be between 1 and"),
        ("claims_list", {"recent": -1}, "0 or more"),
        (
            "claims_file",
            {"claim_id": "CLM-0009", "when": "0001-01-01T00:00:00+14:00"},
            "between 1900 and 2200",
        ),
        ("claims_scan", {"path": "a.png"}, "there is no scanner here."),
    ],
)
def test_a_wrong_call_is_refused_with_words_that_help_and_changes_nothing(
    tool: str, arguments: dict[str, Any], words: str
) -> None:
    where = claims()
    said = refuse(where, tool, **arguments)
    assert said.startswith(f"{tool}: ")
    assert words in said
    assert where.world.changes() == []


def test_deleting_takes_a_record_away() -> None:
    where = claims()
    assert ask(where, "claims_delete", claim_id="CLM-0009") == {"claim_id": "CLM-0009", "deleted": True}
    assert "there is no claim" in refuse(where, "claims_delete", claim_id="CLM-0009")
    assert [change.operation for change in where.world.changes()] == ["deleted"]


def test_unknown_arguments_are_let_through_where_the_schema_says_so() -> None:
    tools = copy.deepcopy(SPEC["tools"])
    tools[-1]["input_schema"]["additionalProperties"] = True
    where = desk(office([declared_service(spec(tools=tools))], RECORDS))
    assert "no scanner" in refuse(where, "claims_scan", path="a.png", colour=True)


@settings(max_examples=80, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_no_arguments_that_fit_the_schema_break_a_tool(data: st.DataObject) -> None:
    where = claims()
    for _ in range(6):
        tool = data.draw(st.sampled_from(SPEC["tools"]))
        arguments = data.draw(any_arguments(tool["input_schema"]))
        if "claim_id" in arguments:
            arguments["claim_id"] = data.draw(st.sampled_from(["CLM-0007", "CLM-0008", "CLM-0010", "x"]))
        where.call(tool["name"], arguments)


# ---------------------------------------------------------------------- searching


def test_a_search_ranks_and_leaves_out_what_fits_badly() -> None:
    where = claims()
    assert ids(where, "claims_search", query="lunch with the team") == ["CLM-0008"]
    assert ids(where, "claims_search", query="TRAINS") == ["CLM-0007"]
    assert ids(where, "claims_search", query="strasse") == ["CLM-0009"]
    assert ids(where, "claims_search", query="xylophone banana") == []
    assert ids(where, "claims_search", query=" ") == ["CLM-0007", "CLM-0008", "CLM-0009"]


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("张伟", ["张伟 研发经理"]),
        ("张经理", ["张伟 研发经理", "李娜 市场经理"]),
        ("VPN 连接", ["VPN无法连接的处理"]),
        ("打印机", []),
    ],
)
def test_chinese_texts_are_found_by_pairs_of_characters(query: str, found: list[str]) -> None:
    texts = ["李娜 市场经理", "张伟 研发经理", "VPN无法连接的处理"]
    assert best(query, texts, lambda text: {"text": text}, {"text": 1.0}) == found


# ---------------------------------------------------------------------- the data


def test_equal_specs_give_the_same_service_and_workplace() -> None:
    service = declared_service(spec())
    assert service is declared_service(spec())
    assert workplace((service,)) is workplace((declared_service(spec()),))
    assert service is not declared_service(spec(title="Other"))


def test_a_spec_survives_being_written_without_its_defaults() -> None:
    dumped = spec().model_dump(mode="json", exclude_defaults=True)
    assert ServiceSpec.model_validate(dumped) == spec()


def test_the_example_in_the_documentation_works() -> None:
    text = (spec_module.__doc__ or "").partition("::")[2].partition("What a tool does")[0]
    example = ServiceSpec.model_validate(yaml.safe_load(text))
    records = {"bookings.booking": [{"booking_id": "BK-1", "room": "Blue", "day": "2026-03-05"}]}
    where = desk(office([declared_service(example)], records))
    assert ask(where, "bookings_list", day="2026-03-05")["bookings"][0]["state"] == "held"
    assert ask(where, "bookings_confirm", booking_id="BK-1")["state"] == "confirmed"


def test_records_are_checked_like_those_of_any_service() -> None:
    wrong = {
        "claims.claim": [{"claim_id": "A", "title": "x", "amount": 1, "state": "lost"}],
        "claims.reminder": [{"reminder_id": "R", "claim_id": "B", "text": "x"}],
    }
    with pytest.raises(SpecError, match=r"records\.claims\.claim\[0\]\.state"):
        office([declared_service(spec())], wrong)
    wrong["claims.claim"][0]["state"] = "draft"
    with pytest.raises(SpecError, match=r"records\.claims\.reminder\[0\]\.claim_id: there is no claims\.claim 'B'"):
        office([declared_service(spec())], wrong)
    late = {
        "claims.claim": [{"claim_id": "A", "title": "x", "amount": 1, "begins": "2026-03-02", "ends": "2026-03-01"}]
    }
    with pytest.raises(SpecError, match=r"records\.claims\.claim\[0\]\.ends: lies before begins"):
        office([declared_service(spec())], late)


def _broken(path: str, value: Any) -> dict[str, Any]:
    data: Any = copy.deepcopy(SPEC)
    *parents, last = path.split("/")
    node = data
    for part in parents:
        named = {item["name"]: item for item in node} if isinstance(node, list) else node
        node = named[part]
    node[last] = value
    return data


@pytest.mark.parametrize(
    ("path", "value", "where"),
    [
        (
            "entities/claim/fields/copy",
            {"type": "string"},
            "entities.claim.fields.copy: a field cannot have this name",
        ),
        (
            "entities/claim/fields/Title",
            {"type": "string"},
            "entities.claim.fields.Title: differs from another",
        ),
        (
            "entities/claim/fields/amount",
            {"type": "number", "default": "x"},
            "entities.claim.fields.amount.default",
        ),
        (
            "entities/claim/lifecycle",
            {"field": "stat", "initial": "a", "transitions": {}},
            "has no field 'stat'",
        ),
        ("entities/reminder/fields/claim_id", {"type": "string", "ref": "clam"}, "there is no entity 'clam'"),
        ("tools/claims_get/does/entity", "clam", "tools.claims_get.does.entity: there is no entity 'clam'"),
        ("tools/claims_get/does/target", {"argument": "claimx"}, "the tool has no argument 'claimx'"),
        (
            "tools/claims_get/input_schema/properties/colour",
            {"type": "string"},
            "colour: nothing reads this argument",
        ),
        ("tools/claims_list/does/order", [{"field": "amout"}], "has no field 'amout'. Did you mean amount"),
        ("tools/claims_file/does/to", "field", "there is no status 'field'"),
        (
            "tools/claims_create/input_schema/required",
            ["title"],
            "claim.amount is required, but a call need not give it",
        ),
        ("tools/claims_get/input_schema/type", "array", "claims_get.input_schema.type"),
        (
            "tools/claims_get/input_schema/properties/claim",
            {"$ref": "http://x.example"},
            "$ref is not supported",
        ),
        ("tools/claims_get/input_schema/properties/claim", {"pattern": "(a+)+b"}, "too many ways"),
        ("tools/claims_get/input_schema/properties/claim", {"type": "strin"}, "properties.claim.type"),
        ("tools/claims_get/name", "claims_list", "tools.claims_list: the name is used twice"),
    ],
)
def test_a_spec_that_leads_nowhere_is_refused_with_its_place(path: str, value: Any, where: str) -> None:
    with pytest.raises(SpecError) as error:
        declared_service(ServiceSpec.model_validate(_broken(path, value)))
    assert where in str(error.value)


def test_a_key_that_no_spec_has_is_an_error() -> None:
    with pytest.raises(ValueError, match="code"):
        ServiceSpec.model_validate(_broken("tools/claims_get/does/code", "import os"))
