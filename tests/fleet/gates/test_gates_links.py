"""NVLinks are all up, or nothing is started over them."""

import pytest

from fleet.nodes.machine import IommuGroup, Machine
from fleet.nodes.node import NodeFacts
from fleet.nodes.nvidia import Nvlinks
from fleet.nodes.topology import Topology
from tests.fleet.builders import deep, facts, fails, fleet_with, machine, node, passes, topology


def thinner(i: int, j: int, label: str) -> Topology:
    """a1's topology with another label between two GPUs."""
    sound = topology()
    links = [list(row) for row in sound.links]
    links[i][j] = links[j][i] = label
    return sound.model_copy(update={"links": tuple(tuple(row) for row in links)})


def test_a_pair_with_fewer_links_than_the_others_is_named() -> None:
    passes("nvlink-width", fleet_with())
    told = facts(topology=thinner(2, 3, "NV11"))
    fails("nvlink-width", fleet_with(told=told), "want 12 NVLinks between GPU 2 and 3, found 11")


def test_all_links_are_as_many_as_declared() -> None:
    passes("nvlink-width", fleet_with(node(nvlinks=12)))
    fails("nvlink-width", fleet_with(node(nvlinks=4)), "want 4 NVLinks between GPU 0 and 1, found 12")


def test_links_that_cannot_be_read_are_not_up() -> None:
    broken = facts(topology=None, topology_error="cut off")
    fails("nvlink-width", fleet_with(told=broken), "cut off")
    passes("nvlink-width", fleet_with(node(nvlink_islands=()), broken))


@pytest.mark.parametrize("gate", ["cpu-affinity", "numa-nodes", "nvlink-width", "p2p", "numa", "nvlink-islands"])
def test_where_the_topology_was_not_read_the_remedy_is_to_read_it(gate: str) -> None:
    fails(gate, fleet_with(told=facts(topology=None, topology_error="cut off")), "; run nvidia-smi topo -m on a1")


def ports(*changed: Nvlinks) -> NodeFacts:
    other = {links.gpu: links for links in changed}
    return facts(deep=deep(nvlinks=tuple(other.get(links.gpu, links) for links in deep().nvlinks)))


def test_a_port_that_is_down_is_named() -> None:
    passes("nvlink-up", fleet_with())
    told = ports(Nvlinks(gpu=3, up=tuple(range(1, 12)), down=(0,)))
    fails("nvlink-up", fleet_with(told=told), "want all NVLink ports of GPU 3 up, found 0 inactive")


def test_ports_that_are_meant_to_be_unused_are_declared() -> None:
    told = ports(*(Nvlinks(gpu=gpu, up=tuple(range(4)), down=tuple(range(4, 12))) for gpu in range(8)))
    fails("nvlink-up", fleet_with(told=told), "inactive")
    passes("nvlink-up", fleet_with(node(nvlinks=4), told))


def test_a_gpu_without_links_or_without_an_answer_is_not_joined() -> None:
    said = "Nvlink queries are not supported for Devices in MIG mode"
    fails("nvlink-up", fleet_with(told=ports(Nvlinks(gpu=1, said=said))), said)
    fails("nvlink-up", fleet_with(told=facts(deep=deep(nvlinks=deep().nvlinks[:7]))), "GPU 7 up, found nothing")
    unread = facts(deep=deep(nvlinks=(), nvlinks_error="want GPUs with their links, found 'wings'"))
    fails("nvlink-up", fleet_with(told=unread), "found 'wings'")
    passes("nvlink-up", fleet_with(node(nvlink_islands=()), unread))


def over(label: str) -> Topology:
    """Two GPUs of one TP group, without NVLink, on this path."""
    return Topology(gpus=2, links=(("X", label), (label, "X")), numa=(0, 0), cpu_affinity=(None, None))


def two(label: str, **changes: object) -> NodeFacts:
    return facts(topology=over(label), **changes)


TWO = {"gpus": [0, 1], "layout": {"tp": 2}}


def test_peer_access_between_processors_is_not_asked_for() -> None:
    passes("p2p-far", fleet_with(told=two("SYS"), **TWO))
    asked = {"env": {"NCCL_P2P_LEVEL": "SYS"}, **TWO}
    fails("p2p-far", fleet_with(told=two("SYS"), **asked), "SYS between GPU 0-1")
    passes("p2p-far", fleet_with(told=two("NODE"), **asked))
    off = {"env": {"NCCL_P2P_LEVEL": "SYS", "NCCL_P2P_DISABLE": "1"}, **TWO}
    passes("p2p-far", fleet_with(told=two("SYS"), **off))
    fails("p2p-far", fleet_with(told=facts(topology=None, topology_error="cut off"), **asked), "cut off")


def grouped(kind: str, *groups: str) -> Machine:
    one = [IommuGroup(bus=f"0000:0{gpu}:00.0", group=group, type=kind) for gpu, group in enumerate(groups)]
    return machine(iommu=tuple(one))


def test_peer_access_over_pcie_is_not_translated() -> None:
    passes("iommu", fleet_with(told=two("PXB"), **TWO))
    told = two("PHB", machine=grouped("DMA-FQ", "17", "18"))
    fails("iommu", fleet_with(told=told, **TWO), "between GPU 0 and 1 (PHB), found an IOMMU that translates (DMA-FQ)")
    passes("iommu", fleet_with(told=told, **TWO, env={"NCCL_P2P_DISABLE": "1"}))
    passes("iommu", fleet_with(told=two("SYS", machine=grouped("DMA", "17", "18")), **TWO))
    passes("iommu", fleet_with(told=facts(machine=grouped("DMA", *"01234567"))))


def test_gpus_behind_one_switch_are_not_kept_apart() -> None:
    apart, together = grouped("identity", "17", "18"), grouped("identity", "17", "17")
    fails("iommu", fleet_with(told=two("PIX", machine=apart), **TWO), "found ACS between them (IOMMU groups 17, 18)")
    passes("iommu", fleet_with(told=two("PIX", machine=together), **TWO))
    passes("iommu", fleet_with(told=two("PHB", machine=apart), **TWO))
    broken = two("PIX", machine=apart).model_copy(update={"topology": None, "topology_error": "cut off"})
    fails("iommu", fleet_with(told=broken, **TWO), "cut off")


def allowed(status: str) -> NodeFacts:
    rows = [["X" if i == j else "OK" for j in range(8)] for i in range(8)]
    rows[0][1] = status
    return facts(deep=deep(p2p=tuple(map(tuple, rows))))


def test_the_driver_allows_peer_access_where_nvlink_joins() -> None:
    passes("p2p", fleet_with())
    fails("p2p", fleet_with(told=allowed("CNS")), "want peer access between GPU 0 and 1, found CNS")
    passes("p2p", fleet_with(told=two("PXB", deep=deep(p2p=())), **TWO))
    fails("p2p", fleet_with(told=facts(deep=deep(p2p=(("X",),)))), "found a matrix of 1")
    fails("p2p", fleet_with(told=facts(deep=deep(p2p=(), p2p_error="found 'wings'"))), "found 'wings'")
    fails("p2p", fleet_with(told=facts(topology=None, topology_error="cut off")), "cut off")
