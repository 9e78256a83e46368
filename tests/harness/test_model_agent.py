"""The model agent, through litellm, against a real server on the loopback."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from typing import Any

import anyio
import pytest

from harness.agents.limiter import Limiter
from harness.agents.model import ModelAgent, load_litellm
from harness.environment import Environment
from harness.episode import run_episode
from harness.trajectory import Trajectory
from servers.errors import CoworkEnvError
from synth.families.ticket_routing import TICKET_ROUTING
from tests.harness.model_server import (
    ModelServer,
    Said,
    answer,
    calls,
    free_port,
    refusal,
    roles,
    serving,
    words,
)

KEY = "sk-test-0123456789abcdef"


@pytest.fixture(scope="module")
def server() -> Iterator[ModelServer]:
    with serving() as running:
        yield running


@pytest.fixture(scope="module")
def environment() -> Environment:
    return TICKET_ROUTING.make("model-agent", 2)


class Pauses:
    """Time that passes only when somebody sleeps."""

    def __init__(self) -> None:
        self.now = 0.0
        self.slept: list[float] = []

    def clock(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds
        await anyio.lowlevel.checkpoint()


def play(
    environment: Environment, address: str, pauses: Pauses | None = None, model: str = "openai/m", **settings: Any
) -> Trajectory:
    pauses = pauses or Pauses()

    async def episode() -> Trajectory:
        agent = ModelAgent(
            "model", model, api_base=address, api_key=KEY, clock=pauses.clock, sleep=pauses.sleep, **settings
        )
        try:
            return await run_episode(environment, agent, seed=7)
        finally:
            await agent.close()

    return anyio.run(episode)


def solution(environment: Environment) -> list[Said]:
    return [words(step.say) if step.call is None else calls((step.call, step.arguments)) for step in environment.oracle]


def tools(environment: Environment) -> list[str]:
    """The two that solve it: one to look, one to assign."""
    return [step.call for step in environment.oracle if step.call is not None]


def test_a_model_that_says_the_right_things_solves_an_environment(
    server: ModelServer, environment: Environment
) -> None:
    server.says(*solution(environment))
    trajectory = play(environment, server.address, temperature=0.5, max_tokens=300)
    assert trajectory.status == "done"
    assert trajectory.score is not None
    assert trajectory.score.passed
    assert trajectory.usage == {"prompt_tokens": 300, "completion_tokens": 30, "cost": 0}
    first, second, third = server.requests
    assert roles(first["messages"]) == ["system", "user"]
    assert roles(third["messages"]) == ["system", "user", "assistant", "tool", "assistant", "tool"]
    assert third["messages"][3]["tool_call_id"] == second["messages"][2]["tool_calls"][0]["id"]
    assert (first["temperature"], first["max_tokens"], first["seed"]) == (0.5, 300, 7)


def test_tools_are_offered_exactly_as_mcp_lists_them(server: ModelServer, environment: Environment) -> None:
    server.says(*solution(environment))
    trajectory = play(environment, server.address)
    offered = [tool["function"] for tool in server.requests[0]["tools"]]
    listed = [
        {"name": tool["name"], "description": tool["description"], "parameters": tool["input_schema"]}
        for tool in trajectory.tools
    ]
    assert offered == listed


def test_parallel_calls_are_all_answered_in_order(server: ModelServer, environment: Environment) -> None:
    search, assign, report = environment.oracle
    both = calls((search.call or "", {}), (assign.call or "", assign.arguments))
    server.says(both, words(report.say))
    trajectory = play(environment, server.address)
    assert trajectory.score is not None
    assert trajectory.score.passed
    assert roles(server.requests[1]["messages"])[2:] == ["assistant", "tool", "tool"]


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        ("{bad", "no JSON"),
        ("[1]", "no JSON object"),
        ('"SUP-1"', "no JSON object"),
        ('{"ticket_id": NaN}', "no JSON"),
        ('{"ticket_id": "\\ud800"}', "no JSON"),
    ],
)
def test_arguments_that_cannot_be_read_are_told_to_the_model_and_nothing_is_called(
    server: ModelServer, environment: Environment, arguments: str, hint: str
) -> None:
    look, assign = tools(environment)
    server.says(calls((assign, arguments)), *solution(environment))
    trajectory = play(environment, server.address)
    assert trajectory.score is not None
    assert trajectory.score.passed
    [call] = trajectory.messages[2].calls
    assert call.arguments == {"unreadable": arguments}
    assert trajectory.messages[3].is_error
    assert f"{assign} was not called" in trajectory.messages[3].content
    assert hint in trajectory.messages[3].content
    assert [entry.tool for entry in trajectory.journal] == [look, assign]
    # Providers read the arguments of earlier calls; they have to be JSON by then.
    repeated = server.requests[1]["messages"][2]["tool_calls"][0]["function"]["arguments"]
    assert json.loads(repeated) == {"unreadable": arguments}


def test_a_call_that_was_cut_off_says_so(server: ModelServer, environment: Environment) -> None:
    server.says(calls((tools(environment)[1], '{"ticket'), finish="length"), *solution(environment))
    trajectory = play(environment, server.address)
    assert "cut off" in trajectory.messages[3].content
    assert trajectory.extra["finish_reasons"][0] == "length"


def test_no_arguments_at_all_are_an_empty_object(server: ModelServer, environment: Environment) -> None:
    server.says(calls((tools(environment)[0], "")), *solution(environment)[1:])
    trajectory = play(environment, server.address)
    assert trajectory.journal[0].error is None
    assert trajectory.score is not None
    assert trajectory.score.passed


def test_an_unknown_tool_is_refused_with_the_tools_there_are(server: ModelServer, environment: Environment) -> None:
    look, _ = tools(environment)
    server.says(calls((f"{look}_", {})), *solution(environment))
    trajectory = play(environment, server.address)
    assert trajectory.messages[3].is_error
    assert look in trajectory.messages[3].content
    assert trajectory.score is not None
    assert trajectory.score.passed


def test_a_call_without_a_name_is_told_to_the_model(server: ModelServer, environment: Environment) -> None:
    server.says(calls(("", {})), *solution(environment))
    trajectory = play(environment, server.address)
    assert "without the name of a tool" in trajectory.messages[3].content
    assert server.requests[1]["messages"][2]["tool_calls"][0]["function"]["name"]


def test_missing_and_repeated_call_ids_are_mended(server: ModelServer, environment: Environment) -> None:
    function = {"name": tools(environment)[0], "arguments": "{}"}
    two = [{"id": "", "type": "function", "function": function}] * 2
    server.says(answer({"role": "assistant", "content": None, "tool_calls": two}), *solution(environment))
    trajectory = play(environment, server.address)
    made = [call.id for message in trajectory.messages for call in message.calls]
    assert len(set(made)) == len(made) == 4
    assert all(made)


@pytest.mark.parametrize("nothing", [None, "", "  "])
def test_an_empty_answer_is_an_empty_answer(server: ModelServer, environment: Environment, nothing: str | None) -> None:
    server.says(words(nothing))
    trajectory = play(environment, server.address)
    assert (trajectory.status, trajectory.reason) == ("done", "user_stop")
    assert trajectory.score is not None
    assert trajectory.score.total == 0
    assert not trajectory.messages[2].content.strip()


def test_the_thoughts_of_a_model_are_kept(server: ModelServer, environment: Environment) -> None:
    server.says(words("Hello.", reasoning_content="I do not know."))
    assert play(environment, server.address).extra["reasoning"] == ["I do not know."]


def test_an_endpoint_that_is_down_is_tried_again_and_then_named(environment: Environment) -> None:
    pauses = Pauses()
    trajectory = play(environment, f"http://127.0.0.1:{free_port()}/v1", pauses, retries=3)
    assert trajectory.status == "infra"
    assert trajectory.score is None
    assert "cannot be reached" in trajectory.reason
    assert "api_base" in trajectory.reason
    assert len(pauses.slept) == 3
    assert pauses.slept == sorted(pauses.slept)


def test_an_answer_that_does_not_come_is_an_infra_timeout(server: ModelServer, environment: Environment) -> None:
    server.says(Said("", never=True))
    trajectory = play(environment, server.address, timeout=0.2, retries=0)
    assert trajectory.status == "infra"
    assert "no answer within 0.2 s" in trajectory.reason


def test_a_rate_limit_is_waited_out_as_long_as_the_provider_says(server: ModelServer, environment: Environment) -> None:
    pauses = Pauses()
    limiter = Limiter(clock=pauses.clock, sleep=pauses.sleep)
    server.says(refusal(429, "slow down", {"retry-after": "7"}), *solution(environment))
    trajectory = play(environment, server.address, pauses, limiter=limiter)
    assert trajectory.score is not None
    assert trajectory.score.passed
    assert pauses.slept == [7]
    assert limiter.limit < 4


def test_a_date_to_retry_after_counts_from_the_providers_own_clock(
    server: ModelServer, environment: Environment
) -> None:
    pauses = Pauses()
    dates = {"date": "Fri, 01 Jan 1999 00:00:00 GMT", "retry-after": "Fri, 01 Jan 1999 00:00:30 GMT"}
    server.says(refusal(429, "slow down", dates), *solution(environment))
    assert play(environment, server.address, pauses).status == "done"
    assert pauses.slept == [30]


def test_errors_of_the_server_are_tried_again(server: ModelServer, environment: Environment) -> None:
    pauses = Pauses()
    server.says(refusal(500, "boom"), Said("<html>bad gateway</html>", 502), *solution(environment))
    trajectory = play(environment, server.address, pauses)
    assert trajectory.status == "done"
    assert trajectory.score is not None
    assert trajectory.score.passed
    assert len(pauses.slept) == 2


def test_errors_of_the_server_that_stay_are_infra(server: ModelServer, environment: Environment) -> None:
    server.says(refusal(500, "boom"))
    trajectory = play(environment, server.address, retries=2)
    assert trajectory.status == "infra"
    assert "boom" in trajectory.reason
    assert len(server.requests) == 3


NONSENSE = {
    "no JSON": "<html>hello</html>",
    "a list": [1, 2],
    "no choices": {"id": "1", "object": "chat.completion", "created": 1, "model": "m", "choices": []},
    "choices missing": {"id": "1"},
    "choices null": {"id": "1", "object": "chat.completion", "created": 1, "model": "m", "choices": None},
    "content of a wrong type": answer({"role": "assistant", "content": ["a", 1]}).body,
    "calls of a wrong type": answer({"role": "assistant", "content": None, "tool_calls": "none"}).body,
}


# The OpenAI client serializes what it was sent, and pydantic warns about types that are wrong on purpose here.
@pytest.mark.filterwarnings("ignore:Pydantic serializer warnings:UserWarning")
@pytest.mark.parametrize("body", NONSENSE.values(), ids=list(NONSENSE))
def test_an_answer_that_is_none_is_infra(server: ModelServer, environment: Environment, body: object) -> None:
    server.says(Said(body))
    trajectory = play(environment, server.address, retries=1)
    assert trajectory.status == "infra"
    assert "the answer was none" in trajectory.reason
    assert len(server.requests) == 2


@pytest.mark.filterwarnings("ignore:Pydantic serializer warnings:UserWarning")
def test_ids_and_arguments_of_unusual_types_are_read_all_the_same(
    server: ModelServer, environment: Environment
) -> None:
    function = {"name": tools(environment)[0], "arguments": {"query": "x"}}
    call = {"id": 5, "type": "function", "function": function}
    server.says(answer({"role": "assistant", "content": None, "tool_calls": [call]}), *solution(environment))
    trajectory = play(environment, server.address)
    assert trajectory.journal[0].arguments == {"query": "x"}
    assert trajectory.score is not None
    assert trajectory.score.passed


@pytest.mark.parametrize(
    ("status", "advice"),
    [(401, "key"), (403, "key"), (404, "no such model"), (400, "was refused"), (422, "was refused")],
)
def test_a_refusal_is_infra_at_once_and_says_what_to_check(
    server: ModelServer, environment: Environment, status: int, advice: str
) -> None:
    server.says(refusal(status, "no"))
    trajectory = play(environment, server.address)
    assert trajectory.status == "infra"
    assert advice in trajectory.reason
    assert len(server.requests) == 1


def test_outgrowing_the_context_window_is_the_agents_own_fault_and_is_graded(
    server: ModelServer, environment: Environment
) -> None:
    search, assign, _ = solution(environment)
    message = "This model's maximum context length is 4096 tokens. However, you requested 5000 tokens."
    server.says(search, assign, refusal(400, message, code="context_length_exceeded"))
    trajectory = play(environment, server.address)
    assert trajectory.status == "failed"
    assert "context window" in trajectory.reason
    assert trajectory.score is not None
    assert trajectory.score.completion == 1


@pytest.mark.parametrize("status", [400, 401, 429, 500])
def test_a_key_that_the_provider_repeats_is_nowhere_in_the_trajectory(
    server: ModelServer, environment: Environment, status: int
) -> None:
    server.says(refusal(status, f"Incorrect API key provided: {KEY}"))
    trajectory = play(environment, server.address, retries=0)
    assert server.keys == [f"Bearer {KEY}"]
    assert "Incorrect API key provided: ***" in trajectory.reason
    assert KEY not in trajectory.model_dump_json()


def test_settings_name_the_model_and_no_secret() -> None:
    agent = ModelAgent(
        "model",
        "openai/m",
        temperature=0.2,
        api_base="https://user:hidden-password@host/v1",
        api_key=KEY,
        extra={"extra_headers": {"X-Team": "team-secret-1"}, "max_completion_tokens": 9, "reasoning_effort": "low"},
    )
    assert agent.settings == {
        "model": "openai/m",
        "temperature": 0.2,
        "extra": {"extra_headers": "***", "max_completion_tokens": 9, "reasoning_effort": "low"},
    }


def test_many_episodes_share_one_model_without_mixing_their_conversations(
    server: ModelServer, environment: Environment
) -> None:
    server.says(words("Hello."))
    pauses = Pauses()

    async def episodes() -> list[Trajectory]:
        agent = ModelAgent("model", "openai/m", api_base=server.address, api_key=KEY, clock=pauses.clock)
        done: list[Trajectory] = []

        async def one(trial: int) -> None:
            done.append(await run_episode(environment, agent, trial=trial, seed=trial))

        async with anyio.create_task_group() as group:
            for trial in range(12):
                group.start_soon(one, trial)
        await agent.close()
        return done

    done = anyio.run(episodes)
    assert sorted(trajectory.trial for trajectory in done) == list(range(12))
    assert sorted(request["seed"] for request in server.requests) == list(range(12))
    assert all(trajectory.status == "done" for trajectory in done)


@pytest.mark.parametrize("model", ["nosuchprovider/m", "m", "openai/"])
def test_a_model_that_litellm_does_not_know_is_infra(server: ModelServer, environment: Environment, model: str) -> None:
    server.says(refusal(404, "no such model"))
    trajectory = play(environment, server.address, model=model)
    assert trajectory.status == "infra"
    assert "Check the model's name" in trajectory.reason


def test_prices_that_are_known_are_added_up(server: ModelServer, environment: Environment) -> None:
    server.says(*solution(environment))
    prices = {"input_cost_per_token": 1e-6, "output_cost_per_token": 5e-6}
    trajectory = play(environment, server.address, extra=prices)
    assert trajectory.usage["cost"] == pytest.approx(3 * (100 * 1e-6 + 10 * 5e-6))


def test_litellm_reads_its_own_prices_unless_told_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LITELLM_LOCAL_MODEL_COST_MAP", raising=False)
    load_litellm()
    assert os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] == "True"
    monkeypatch.setenv("LITELLM_LOCAL_MODEL_COST_MAP", "False")
    load_litellm()
    assert os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] == "False"


def test_without_litellm_the_agent_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(CoworkEnvError, match=r"pip install -e '.\[models\]'"):
        ModelAgent("model", "openai/m")
