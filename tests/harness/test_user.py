"""The scripted user: what it tells, when it changes its mind, and when it leaves."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from harness.user import PATIENCE, ScriptedUser, UserSpec

BUDGET = {"id": "budget", "text": "Up to EUR 500.", "topics": ["budget", "how much"]}
WHO = {"id": "who", "text": "Dana Fox, the designer.", "topics": ["Dana", "e-mail"]}
PLACE = {"id": "place", "text": "In Berlin, please.", "disclose": "volunteered"}
SALARY = {"id": "salary", "text": "EUR 90,000.", "disclose": "never", "topics": ["salary"]}


def user(*facts: dict[str, Any], **spec: Any) -> ScriptedUser:
    return ScriptedUser(UserSpec.model_validate({"facts": facts, **spec}))


def test_a_fact_is_told_when_a_question_is_about_it() -> None:
    asked = user(BUDGET, WHO).reply("What is the BUDGET?")
    assert (asked.text, asked.stop, asked.disclosed) == ("Up to EUR 500.", False, ("budget",))


def test_without_a_question_mark_nothing_is_asked_and_the_user_leaves() -> None:
    reply = user(BUDGET).reply("I kept to the budget.")
    assert (reply.text, reply.stop, reply.disclosed) == ("", True, ())


def test_topics_are_whole_words_in_their_order() -> None:
    assert user(BUDGET).reply("How  much may it cost?").disclosed == ("budget",)
    assert user(BUDGET).reply("Somehow much more?").disclosed == ()
    assert user(BUDGET).reply("Much more, but how?").disclosed == ()
    assert user(BUDGET).reply("Are budgets set?").disclosed == ()
    assert user(WHO).reply("By e-mail?").disclosed == ("who",)
    assert user(WHO).reply("Dana?").disclosed == ("who",)


def test_one_question_may_be_about_several_facts_and_they_come_in_the_order_of_the_file() -> None:
    reply = user(BUDGET, WHO).reply("Is it for Dana, and on what budget?")
    assert reply.disclosed == ("budget", "who")
    assert reply.text == "Up to EUR 500. Dana Fox, the designer."


def test_a_volunteered_fact_comes_with_the_first_answer_and_once() -> None:
    talker = user(PLACE)
    assert talker.reply("I begin.").disclosed == ("place",)
    assert talker.reply("Done.").stop


def test_a_fact_that_is_never_told_is_refused_in_words() -> None:
    reply = user(SALARY).reply("What is the salary?")
    assert "90,000" not in reply.text
    assert reply.text == UserSpec().unwilling
    assert (reply.stop, reply.disclosed) == (False, ())


@given(st.lists(st.text(alphabet="salary budget?.", max_size=30), max_size=6))
def test_what_is_never_told_is_never_told(said: list[str]) -> None:
    secretive = user(SALARY, BUDGET)
    assert all("90,000" not in secretive.reply(text).text for text in said)


def test_the_same_question_gets_the_same_answer_again() -> None:
    talker = user(BUDGET)
    assert talker.reply("The budget?") == talker.reply("The budget?")


def test_the_user_loses_patience_with_questions_that_lead_nowhere() -> None:
    talker = user(BUDGET)
    for _ in range(PATIENCE):
        reply = talker.reply("What is the meaning of it all?")
        assert (reply.text, reply.stop) == (UserSpec().unknown, False)
    assert talker.reply("What is the meaning of it all?").stop
    assert user(BUDGET).reply("What else?").stop is False


def test_corrections_come_after_the_turn_they_name_and_keep_the_user_there() -> None:
    talker = user(BUDGET, corrections=[{"turn": 2, "text": "Make it Tuesday."}, {"turn": 2, "text": "At noon."}])
    assert talker.reply("The budget?").text == "Up to EUR 500."
    reply = talker.reply("Booked, within the budget?")
    assert (reply.text, reply.stop) == ("Make it Tuesday. At noon. Up to EUR 500.", False)
    assert talker.reply("Done.").stop


def test_the_users_own_phrases_are_used() -> None:
    spec = {"unknown": "No idea.", "unwilling": "That is private."}
    assert user(**spec).reply("Why?").text == "No idea."
    assert user(SALARY, **spec).reply("The salary?").text == "That is private."


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"facts": [{"id": "a", "text": "b"}]}, "expected topics"),
        ({"facts": [{"id": "a", "text": "b", "topics": ["..."]}]}, "pattern"),
        ({"facts": [BUDGET, BUDGET]}, "same id: budget"),
        ({"corrections": [{"turn": 0, "text": "x"}]}, "greater than or equal to 1"),
        ({"facts": [{**BUDGET, "disclose": "sometimes"}]}, "volunteered"),
    ],
)
def test_a_user_that_makes_no_sense_is_refused(spec: dict[str, Any], words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        UserSpec.model_validate(spec)
