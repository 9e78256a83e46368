from __future__ import annotations

import base64
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from servers.desk import Desk, agent_desk, expose
from servers.errors import SpecError
from servers.image import Image
from servers.journal import Actor
from servers.services.directory import DIRECTORY
from servers.services.files import FILES
from servers.services.files.records import MAX_BINARY, MAX_TEXT
from servers.world import World
from tests.support import DANA, KLARA, NORA, OMAR, PRIYA, act, desk, office, over_mcp

pytestmark = pytest.mark.anyio

PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n" + bytes(range(40))).decode()
OLD, MID, NEW = "2026-01-10T09:00:00+01:00", "2026-02-10T09:00:00+01:00", "2026-02-20T09:00:00+01:00"

FOLDERS: list[dict[str, Any]] = [
    {"id": "fo-home", "name": "Nora", "owner": NORA},
    {"id": "fo-sales", "name": "Sales", "owner": PRIYA, "shares": {NORA: "editor", DANA: "reader"}},
    {"id": "fo-quotes", "name": "Quotes", "owner": PRIYA, "parent": "fo-sales"},
    {"id": "fo-hr", "name": "HR", "owner": PRIYA},
    {"id": "fo-read", "name": "Handbook", "owner": OMAR, "shares": {NORA: "reader"}},
]
FILE_RECORDS: list[dict[str, Any]] = [
    {"id": "f-plan", "folder_id": "fo-home", "name": "plan.md", "owner": NORA, "media_type": "text/markdown"},
    {"id": "f-quote", "folder_id": "fo-quotes", "name": "quote 4711.txt", "owner": PRIYA},
    {"id": "f-logo", "folder_id": "fo-sales", "name": "logo.png", "owner": NORA, "media_type": "image/png"},
    {"id": "f-pay", "folder_id": "fo-hr", "name": "salaries.csv", "owner": PRIYA, "media_type": "text/csv"},
    {
        "id": "f-loan",
        "folder_id": "fo-hr",
        "name": "for nora.txt",
        "owner": PRIYA,
        "shares": {NORA: "editor"},
    },
    {"id": "f-rules", "folder_id": "fo-read", "name": "rules.txt", "owner": OMAR},
]
VERSIONS: list[dict[str, Any]] = [
    {"id": "v1", "file_id": "f-plan", "number": 1, "author": NORA, "created_at": OLD, "text": "first draft"},
    {
        "id": "v2",
        "file_id": "f-plan",
        "number": 2,
        "author": OMAR,
        "created_at": MID,
        "text": "Übersicht: budget 900",
    },
    {
        "id": "v3",
        "file_id": "f-quote",
        "number": 1,
        "author": PRIYA,
        "created_at": NEW,
        "text": "Quote 4711 for Klara",
    },
    {"id": "v4", "file_id": "f-logo", "number": 1, "author": NORA, "created_at": OLD, "base64": PNG},
    {
        "id": "v5",
        "file_id": "f-pay",
        "number": 1,
        "author": PRIYA,
        "created_at": NEW,
        "text": "hidden budget",
    },
    {"id": "v6", "file_id": "f-loan", "number": 1, "author": PRIYA, "created_at": MID, "text": "your loan"},
    {"id": "v7", "file_id": "f-rules", "number": 1, "author": OMAR, "created_at": OLD, "text": "Be kind"},
]


def files(**records: Any) -> Image:
    given_records = {"files.folder": FOLDERS, "files.file": FILE_RECORDS, "files.version": VERSIONS}
    return office([FILES, DIRECTORY], given_records | {f"files.{key}": value for key, value in records.items()})


def as_person(image: Image, person: str) -> Desk:
    return Desk(World.open(image), Actor("agent", person), expose(image.workplace, None))


def found(answer: dict[str, Any]) -> list[str]:
    return [entry["file_id"] for entry in answer["files"]]


async def test_the_first_listing_shows_where_folders_and_single_shared_files_begin() -> None:
    async with over_mcp(desk(files())) as agent:
        top = await agent.ok("files_list")
        sales = await agent.ok("files_list", folder_id="fo-sales")
        quotes = await agent.ok("files_list", folder_id="fo-quotes")
    assert [folder["name"] for folder in top["folders"]] == ["Handbook", "Nora", "Sales"]
    assert [(entry["file_id"], entry["role"]) for entry in top["files"]] == [("f-loan", "editor")]
    assert [folder["folder_id"] for folder in sales["folders"]] == ["fo-quotes"]
    assert [(entry["file_id"], entry["size"]) for entry in sales["files"]] == [("f-logo", 48)]
    assert (quotes["path"], quotes["role"]) == ("Sales/Quotes", "editor")
    assert [(entry["file_id"], entry["role"], entry["version"]) for entry in quotes["files"]] == [
        ("f-quote", "editor", 1)
    ]


async def test_pages_of_a_listing_join_up() -> None:
    async with over_mcp(desk(files())) as agent:
        first = await agent.ok("files_list", page_size=3)
        second = await agent.ok("files_list", page_size=3, cursor=first["next_cursor"])
    assert (len(first["folders"]), found(first), first["total"]) == (3, [], 4)
    assert (second["folders"], found(second), second["next_cursor"]) == ([], ["f-loan"], None)


async def test_a_long_text_is_cut_with_a_marker_and_can_be_read_on() -> None:
    long = "".join(f"line {n:05}\n" for n in range(1000))
    versions = [{**version, "text": long} if version["id"] == "v2" else version for version in VERSIONS]
    async with over_mcp(desk(files(version=versions))) as agent:
        part = await agent.ok("files_read", file_id="f-plan")
        text = part["text"]
        assert "Go on with offset=8000" in part["cut"]
        while "next_offset" in part:
            part = await agent.ok("files_read", file_id="f-plan", offset=part["next_offset"], limit=3000)
            text += part["text"]
        words = await agent.refused("files_read", file_id="f-plan", offset=len(long))
    assert text == long
    assert "cut" not in part
    assert "11000 characters" in words


async def test_binary_files_are_downloaded_not_read() -> None:
    async with over_mcp(desk(files())) as agent:
        words = await agent.refused("files_read", file_id="f-logo")
        logo = await agent.ok("files_download", file_id="f-logo")
        plan = await agent.ok("files_download", file_id="f-plan")
    assert "files_download" in words
    assert (logo["base64"], logo["size"]) == (PNG, 48)
    assert base64.b64decode(plan["base64"]).decode() == "Übersicht: budget 900"


async def test_earlier_versions_stay_readable_and_name_their_authors() -> None:
    async with over_mcp(desk(files())) as agent:
        history = await agent.ok("files_versions", file_id="f-plan")
        first = await agent.ok("files_read", file_id="f-plan", version=1)
        words = await agent.refused("files_read", file_id="f-plan", version=3)
    assert [(entry["version"], entry["author"]) for entry in history["versions"]] == [(2, OMAR), (1, NORA)]
    assert first["text"] == "first draft"
    assert "versions 1 to 2" in words


async def test_an_update_based_on_an_old_version_is_refused_with_the_current_one() -> None:
    where = desk(files())
    async with over_mcp(where) as agent:
        act(where.world, PRIYA, "files_update", file_id="f-quote", text="Quote changed", expected_version=1)
        words = await agent.refused("files_update", file_id="f-quote", text="mine", expected_version=1)
        updated = await agent.ok("files_update", file_id="f-quote", text="mine", expected_version=2)
        read = await agent.ok("files_read", file_id="f-quote")
    assert "version 2" in words
    assert PRIYA in words
    assert updated["version"] == 3
    assert (read["text"], read["author"]) == ("mine", NORA)


async def test_a_file_stays_text_or_binary() -> None:
    async with over_mcp(desk(files())) as agent:
        as_text = await agent.refused("files_update", file_id="f-logo", text="x", expected_version=1)
        as_bytes = await agent.refused("files_update", file_id="f-plan", base64=PNG, expected_version=2)
        both = await agent.refused("files_update", file_id="f-plan", base64=PNG, text="", expected_version=2)
        neither = await agent.refused("files_update", file_id="f-plan", expected_version=2)
        await agent.ok("files_update", file_id="f-logo", base64=PNG, expected_version=1)
    assert "as base64" in as_text
    assert "as text" in as_bytes
    assert "one of the two" in both
    assert both == neither


async def test_a_new_file_belongs_to_its_author_and_needs_a_free_name() -> None:
    async with over_mcp(desk(files())) as agent:
        made = await agent.ok("files_create", folder_id="fo-quotes", name="q2.txt", text="Grüße")
        taken = await agent.refused("files_create", folder_id="fo-quotes", name="q2.txt", text="x")
        folder = await agent.refused("files_create", folder_id="fo-sales", name="Quotes", text="x")
        elsewhere = await agent.ok("files_create", folder_id="fo-sales", name="q2.txt", base64=PNG)
        access = (await agent.ok("files_versions", file_id=made["file_id"]))["access"]
    assert (made["version"], made["size"]) == (1, 7)
    assert made["file_id"] in taken
    assert "folder 'Quotes' already" in folder
    assert elsewhere["size"] == 48
    assert access == {NORA: "owner", DANA: "reader", PRIYA: "editor"}


@pytest.mark.parametrize("name", ["", " x", "a/b", "a\nb", "..", "x" * 121])
async def test_bad_names_are_refused(name: str) -> None:
    async with over_mcp(desk(files())) as agent:
        words = await agent.refused("files_create", folder_id="fo-home", name=name, text="x")
    assert "1 to 120 characters" in words


@pytest.mark.parametrize("content", ["@@@", "QQ", "Zg==\n", "ä"])
async def test_broken_base64_is_refused(content: str) -> None:
    async with over_mcp(desk(files())) as agent:
        words = await agent.refused("files_create", folder_id="fo-home", name="x.bin", base64=content)
    assert "not valid" in words


async def test_contents_have_a_largest_size() -> None:
    largest = base64.b64encode(bytes(MAX_BINARY)).decode()
    async with over_mcp(desk(files())) as agent:
        made = await agent.ok("files_create", folder_id="fo-home", name="b.bin", base64=largest)
        await agent.refused("files_create", folder_id="fo-home", name="c.bin", base64=largest + "AAAA")
        await agent.ok("files_create", folder_id="fo-home", name="t.txt", text="x" * MAX_TEXT)
        await agent.refused("files_create", folder_id="fo-home", name="u.txt", text="x" * (MAX_TEXT + 1))
    assert made["size"] == MAX_BINARY


async def test_a_new_folder_is_at_the_top_or_where_its_maker_may_write() -> None:
    image = files()
    async with over_mcp(desk(image)) as agent:
        top = await agent.ok("files_create_folder", name="Trips")
        below = await agent.ok("files_create_folder", name="May", parent_id=top["folder_id"])
        await agent.ok("files_create", folder_id=below["folder_id"], name="plan.txt", text="x")
        again = await agent.refused("files_create_folder", name="Trips")
        inner = await agent.refused("files_create_folder", name="May", parent_id=top["folder_id"])
        bad = await agent.refused("files_create_folder", name="a/b")
    async with over_mcp(as_person(image, DANA)) as dana:
        reader = await dana.refused("files_create_folder", name="x", parent_id="fo-quotes")
    assert (below["parent_id"], below["path"]) == (top["folder_id"], "Trips/May")
    assert "at the top already" in again
    assert "has a folder 'May' already" in inner
    assert "no name for a folder" in bad
    assert "takes an editor" in reader


async def test_readers_read_and_write_nothing() -> None:
    where = as_person(files(), DANA)
    async with over_mcp(where) as dana:
        assert (await dana.ok("files_read", file_id="f-quote"))["role"] == "reader"
        update = await dana.refused("files_update", file_id="f-quote", text="x", expected_version=1)
        create = await dana.refused("files_create", folder_id="fo-quotes", name="x", text="x")
        move = await dana.refused("files_move", file_id="f-quote", name="x")
    assert "you are reader" in update
    assert PRIYA in create
    assert "editor" in move
    assert where.world.changes() == []


async def test_only_the_owner_shares_unshares_and_deletes() -> None:
    where = desk(files())
    async with over_mcp(where) as editor:
        for tool, more in (
            ("files_share", {"person": "omar", "role": "reader"}),
            ("files_unshare", {"person": "nora"}),
            ("files_delete", {}),
        ):
            assert "only its owner" in await editor.refused(tool, file_id="f-loan", **more)
    assert where.world.changes() == []


async def test_what_is_shared_can_be_opened_until_it_is_unshared() -> None:
    where = desk(files())
    theirs = Desk(where.world, Actor("agent", DANA), where.tools)
    async with over_mcp(where) as nora, over_mcp(theirs) as dana:
        unknown = await dana.refused("files_read", file_id="f-none")
        assert (await dana.refused("files_read", file_id="f-plan")).replace("f-plan", "f-none") == unknown
        shared = await nora.ok("files_share", file_id="f-plan", person=DANA, role="reader")
        await dana.ok("files_read", file_id="f-plan")
        await dana.refused("files_update", file_id="f-plan", text="x", expected_version=2)
        await nora.ok("files_share", file_id="f-plan", person=DANA, role="editor")
        await dana.ok("files_update", file_id="f-plan", text="x", expected_version=2)
        await nora.ok("files_unshare", file_id="f-plan", person=DANA)
        await dana.refused("files_read", file_id="f-plan")
    assert shared["access"] == {NORA: "owner", DANA: "reader"}


async def test_access_through_a_folder_is_not_taken_away_at_the_file() -> None:
    async with over_mcp(desk(files())) as agent:
        inherited = await agent.refused("files_unshare", file_id="f-logo", person=DANA)
        nobody = await agent.refused("files_unshare", file_id="f-logo", person="omar")
        owner = await agent.refused("files_share", file_id="f-logo", person="nora", role="reader")
        outside = await agent.ok("files_share", file_id="f-logo", person="klara", role="reader")
    assert "through the folder" in inherited
    assert "not shared with" in nobody
    assert "owns" in owner
    assert outside["external"] is True


async def test_a_move_needs_rights_on_both_sides() -> None:
    async with over_mcp(desk(files())) as agent:
        to_reader = await agent.refused("files_move", file_id="f-plan", folder_id="fo-read")
        to_hidden = await agent.refused("files_move", file_id="f-plan", folder_id="fo-hr")
        unknown = await agent.refused("files_move", file_id="f-plan", folder_id="fo-no")
        from_hidden = await agent.refused("files_move", file_id="f-loan", folder_id="fo-home")
        rename = await agent.refused("files_move", file_id="f-loan", name="salaries.csv")
        nothing = await agent.refused("files_move", file_id="f-plan")
        moved = await agent.ok("files_move", file_id="f-quote", folder_id="fo-home", name="q.txt")
    assert "you are reader of folder 'Handbook'" in to_reader
    assert to_hidden.replace("fo-hr", "fo-no") == unknown
    assert "fo-home (Nora)" in unknown
    assert from_hidden == rename
    assert "already" not in rename
    assert "give folder_id" in nothing
    assert (moved["folder_id"], moved["access"]) == ("fo-home", {PRIYA: "owner", NORA: "editor"})


async def test_a_move_onto_a_taken_name_is_refused() -> None:
    async with over_mcp(desk(files())) as agent:
        await agent.ok("files_create", folder_id="fo-quotes", name="plan.md", text="x")
        words = await agent.refused("files_move", file_id="f-plan", folder_id="fo-quotes")
        await agent.ok("files_move", file_id="f-plan", folder_id="fo-quotes", name="plan 2.md")
        same = await agent.ok("files_move", file_id="f-plan", folder_id="fo-quotes", name="plan 2.md")
    assert "plan.md" in words
    assert same["name"] == "plan 2.md"


async def test_a_deleted_file_is_gone_with_its_versions() -> None:
    where = desk(files())
    async with over_mcp(where) as agent:
        deleted = await agent.ok("files_delete", file_id="f-plan")
        words = await agent.refused("files_read", file_id="f-plan")
        (tool,) = [tool for tool in (await agent.client.list_tools()).tools if tool.name == "files_delete"]
    assert deleted["deleted_versions"] == 2
    assert "no file" in words
    assert {(change.type, change.operation) for change in where.world.changes()} == {
        ("files.file", "deleted"),
        ("files.version", "deleted"),
    }
    assert tool.annotations is not None
    assert tool.annotations.destructive_hint is True


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("budget", ["f-plan"]),
        ("übersicht", ["f-plan"]),
        ("draft", []),
        ("4711", ["f-quote"]),
        ('"quote 4711 for"', ["f-quote"]),
        ("name:quote", ["f-quote"]),
        ("name:Klara", []),
        ("type:png", ["f-logo"]),
        ("type:markdown", ["f-plan"]),
        ("type:.txt -loan", ["f-quote", "f-rules"]),
        ("owner:me", ["f-plan", "f-logo"]),
        ("owner:omar", ["f-rules"]),
        ("modified_after:2026-02-10", ["f-quote", "f-loan", "f-plan"]),
        ("owner:priya -modified_after:2026-02-15", ["f-loan"]),
        ("salaries", []),
        ("%", []),
    ],
)
async def test_search_looks_at_names_and_current_texts_of_what_the_caller_can_open(
    query: str, expected: list[str]
) -> None:
    async with over_mcp(desk(files())) as agent:
        answer = await agent.ok("files_search", query=query)
    assert found(answer) == expected


async def test_a_hit_in_the_text_shows_the_text_around_it() -> None:
    async with over_mcp(desk(files())) as agent:
        (hit,) = (await agent.ok("files_search", query="budget"))["files"]
        words = await agent.refused("files_search", query="author:nora")
    assert hit["snippet"] == "Übersicht: budget 900"
    assert "modified_after:" in words


async def test_outsiders_open_what_is_shared_with_them_and_nothing_else() -> None:
    shared = [
        {**record, "shares": {KLARA: "reader"}} if record["id"] == "f-quote" else record for record in FILE_RECORDS
    ]
    async with over_mcp(as_person(files(file=shared), KLARA)) as klara:
        assert found(await klara.ok("files_list")) == ["f-quote"]
        assert found(await klara.ok("files_search", query="modified_after:2020-01-01")) == ["f-quote"]
        words = await klara.refused("files_list", folder_id="fo-quotes")
    assert "You can see none" in words


def edit(records: list[dict[str, Any]], key: str, **changes: Any) -> list[dict[str, Any]]:
    return [{**record, **changes} if record["id"] == key else record for record in records]


@pytest.mark.parametrize(
    ("records", "where"),
    [
        ({"folder": edit(FOLDERS, "fo-sales", parent="fo-quotes")}, "records.files.folder[1].parent"),
        ({"folder": edit(FOLDERS, "fo-hr", shares={"a@b.c": "reader"})}, "records.files.folder[3].shares"),
        (
            {"file": edit(FILE_RECORDS, "f-logo", folder_id="fo-home", name="plan.md")},
            "records.files.file[2].name",
        ),
        ({"file": edit(FILE_RECORDS, "f-logo", name="Quotes")}, "records.files.file[2].name"),
        ({"file": edit(FILE_RECORDS, "f-logo", name="a/b")}, "records.files.file[2].name"),
        ({"version": VERSIONS[:-1]}, "records.files.file[5].id"),
        ({"version": edit(VERSIONS, "v2", number=3)}, "records.files.version[1].number"),
        (
            {"version": edit(VERSIONS, "v2", created_at="2025-01-01T00:00:00Z")},
            "records.files.version[1].created_at",
        ),
        (
            {"version": edit(VERSIONS, "v2", created_at="2027-01-01T00:00:00Z")},
            "records.files.version[1].created_at",
        ),
        ({"version": edit(VERSIONS, "v2", text=None, base64=PNG)}, "records.files.version[1].text"),
        ({"version": edit(VERSIONS, "v2", base64=PNG)}, "records.files.version[1]"),
        ({"version": edit(VERSIONS, "v4", base64="?")}, "records.files.version[3].base64"),
        ({"version": edit(VERSIONS, "v4", file_id="f-no")}, "records.files.version[3].file_id"),
    ],
)
def test_impossible_records_are_found_with_their_place(records: dict[str, Any], where: str) -> None:
    with pytest.raises(SpecError) as error:
        files(**records)
    assert where in [problem.where for problem in error.value.problems]


FUZZED = files()
IDS = [record["id"] for record in (*FOLDERS, *FILE_RECORDS)]
QUERIES = [
    "name:",
    "type:",
    "owner:",
    "modified_after:",
    "me",
    "2026-01-01",
    '"',
    "-",
    "%",
    "x",
    "ä",
    " ",
    "9999-12-31",
]
TEXTS = st.one_of(
    st.text(max_size=30),
    st.sampled_from([*IDS, "omar", "Dana", PNG, "text/plain"]),
    st.lists(st.sampled_from(QUERIES), max_size=10).map("".join),
)


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_no_arguments_break_a_tool_and_hidden_text_never_comes_out(data: st.DataObject) -> None:
    world = World.open(FUZZED)
    clerk = agent_desk(world, expose(FUZZED.workplace, None))
    for _ in range(3):
        tool = data.draw(st.sampled_from([tool for tool in clerk.tools if tool.startswith("files_")]))
        schema = clerk.tools[tool].input_schema
        strategies: dict[str, st.SearchStrategy[Any]] = {}
        for name, kind in schema["properties"].items():
            number = st.one_of(st.integers(-1, 30), st.integers())
            strategies[name] = number if kind["type"] == "integer" else TEXTS
            if "enum" in kind:
                strategies[name] = st.sampled_from(kind["enum"])
        chosen = {name for name in strategies if name in schema.get("required", ()) or data.draw(st.booleans())}
        result = clerk.call(tool, {name: data.draw(strategies[name]) for name in sorted(chosen)})
        assert "hidden budget" not in result.text
        assert "salaries" not in result.text
    world.close()


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.sampled_from([None, 0, 1, 2, 3]), min_size=1, max_size=5),
    st.lists(st.sampled_from([None, "reader", "editor", "owner"]), min_size=5, max_size=5),
    st.sampled_from([None, "reader", "editor", "owner"]),
)
def test_search_listing_and_reading_agree_on_who_sees_what(
    parents: list[int | None], roles: list[str | None], file_role: str | None
) -> None:
    def rights(role: str | None) -> dict[str, Any]:
        return {
            "owner": NORA if role == "owner" else PRIYA,
            "shares": {} if role in {None, "owner"} else {NORA: role},
        }

    folders = [
        {
            "id": f"d{n}",
            "name": f"d{n}",
            "parent": None if parent is None or parent >= n else f"d{parent}",
            **rights(roles[n]),
        }
        for n, parent in enumerate(parents)
    ]
    last = f"d{len(parents) - 1}"
    file = {"id": "f", "folder_id": last, "name": "f.txt", **rights(file_role)}
    version = {"id": "v", "file_id": "f", "number": 1, "author": PRIYA, "created_at": OLD, "text": "words"}
    clerk = desk(files(folder=folders, file=[file], version=[version]))
    readable = clerk.call("files_read", {"file_id": "f"}).ok
    searched = clerk.call("files_search", {"query": "words"}).value
    top = clerk.call("files_list", {}).value
    folder = clerk.call("files_list", {"folder_id": last}).value
    assert searched is not None
    assert top is not None
    assert readable == bool(found(searched))
    assert readable == bool(found(top) or (folder is not None and found(folder)))
    assert not (found(top) and folder is not None)
