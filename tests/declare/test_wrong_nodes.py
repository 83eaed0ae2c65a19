"""Mistakes in NODE.yaml: each told with file, line, field, what was wanted and what was found."""

from collections.abc import Callable

import pytest
from declared_sites import node, one_line

Files = dict[str, str | bytes]
Refusal = Callable[[Files], tuple[str, ...]]
N1, N2 = "inventory/prod/n1.yaml", "inventory/prod/n2.yaml"

MISTAKES: dict[str, tuple[Files, str]] = {
    "a_word_for_a_count": (
        {N1: node().replace("count: 8", "count: eight")},
        f'{N1}:3: gpus.count: want an integer >= 0, found "eight"',
    ),
    "a_count_in_quotes": (
        {N1: node().replace("count: 8", 'count: "8"')},
        f'{N1}:3: gpus.count: want an integer >= 0, found "8"',
    ),
    "true_for_a_count": (
        {N1: node().replace("count: 8", "count: true")},
        f"{N1}:3: gpus.count: want an integer >= 0, found true",
    ),
    "a_negative_count": (
        {N1: node().replace("count: 8", "count: -1")},
        f"{N1}:3: gpus.count: want an integer >= 0, found -1",
    ),
    "more_gpus_than_any_node_has": (
        {N1: node().replace("count: 8", "count: 100000").replace("numa: [0, 0, 0, 0, 1, 1, 1, 1]", "numa: []")},
        f"{N1}:3: gpus.count: want at most 1024, found 100000",
    ),
    "no_memory": (
        {N1: node().replace(", memory_mib: 81920", "")},
        f"{N1}:3: gpus.memory_mib: want an integer >= 1, found nothing",
    ),
    "no_address": ({N1: node().replace("address: 192.0.2.1\n", "")}, f"{N1}:1: address: want text, found nothing"),
    "an_address_with_a_space": (
        {N1: node().replace("192.0.2.1", "192.0.2.1 -oProxyCommand=x")},
        f"{N1}:1: address: want a host name or an IP address",
    ),
    "an_unknown_field": (
        {N1: node() + "nvlink_island: []\n"},
        f'{N1}:6: nvlink_island: want a known field, found "nvlink_island"; did you mean "nvlink_islands"?',
    ),
    "an_unknown_field_like_no_other": (
        {N1: node() + "colour: red\n"},
        f"{N1}:6: colour: want one of address, gpus, groups, numa, nvlink_islands, nvlinks, peermem, recording, "
        'runtime, runtime_flags, services, ssh, found the unknown field "colour"',
    ),
    "an_unknown_inner_field": (
        {N1: node() + "ssh:\n  user: root\n  keys: x\n"},
        f'{N1}:8: ssh.keys: want a known field, found "keys"; did you mean "key"?',
    ),
    "a_name_of_its_own": ({N1: node() + "name: n1\n"}, f"{N1}:6: name: want one of address, gpus, groups,"),
    "a_list_for_a_mapping": (
        {N1: node() + "ssh: [root]\n"},
        f'{N1}:6: ssh: want a mapping (user, port, key, known_hosts), found ["root"]',
    ),
    "another_runtime": ({N1: node() + "runtime: rkt\n"}, f'{N1}:6: runtime: want "podman" or "docker", found "rkt"'),
    "a_port_out_of_range": (
        {N1: node() + "ssh: {port: 70000}\n"},
        f"{N1}:6: ssh.port: want an integer from 1 to 65535, found 70000",
    ),
    "a_gpu_in_two_islands": (
        {N1: node().replace("[2, 3]", "[1, 3]")},
        f"{N1}:4: nvlink_islands: want each GPU 0..7 at most once",
    ),
    "an_island_of_words": (
        {N1: node().replace("[2, 3]", "[2, x]")},
        f'{N1}:4: nvlink_islands[1][1]: want an integer, found "x"',
    ),
    "too_few_numa_nodes": (
        {N1: node().replace("[0, 0, 0, 0, 1, 1, 1, 1]", "[0]")},
        f"{N1}:5: numa: want 8 entries, one a GPU, found 1",
    ),
    "groups_that_are_no_list": (
        {N1: node().replace("[glm]", "glm")},
        f'{N1}:2: groups: want a list, each text, found "glm"',
    ),
    "the_group_all": ({N1: node(groups="all")}, f"{N1}:2: groups: want names of groups"),
    "a_group_named_like_its_node": (
        {N1: node(groups="n1")},
        f'{N1}:2: groups: want groups that are named unlike a node, found "n1"',
    ),
    "an_illegal_file_name": (
        {"inventory/prod/my node.yaml": node(2)},
        "inventory/prod/my node.yaml:1: want a node name: letters, digits, dots, dashes",
    ),
    "another_ending": ({"inventory/prod/n2.yml": node(2)}, "inventory/prod/n2.yml: want the ending .yaml, found .yml"),
    "an_address_twice": (
        {N2: node(1)},
        f"{N2}:1: address: want an address of its own for each node, found 192.0.2.1, which is n1's too",
    ),
    "no_recording": (
        {N1: node() + "recording: n1.json\n"},
        f"{N1}:6: recording: want the file of a recorded probe, found no file",
    ),
}


@pytest.mark.parametrize(("files", "said"), MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_in_a_node_is_told_with_its_place(refusal: Refusal, files: Files, said: str) -> None:
    assert one_line(refusal(files)).startswith(said)
