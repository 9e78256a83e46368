"""Certificates: what is proven, what is refused, and in which words."""

from __future__ import annotations

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.agents.scripted import ScriptedAgent
from harness.environment import Environment, Step
from harness.episode import run_episode
from servers.journal import Actor
from servers.world import World
from synth.families import FAMILIES
from synth.harmless import harmless
from synth.mutants import mutants
from synth.program import Model
from synth.rehearse import Performance, Rehearsal
from tests.synth.support import (
    FEW,
    KLARA,
    OMAR,
    check,
    handwritten,
    only_defect,
    proven,
    with_check,
    with_step,
)


def test_the_handwritten_example_is_accepted_with_every_mutant_killed_and_every_variant_kept():
    certificate = proven(handwritten())
    assert certificate.accepted
    assert certificate.oracle == 1
    assert certificate.baselines == {"noop": 0, "read-only": 0, "claim": 0}
    assert len(certificate.mutants) >= 8
    assert not any(trial.passed for trial in certificate.mutants)
    assert all(trial.killed_by for trial in certificate.mutants)
    assert len(certificate.harmless) >= 6
    assert all(trial.passed for trial in certificate.harmless)


def test_the_summary_counts_what_was_played():
    certificate = proven(handwritten())
    summary = certificate.summary()
    assert summary["mutants_total"] == sum(summary["mutants"].values()) == summary["mutants_killed"]
    assert summary["harmless_total"] == sum(summary["harmless"].values()) == summary["harmless_kept"]
    assert summary["oracle"] == 1


def test_certifying_changes_nothing():
    environment = Environment.parse(handwritten())
    before = environment.dump()
    proven(environment)
    assert environment.dump() == before


# ---------------------------------------------------------------- defects of the parts


def test_a_spec_problem_is_a_defect_with_its_path_and_a_suggestion():
    defect = only_defect(checks=with_check("draft", type="mail.drafts"))
    assert (defect.code, defect.where) == ("spec", "checks[0].type")
    assert "mail.draft" in defect.fix


def test_an_environment_without_a_goal_is_refused():
    defect = only_defect(checks=[check("nothing-else")])
    assert (defect.code, defect.where) == ("no_goal", "checks")
    assert "what must be true" in defect.fix


def test_an_environment_without_an_oracle_is_refused():
    defect = only_defect(oracle=[])
    assert (defect.code, defect.where) == ("no_oracle", "oracle")


def test_hints_that_do_not_fit_are_found():
    hint = {"operator": "tidied_up", "steps": [], "insted": 2}
    defect = only_defect(meta={"hints": {"temptations": [hint]}})
    assert (defect.code, defect.where) == ("spec", "meta.hints.temptations[0].insted")


# ---------------------------------------------------------------- defects of the oracle


def test_a_refused_call_of_the_oracle_is_shown_with_the_words_of_the_refusal():
    certificate = proven(handwritten(oracle=with_step(1, arguments={"message_id": "nowhere"})))
    refused = next(defect for defect in certificate.defects if defect.code == "oracle_refused")
    assert refused.where == "oracle[1]"
    assert "nowhere" in refused.observed
    assert "Correct the call" in refused.fix


def test_a_reference_that_leads_nowhere_is_refused():
    broken = with_step(3, arguments={"reply_to_message_id": "$found.messages[0].id", "body": "ORD-2041"})
    refused = next(defect for defect in proven(handwritten(oracle=broken)).defects if defect.code == "oracle_refused")
    assert refused.where == "oracle[3]"
    assert "found" in refused.observed
    assert "bind" in refused.fix


def test_an_oracle_that_goes_on_after_the_user_has_left_is_refused():
    late = [*handwritten()["oracle"], {"call": "mail_search", "arguments": {"query": "Klara"}}]
    defect = only_defect(oracle=late)
    assert (defect.code, defect.where) == ("oracle_fails", "oracle[5]")
    assert "left" in defect.observed


def test_a_check_that_the_oracle_fails_is_named_with_what_was_wrong():
    wrong = with_check("facts", facts=["ORD-2041", "17 March 2026"])
    defect = only_defect(checks=wrong)
    assert (defect.code, defect.where, defect.check) == ("oracle_fails", "checks[1]", "facts")
    assert "2026-03-17" in defect.observed


def test_a_value_that_nothing_shows_is_not_obtainable():
    records = handwritten()["records"]
    records["mail.message"] = [row for row in records["mail.message"] if row["id"] != "correction"]
    defect = only_defect(records=records, oracle=[step for i, step in enumerate(handwritten()["oracle"]) if i != 2])
    assert (defect.code, defect.where) == ("not_obtainable", "oracle[2].arguments.body")
    assert "look it up" in defect.fix


def test_what_follows_from_what_was_read_may_be_listed_but_not_an_id():
    records = handwritten()["records"]
    records["mail.message"] = [row for row in records["mail.message"] if row["id"] != "correction"]
    oracle = [step for i, step in enumerate(handwritten()["oracle"]) if i != 2]
    changed = {"records": records, "oracle": oracle}
    assert proven(handwritten(**changed, meta={"hints": {"derived": ["16 March 2026"]}})).accepted
    oracle[2]["arguments"]["body"] = oracle[2]["arguments"]["body"].replace("ORD-2041", "ORD-7777")
    hints = {"derived": ["16 March 2026", "ORD-7777"]}
    checks = with_check("facts", facts=["ORD-7777", "16 March 2026"])
    defects = proven(handwritten(**changed, checks=checks, meta={"hints": hints})).defects
    assert "not_obtainable" in {defect.code for defect in defects}


def test_an_id_that_was_never_looked_up_is_not_obtainable():
    steps = [step for index, step in enumerate(handwritten()["oracle"]) if index not in (0, 1)]
    codes = {(defect.code, defect.where) for defect in proven(handwritten(oracle=steps)).defects}
    assert ("not_obtainable", "oracle[0].arguments.message_id") in codes
    assert ("not_obtainable", "oracle[1].arguments.reply_to_message_id") in codes


def test_a_value_may_be_written_otherwise_than_it_was_read():
    body = "Dear Klara, your order ORD-2041 comes on Monday, March 16th. Nora"
    arguments = {"reply_to_message_id": "question", "body": body}
    assert proven(handwritten(oracle=with_step(3, arguments=arguments))).accepted


def test_part_of_an_id_is_not_the_id():
    checks = with_check("facts", facts=["ORD-204", "16 March 2026"])
    arguments = {"reply_to_message_id": "question", "body": "ORD-204 comes on 16 March 2026."}
    defect = only_defect(checks=checks, oracle=with_step(3, arguments=arguments))
    assert (defect.code, defect.where) == ("not_obtainable", "oracle[3].arguments.body")


# ---------------------------------------------------------------- defects of the checks


def test_a_goal_that_holds_from_the_beginning_is_vacuous():
    goal = {"id": "asked", "kind": "record", "type": "mail.message", "where": {"id": "question"}}
    defect = only_defect(checks=[*handwritten()["checks"], goal])
    assert (defect.code, defect.where, defect.check) == ("vacuous_goal", "checks[3]", "asked")
    assert "at the beginning" in defect.observed
    assert "guard" in defect.fix


def test_a_goal_that_events_bring_about_is_vacuous():
    reminder = {"to": [KLARA], "subject": "Soon", "body": "Soon."}
    event = {"id": "omar", "when": {"after": "2h"}, "do": [{"by": OMAR, "tool": "mail_send", "arguments": reminder}]}
    goal = {"id": "told", "kind": "record", "type": "mail.message", "where": {"to": {"same_items": [KLARA]}}}
    certificate = proven(handwritten(events=[event], checks=[*handwritten()["checks"], goal]))
    vacuous = next(defect for defect in certificate.defects if defect.code == "vacuous_goal")
    assert (vacuous.where, vacuous.check) == ("checks[3]", "told")
    assert "through events alone" in vacuous.observed


def test_a_report_that_can_be_claimed_is_found():
    report = {"id": "report", "kind": "states", "source": "final", "facts": ["Klara Voss"]}
    oracle = with_step(4, say="The draft for Klara Voss is saved.")
    certificate = proven(handwritten(checks=[*handwritten()["checks"], report], oracle=oracle))
    found = next(defect for defect in certificate.defects if defect.code == "baseline_scores")
    assert found.where == "checks"
    assert "claim" in found.expected
    assert "report" in found.observed
    assert "needs" in found.fix


def test_a_mutant_that_survives_says_what_was_not_noticed():
    certificate = proven(handwritten(checks=with_check("facts", facts=["ORD-2041"], watch=["id"])))
    assert {defect.code for defect in certificate.defects} == {"mutant_survives"}
    assert any("wrong_value" in defect.expected and "oracle[3]" in defect.expected for defect in certificate.defects)
    assert all("sharpen a check" in defect.fix for defect in certificate.defects)
    assert not certificate.accepted


def test_collateral_damage_that_no_check_sees_lets_a_mutant_survive():
    certificate = proven(handwritten(checks=[check("draft"), check("facts")]))
    assert any("sent_not_drafted" in defect.expected for defect in certificate.defects)


def test_a_check_that_minds_the_wording_fails_a_harmless_variant():
    exact = {"id": "words", "kind": "record", "type": "mail.draft", "where": {"body": {"matches": "Dear Klara.* Nora"}}}
    certificate = proven(handwritten(checks=[*handwritten()["checks"], exact]))
    codes = {defect.code for defect in certificate.defects}
    assert codes == {"harmless_fails"}
    assert {defect.check for defect in certificate.defects} == {"words"}
    assert all("Loosen" in defect.fix for defect in certificate.defects)


def test_a_defect_reads_as_one_sentence_with_its_place():
    text = str(only_defect(oracle=[]))
    expected = "[no_oracle] oracle: expected steps that solve the environment; observed none."
    assert text == f"{expected} Write the calls that solve it."


# ---------------------------------------------------------------- rehearsal and episode are the same


async def _both(environment: Environment, choose: st.DataObject) -> None:
    async with Rehearsal(environment).connected() as rehearsal:
        oracle = await rehearsal.play(environment.oracle)
        model = Model(environment, oracle)
        variants = [*mutants(model), *harmless(model)]
        some = choose.draw(st.lists(st.sampled_from(range(len(variants))), min_size=4, max_size=6, unique=True))
        for program in [environment.oracle, *(variants[index].program for index in some)]:
            played = await rehearsal.play(program)
            state = rehearsal.world.state_hash()
            await _same_as_an_episode(environment, program, played, state)


async def _same_as_an_episode(
    environment: Environment, program: tuple[Step, ...] | list[Step], played: Performance, state: str
) -> None:
    real = await run_episode(environment, ScriptedAgent("script", lambda _: program))
    assert real.score is not None
    assert played.grade.score is not None
    assert real.score.model_dump() == {name: getattr(played.grade.score, name) for name in real.score.model_dump()}
    verdicts = [(found.check.id, found.verdict, found.detail) for found in played.grade.checks]
    assert [(found.id, found.verdict, found.detail) for found in real.checks] == verdicts
    assert real.state == state


@FEW
@given(family=st.sampled_from(FAMILIES), seed=st.integers(0, 10_000), level=st.integers(1, 9), choose=st.data())
def test_a_rehearsal_gives_the_grade_and_the_state_of_a_real_episode(family, seed, level, choose):
    environment = family.make(f"same-{seed}", 1 + level % family.levels)
    anyio.run(_both, environment, choose)


@pytest.mark.parametrize(
    "program",
    [
        [],
        [Step(say="Is it about Klara?")],
        [Step(call="mail_send", arguments={"to": ["$nobody"], "body": "x"})],
        [Step(call="no_such_tool")],
        [Step(say="One?"), Step(say="Two?"), Step(say="Three?"), Step(say="Four?"), Step(say="Five?")],
        [Step(call="mail_search", arguments={"query": "x"})] * 9,
    ],
)
def test_odd_programs_end_alike_in_rehearsal_and_episode(program):
    event = {"id": "omar", "when": {"after": "30s"}, "do": [{"by": OMAR, "tool": "mail_send",
             "arguments": {"to": [KLARA], "subject": "Soon", "body": "Soon."}}]}  # fmt: skip
    environment = Environment.parse(handwritten(events=[event], budget={"steps": 6}))

    async def play() -> None:
        async with Rehearsal(environment).connected() as rehearsal:
            played = await rehearsal.play(program)
            await _same_as_an_episode(environment, program, played, rehearsal.world.state_hash())

    anyio.run(play)


def test_the_order_in_which_programs_are_played_does_not_matter():
    environment = FAMILIES[0].make("order", 3)

    async def grades(backwards: bool) -> list[tuple[float, bool]]:
        async with Rehearsal(environment).connected() as rehearsal:
            model = Model(environment, await rehearsal.play(environment.oracle))
            programs = [variant.program for variant in (*mutants(model), *harmless(model))]
            if backwards:
                return [(p.total, p.passed) for p in [await rehearsal.play(q) for q in reversed(programs)]][::-1]
            return [(p.total, p.passed) for p in await rehearsal.play_all(programs)]

    assert anyio.run(grades, False) == anyio.run(grades, True)


def test_a_world_is_as_at_its_mark_after_rewinding():
    environment = Environment.parse(handwritten())
    world = World.open(environment.image)
    mark = world.mark()
    before = (world.state_hash(), world.now, world.turn, world.journal_length, world.dump("mail.draft"))
    for _ in range(2):
        result = world.call(
            "mail_create_draft",
            {"to": [KLARA], "body": "x"},
            Actor("agent", environment.principal),
        )
        assert result.ok
        world.advance(3600)
        world.end_turn()
        inner = world.mark()
        world.rewind(mark)
        assert (world.state_hash(), world.now, world.turn, world.journal_length, world.dump("mail.draft")) == before
        with pytest.raises(ValueError, match="gone"):
            world.rewind(inner)
    world.close()
