"""One engine over several nodes, as it is declared: who is a part of it, and what is refused before any contact."""

import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from declared_sites import GLM, PROJECT, node, one_line

from declare.load import load_fleet
from declare.problem import DeclarationError
from declare.site import find_site

Files = dict[str, str | bytes]
Refusal = Callable[[Files], tuple[str, ...]]
Write = Callable[[Mapping[str, str | bytes]], Path]
N2, N3, GROUP = "inventory/prod/n2.yaml", "inventory/prod/n3.yaml", "group_data/glm.yaml"
TWO = {N2: node(2), GROUP: GLM + "    nodes: [n1, n2]\n"}


def test_the_engine_is_on_its_nodes_alone_and_each_knows_the_others(write_site: Write) -> None:
    fleet = load_fleet(find_site(str(write_site({**TWO, N3: node(3)})), PROJECT))
    placed = {p.node.name: [(s.name, s.nodes) for s in p.services] for p in fleet.placements}
    assert placed == {"n1": [("glm", ("n1", "n2"))], "n2": [("glm", ("n1", "n2"))], "n3": []}
    assert {p.node.name: p.peers for p in fleet.placements} == {
        "n1": {"n2": "192.0.2.2"},
        "n2": {"n1": "192.0.2.1"},
        "n3": {},
    }


def test_two_instances_of_a_service_are_two_groups(write_site: Write) -> None:
    files = {f"inventory/prod/n{n}.yaml": node(n, "glm, left" if n < 3 else "glm, right") for n in range(1, 5)}
    files["group_data/left.yaml"] = "services: {glm: {nodes: [n1, n2]}}\n"
    files["group_data/right.yaml"] = "services: {glm: {nodes: [n4, n3]}}\n"
    fleet = load_fleet(find_site(str(write_site(files)), PROJECT))
    assert [p.services[0].nodes for p in fleet.placements] == [("n1", "n2")] * 2 + [("n4", "n3")] * 2


MISTAKES: dict[str, tuple[Files, str]] = {
    "a_node_twice": (
        {GROUP: GLM + "    nodes: [n1, n1]\n"},
        f"{GROUP}:5: services.glm.nodes: want each node once, found n1 more than once",
    ),
    "one_node": (
        {GROUP: GLM + "    nodes: [n1]\n"},
        f"{GROUP}:5: services.glm.nodes: want two nodes or more (one alone serves without it), found ['n1']",
    ),
    "a_word": ({GROUP: GLM + "    nodes: n1\n"}, f"{GROUP}:5: services.glm.nodes: want a list"),
    "an_unknown_node": (
        {**TWO, GROUP: GLM + "    nodes: [n1, n22]\n"},
        f'{GROUP}:5: services.glm.nodes[1]: want a known node of the inventory, found "n22"; did you mean "n2"?',
    ),
    "a_stage_that_does_not_spread": (
        {**TWO, GROUP: GLM.replace("pp: 2, partition: [42, 36]", "pp: 3") + "    nodes: [n1, n2]\n"},
        f"{GROUP}:4: services.glm.layout: want pp a multiple of 2, so that each of the nodes has whole stages, found",
    ),
    "replicas_in_one_engine": (
        {**TWO, GROUP: GLM.replace("tp: 4", "tp: 2, dp: 2") + "    nodes: [n1, n2]\n"},
        f"{GROUP}:4: services.glm.layout: want dp 1 over several nodes (make each replica its own), found dp 2",
    ),
    "an_automatic_layout": (
        {**TWO, GROUP: GLM.replace("{tp: 4, pp: 2, partition: [42, 36]}", "auto") + "    nodes: [n1, n2]\n"},
        f'{GROUP}:4: services.glm.layout: want tp and pp for 2 nodes (auto looks at one node alone), found "auto"',
    ),
    "a_node_without_the_service": (
        {**TWO, N2: node(2, "other")},
        f"{GROUP}:5: services.glm.nodes: want n2 to have glm with nodes: [n1, n2], found no glm on n2; put it into ",
    ),
    "a_node_that_serves_alone_as_well": (
        {**TWO, N2: node(2) + "services: {glm: {nodes: null}}\n"},
        f"{GROUP}:5: services.glm.nodes: want n2 to have glm with nodes: [n1, n2], found glm alone on n2; ",
    ),
    "one_port_for_both": (
        {**TWO, GROUP: GLM + "    nodes: [n1, n2]\n    master_port: 8000\n"},
        f"{GROUP}:2: services.glm: want a port and a master_port that differ, found 8000 for both",
    ),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_told_with_its_place(refusal: Refusal, name: str) -> None:
    files, wanted = MISTAKES[name]
    assert one_line(tuple(line for line in refusal(files) if "no service is declared" not in line)).startswith(wanted)


def test_a_node_in_two_engines_of_one_service_is_refused(refusal: Refusal) -> None:
    files = {**TWO, N3: node(3), N2: node(2) + "services: {glm: {nodes: [n2, n3]}}\n"}
    lines = refusal(files)
    assert any("want n2 to have glm with nodes: [n1, n2], found nodes: [n2, n3] there" in line for line in lines), lines


def test_an_engine_that_nobody_of_its_group_is_a_part_of_is_told(refusal: Refusal) -> None:
    files = {"inventory/prod/n1.yaml": node(1, "other"), N2: node(2, "other"), N3: node(3)}
    lines = refusal({**files, GROUP: GLM + "    nodes: [n1, n2]\n"})
    assert [line.rpartition("found ")[2].split(";")[0] for line in lines] == ["no glm on n1", "no glm on n2"]


@pytest.mark.parametrize("words", [("--limit", "n2"), ("--exclude", "n1")])
def test_a_limit_that_cuts_an_engine_is_refused_and_one_that_does_not_is_not(
    write_site: Write, pyinfra: Callable[..., "subprocess.CompletedProcess[str]"], words: tuple[str, str]
) -> None:
    fleet = write_site({**TWO, N3: node(3)})
    cut = pyinfra(fleet, "gates.py", *words, "--exclude", "n3")
    assert cut.returncode == 1
    assert "want all of n1, n2, which run glm together, or none of them, found n2 alone" in cut.stdout + cut.stderr
    machine = pyinfra(fleet, "debug-inventory", *words)
    assert "which run glm together" not in machine.stdout + machine.stderr


def test_nodes_may_be_given_for_one_run(write_site: Write) -> None:
    site = find_site(str(write_site({N2: node(2)})), PROJECT)
    data = {"service": "glm", "nodes": "n2,n1", "master_port": 29600}
    fleet = load_fleet(site, data)
    assert [(p.services[0].nodes, p.services[0].master_port) for p in fleet.placements] == [(("n2", "n1"), 29600)] * 2
    with pytest.raises(DeclarationError) as refused:
        load_fleet(site, {**data, "nodes": "n2"})
    assert one_line(refused.value.lines).startswith("--data nodes: want two nodes or more")
    with pytest.raises(DeclarationError) as unknown:
        load_fleet(site, {**data, "nodes": "n2,n9"})
    assert '--data nodes[1]: want one of n1, n2, found the unknown node of the inventory "n9"' in "\n".join(
        unknown.value.lines
    )
