"""Repair: what fixers mend, and that nothing is let through that they cannot mend."""

from __future__ import annotations

from typing import Any

import anyio

from harness.environment import Environment
from synth.certify import Certificate
from synth.repair import certify_and_repair
from tests.synth.support import BY_NAME, check, handwritten, proven, with_check, with_step

VACUOUS = {"id": "asked", "kind": "record", "type": "mail.message", "where": {"id": "question"}}


def repaired(data: dict[str, Any] | Environment) -> tuple[Environment, Certificate, int]:
    environment = data if isinstance(data, Environment) else Environment.parse(data)
    return anyio.run(certify_and_repair, environment)


def test_a_good_environment_is_left_as_it_is():
    environment = Environment.parse(handwritten())
    same, certificate, mended = repaired(environment)
    assert same is environment
    assert certificate.accepted
    assert mended == 0


def test_a_goal_that_holds_from_the_beginning_becomes_a_guard():
    better, certificate, mended = repaired(handwritten(checks=[*handwritten()["checks"], VACUOUS]))
    assert certificate.accepted
    assert mended == 1
    assert {check.id for check in better.checks if check.guard} == {"nothing-else", "asked"}


def test_a_report_that_can_be_claimed_comes_to_need_the_work():
    report = {"id": "report", "kind": "states", "source": "final", "facts": ["Klara Voss"], "watch": ["id"]}
    data = handwritten(
        checks=[*handwritten()["checks"], report], oracle=with_step(4, say="The draft for Klara Voss is saved.")
    )
    better, certificate, mended = repaired(data)
    assert certificate.accepted
    assert mended == 1
    assert next(check for check in better.checks if check.id == "report").needs == ["draft"]


def test_a_grader_that_overlooks_damage_gets_a_closed_world():
    better, certificate, mended = repaired(handwritten(checks=[check("draft"), check("facts")]))
    assert certificate.accepted
    assert mended == 1
    closed = better.checks[-1]
    assert closed.kind == "changes"
    assert [(entry.type, entry.operations, entry.at_most) for entry in closed.allow] == [("mail.draft", ["created"], 1)]


def test_a_closed_world_names_the_record_and_the_fields_that_may_change():
    environment = BY_NAME["ticket_routing"].make("repair", 2)
    goals = [check for check in environment.checks if not check.guard]
    better, certificate, _ = repaired(
        Environment.parse(environment.dump() | {"checks": [g.model_dump(by_alias=True) for g in goals]})
    )
    assert certificate.accepted
    (entry,) = better.checks[-1].allow
    assert (entry.type, entry.operations, entry.fields) == ("desk.ticket", ["updated"], ["owner"])
    assert entry.where == {"id": goals[0].key}


def test_a_closed_world_takes_a_name_that_is_free():
    checks = [check("draft") | {"id": "nothing-else"}, check("facts")]
    better, certificate, _ = repaired(handwritten(checks=checks))
    assert certificate.accepted
    assert [check.id for check in better.checks] == ["nothing-else", "facts", "nothing-else-2"]


def test_several_defects_are_mended_one_after_the_other():
    _, certificate, mended = repaired(handwritten(checks=[check("draft"), check("facts"), VACUOUS]))
    assert certificate.accepted
    assert mended == 2


def test_what_was_mended_holds_when_it_is_certified_afresh():
    better, _, _ = repaired(handwritten(checks=[check("draft"), check("facts"), VACUOUS]))
    assert proven(Environment.parse(better.dump())).accepted


def test_what_no_fixer_mends_is_rejected_with_its_defects():
    for broken in (
        handwritten(oracle=[]),
        handwritten(checks=[check("nothing-else")]),
        handwritten(oracle=with_step(1, arguments={"message_id": "nowhere"})),
        handwritten(checks=with_check("facts", facts=["ORD-2041"], watch=["id"])),
        handwritten(checks=[VACUOUS]),
    ):
        _, certificate, _ = repaired(broken)
        assert not certificate.accepted
        assert certificate.defects


def test_an_only_goal_is_never_turned_into_a_guard():
    environment, certificate, mended = repaired(handwritten(checks=[VACUOUS]))
    assert not environment.checks[0].guard
    assert mended == 0
    assert {defect.code for defect in certificate.defects} == {"vacuous_goal"}
