"""The world graph: whatever the seed, one consistent company with its people and customers."""

from __future__ import annotations

from datetime import datetime

from hypothesis import given, settings
from hypothesis import strategies as st

from synth.graph import WorldGraph, build_graph, data
from synth.streams import stream

MANY = settings(max_examples=60, deadline=None, derandomize=True)
graphs = st.text(max_size=20).map(build_graph)


@MANY
@given(graphs)
def test_addresses_and_names_are_unique(graph: WorldGraph):
    for values in ([p.email for p in graph.cast], [p.name for p in graph.cast], [c.name for c in graph.customers]):
        assert len(set(values)) == len(values)


@MANY
@given(graphs)
def test_everybody_has_a_manager_who_exists_and_only_the_head_has_none(graph: WorldGraph):
    people = {person.email: person for person in graph.people}
    assert [person.email for person in graph.people if person.manager is None] == [graph.people[0].email]
    for person in graph.people[1:]:
        chain = [person.email]
        while (manager := people[chain[-1]].manager) is not None:
            assert manager not in chain
            chain.append(manager)


@MANY
@given(graphs)
def test_each_department_has_a_lead_who_may_approve(graph: WorldGraph):
    for department in data("people.yaml")["departments"]:
        people = graph.department(department)
        assert people
        assert any("approver" in person.roles for person in people)
        others = [person for person in people if "approver" not in person.roles]
        assert all(person.manager in {lead.email for lead in people} for person in others)


@MANY
@given(graphs)
def test_employees_are_inside_and_customers_outside(graph: WorldGraph):
    assert all(person.email.endswith(f"@{graph.domain}") and not person.external for person in graph.people)
    for customer in graph.customers:
        assert customer.contact.external
        assert customer.contact.email.endswith(f"@{customer.domain}")
        assert customer.domain != graph.domain
        assert customer.manager in graph.department("Sales")


@MANY
@given(graphs)
def test_some_customers_are_vips_and_some_are_not(graph: WorldGraph):
    assert {customer.tier for customer in graph.customers} == {"vip", "standard"}


@MANY
@given(graphs)
def test_the_principal_is_one_of_the_people_and_starts_on_a_workday_morning(graph: WorldGraph):
    assert graph.principal in graph.people[1:]
    begins = datetime.fromtimestamp(graph.start, graph.zone)
    assert begins.weekday() < 3
    assert begins.hour == 9
    assert begins.date() == graph.today


@MANY
@given(graphs, st.integers(-3, 20))
def test_a_local_time_on_another_day_is_that_time_there(graph: WorldGraph, day: int):
    moment = datetime.fromtimestamp(graph.at(day, "14:30"), graph.zone)
    assert (moment.hour, moment.minute) == (14, 30)
    assert (moment.date() - graph.today).days == day


@MANY
@given(st.text(max_size=20))
def test_the_same_seed_gives_the_same_world_and_another_seed_another_one(seed: str):
    assert build_graph(seed) == build_graph(seed)
    assert build_graph(seed).people != build_graph(f"{seed}!").people


@MANY
@given(st.text(max_size=20), st.lists(st.text(max_size=5), max_size=3))
def test_streams_depend_on_seed_and_path_alone(seed: str, path: list[str]):
    assert [stream(seed, *path).random() for _ in range(2)] == [stream(seed, *path).random()] * 2
    assert stream(seed, *path).random() != stream(seed, *path, "more").random()
