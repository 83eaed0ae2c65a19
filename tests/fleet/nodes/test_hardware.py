"""What a node tells of its hardware, as a declaration would say it; and what changed between two looks."""

from typing import Any

import pytest

from fleet.nodes.facts_difference import facts_difference
from fleet.nodes.hardware import HardwareError, changed, hardware
from fleet.nodes.node import Port
from fleet.nodes.nvidia import Gpu, Nvidia
from tests.fleet.builders import facts, gpus, installed, node, topology


def test_a_node_as_declared_has_nothing_to_refresh() -> None:
    assert changed(node(), hardware(facts())) == {}


def test_other_hardware_is_told_field_by_field() -> None:
    quads = ((0, 1, 2, 3), (4, 5, 6, 7))
    told = facts(topology=topology(quads), nvidia=Nvidia(gpus=gpus(name="NVIDIA H100 80GB HBM3")))
    assert changed(node(), hardware(told)) == {
        "gpus": {"count": 8, "model": "NVIDIA H100 80GB HBM3", "memory_mib": 81920},
        "nvlink_islands": [list(island) for island in quads],
    }
    assert hardware(facts(topology=topology(numa=(None,) * 8)))["numa"] == []


@pytest.mark.parametrize(
    ("told", "words"),
    [
        ({"nvidia": Nvidia(error="No devices were found")}, "No devices were found"),
        ({"nvidia": Nvidia(gpus=(*gpus(7), Gpu(index=7, problem="[GPU is lost]")))}, "GPU 7: .GPU is lost"),
        ({"nvidia": Nvidia(gpus=(*gpus(7), Gpu(index=7, name="L40S", memory_mib=46068)))}, "L40S with 46068 MiB"),
        ({"nvidia": Nvidia()}, "no GPU"),
        ({"topology": None, "topology_error": "cut off"}, "cut off"),
    ],
)
def test_what_a_node_does_not_tell_is_never_guessed(told: dict[str, Any], words: str) -> None:
    with pytest.raises(HardwareError, match=words):
        hardware(facts(**told))


def differs(**changes: Any) -> list[str]:
    return [str(one) for one in facts_difference(facts(), facts(**changes))]


def test_figures_that_move_by_themselves_are_no_difference() -> None:
    assert differs(now=5, boot_id="x", nvidia=Nvidia(gpus=gpus(memory_used_mib=900), driver="570.86.15")) == []


def test_each_field_that_changed_is_named_by_what_identifies_it() -> None:
    assert differs(kernel="6.2") == ["kernel: not told -> 6.2"]
    other = (*gpus(7), gpus()[7].model_copy(update={"name": "X"}))
    assert differs(nvidia=Nvidia(gpus=other, driver="570.86.15")) == ["nvidia.gpus[7].name: NVIDIA A100-SXM4-80GB -> X"]
    gone = differs(nvidia=Nvidia(gpus=gpus(7), driver="570.86.15"))
    assert "nvidia.gpus[7].memory_mib: 81920 -> nothing" in gone
    assert differs(ports=(Port(port=22, process="sshd", pid=1),)) == [
        "ports[22].port: nothing -> 22",
        "ports[22].process: nothing -> sshd",
    ]


def test_texts_of_several_lines_are_shown_as_a_difference() -> None:
    def lying(text: str) -> dict[str, Any]:
        lies = installed()
        return {"services": (lies.model_copy(update={"files": (lies.files[0].model_copy(update={"text": text}),)}),)}

    (found,) = facts_difference(facts(**lying("a\nb\n")), facts(**lying("a\nc\n")))
    assert found.field.endswith("plan.json].text") and {"-b", "+c"} <= set(found.diff)
