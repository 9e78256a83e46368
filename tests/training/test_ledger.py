"""The token ledger keeps who said what, and refuses what does not fit."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from training.errors import LedgerError
from training.ledger import ContextBudget, TokenLedger

ids = st.lists(st.integers(0, 49_151), min_size=1, max_size=8)
turn = st.lists(st.tuples(st.integers(0, 49_151), st.floats(-30, 0)), min_size=1, max_size=8)
episodes = st.tuples(ids, st.lists(st.tuples(turn, ids), max_size=5), turn, st.booleans())


def filled(episode) -> TokenLedger:
    prompt, middle, last, ends_in_bridge = episode
    ledger = TokenLedger(10_000)
    assert ledger.prompt(prompt) is None
    for sampled, bridge in middle:
        assert ledger.sampled([i for i, _ in sampled], [p for _, p in sampled], "stop") is None
        assert ledger.bridge(bridge) is None
    assert ledger.sampled([i for i, _ in last], [p for _, p in last], "length") is None
    if ends_in_bridge:
        assert ledger.bridge([7]) is None
    return ledger


@given(episodes)
def test_ids_are_the_concatenation_of_what_was_added(episode):
    prompt, middle, last, ends_in_bridge = episode
    expected = list(prompt)
    for sampled, bridge in middle:
        expected += [i for i, _ in sampled] + bridge
    expected += [i for i, _ in last] + ([7] if ends_in_bridge else [])
    assert list(filled(episode).ids) == expected


@given(episodes)
def test_a_token_is_trained_on_exactly_when_the_student_sampled_it(episode):
    ledger = filled(episode)
    sft, rollout = ledger.to_sft(), ledger.to_rollout()
    assert len(sft.input_ids) == len(sft.labels) == len(ledger.mask)
    assert [label != -100 for label in sft.labels] == [bool(mine) for mine in ledger.mask]
    assert all(label in {-100, token} for token, label in zip(sft.input_ids, sft.labels, strict=True))
    assert rollout.prompt_ids + rollout.completion_ids == sft.input_ids
    assert [0] * len(rollout.prompt_ids) + rollout.env_mask == ledger.mask
    assert len(rollout.completion_ids) == len(rollout.env_mask) == len(rollout.logprobs)
    assert all(mine or logprob == 0 for mine, logprob in zip(rollout.env_mask, rollout.logprobs, strict=True))


@given(episodes)
def test_turn_spans_cover_exactly_the_sampled_tokens(episode):
    row = filled(episode).to_rollout()
    covered = [place for start, end in row.turn_spans for place in range(start, end)]
    assert covered == [place for place, mine in enumerate(row.env_mask) if mine]
    assert all(end < start for (_, end), (start, _) in pairwise(row.turn_spans))


@given(episodes)
def test_a_stored_ledger_comes_back_equal(episode):
    ledger = filled(episode)
    back = TokenLedger.from_json(ledger.to_json())
    assert (back.ids, back.mask, back.turns, back.limit) == (
        ledger.ids,
        ledger.mask,
        ledger.turns,
        ledger.limit,
    )
    assert back.to_rollout() == ledger.to_rollout()


@given(episodes, st.integers(2, 60))
def test_a_piece_that_does_not_fit_is_refused_whole_and_changes_nothing(episode, limit):
    prompt, middle, last, _ = episode
    ledger = TokenLedger(limit)
    pieces = [(ledger.prompt, (prompt,))]
    for sampled, bridge in [*middle, (last, [1])]:
        pieces += [
            (ledger.sampled, ([i for i, _ in sampled], [p for _, p in sampled], "stop")),
            (ledger.bridge, (bridge,)),
        ]
    for add, arguments in pieces:
        before = ledger.ids
        refused = add(*arguments)
        assert len(ledger.ids) <= limit
        if refused is not None:
            assert isinstance(refused, ContextBudget)
            assert "context budget" in str(refused)
            assert ledger.ids == before
            return
        assert ledger.ids == before + tuple(arguments[0])


def test_after_a_prompt_or_bridge_there_is_always_room_for_one_token():
    ledger = TokenLedger(4)
    assert ledger.prompt([1, 2, 3, 4]) == ContextBudget(limit=4, used=0, needed=4, reserve=1)
    assert ledger.prompt([1, 2]) is None
    assert ledger.sampled([5], [-0.1], "stop") is None
    assert ledger.bridge([6]) == ContextBudget(limit=4, used=3, needed=1, reserve=1)
    assert ledger.room == 1


def test_a_demonstration_is_labelled_but_makes_no_rollout_row():
    ledger = TokenLedger(100)
    ledger.prompt([1, 2])
    ledger.demonstrated([3, 4])
    assert ledger.to_sft().labels == [-100, -100, 3, 4]
    with pytest.raises(LedgerError, match=r"to_sft\(\)"):
        ledger.to_rollout()
    assert TokenLedger.from_json(ledger.to_json()).turns == ledger.turns


@pytest.mark.parametrize(
    ("steps", "message"),
    [
        (lambda ledger: ledger.sampled([1], [-1.0], "stop"), "needs a prompt"),
        (lambda ledger: (ledger.prompt([1]), ledger.prompt([2])), "already has a prompt"),
        (lambda ledger: (ledger.prompt([1]), ledger.bridge([2])), "a bridge follows a turn"),
        (
            lambda ledger: (ledger.prompt([1]), ledger.demonstrated([2]), ledger.demonstrated([3])),
            "two turns in a row",
        ),
        (
            lambda ledger: (ledger.prompt([1]), ledger.sampled([2, 3], [-1.0], "stop")),
            "every token needs one",
        ),
        (lambda ledger: (ledger.prompt([1]), ledger.sampled([2], [float("nan")], "stop")), "finite number"),
        (lambda ledger: (ledger.prompt([1]), ledger.sampled([], [], "stop")), "at least one token"),
        (lambda ledger: ledger.prompt([]), "at least one token"),
    ],
)
def test_pieces_out_of_order_are_named(steps, message):
    with pytest.raises(LedgerError, match=message):
        steps(TokenLedger(100))


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda record: record["turns"][0].update(start=1), "turns.0. covers"),
        (lambda record: record["turns"][0]["logprobs"].pop(), "every token needs one"),
        (lambda record: record["ids"].pop(0), "expected a range between"),
        (lambda record: record.update(limit=3), "longer than its own limit"),
        (lambda record: record.update(prompt_length=0), "at least one token"),
        (lambda record: record.update(masks=[]), "not a stored token ledger"),
    ],
)
def test_a_damaged_record_does_not_load(damage, message):
    ledger = TokenLedger(50)
    ledger.prompt([1, 2])
    ledger.sampled([3, 4], [-1.0, -2.0], "stop")
    record = json.loads(ledger.to_json())
    damage(record)
    with pytest.raises(LedgerError, match=message):
        TokenLedger.from_json(json.dumps(record))
