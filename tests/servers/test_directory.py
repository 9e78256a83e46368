from __future__ import annotations

import pytest

from servers.services.directory import DIRECTORY
from tests.support import DANA, DANA_K, NORA, desk, office, over_mcp

pytestmark = pytest.mark.anyio


async def test_an_ambiguous_first_name_is_refused_with_everyone_it_fits() -> None:
    async with over_mcp(desk(office([DIRECTORY]))) as agent:
        words = await agent.refused("directory_get", person="Dana")
    assert DANA in words
    assert DANA_K in words


async def test_a_person_shows_manager_reports_and_local_time() -> None:
    async with over_mcp(desk(office([DIRECTORY]))) as agent:
        dana = await agent.ok("directory_get", person="Dana Fox")
        priya = await agent.ok("directory_get", person="priya")
    assert dana["manager"]["name"] == "Priya Raman"
    assert dana["local_time"].endswith("+09:00")
    assert NORA in priya["direct_reports"]


async def test_a_misspelt_name_is_refused_with_the_closest() -> None:
    async with over_mcp(desk(office([DIRECTORY]))) as agent:
        words = await agent.refused("directory_get", person="Nora Lint")
    assert NORA in words


async def test_pages_join_up_and_a_cursor_is_good_for_one_query_only() -> None:
    async with over_mcp(desk(office([DIRECTORY]))) as agent:
        everyone = await agent.ok("directory_search")
        names: list[str] = []
        cursor = None
        while True:
            arguments = {"page_size": 2} | ({"cursor": cursor} if cursor else {})
            part = await agent.ok("directory_search", **arguments)
            names += [person["email"] for person in part["people"]]
            cursor = part["next_cursor"]
            if cursor is None:
                break
        first = await agent.ok("directory_search", page_size=2)
        words = await agent.refused("directory_search", query="dana", cursor=first["next_cursor"])
    assert names == [person["email"] for person in everyone["people"]]
    assert "Start again" in words
