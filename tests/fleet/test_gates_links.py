"""NVLinks are all up and the fabric is ready, or nothing is started over them."""

from fleet.node import NodeFacts, Nvidia, Nvlinks
from fleet.topology import Topology
from tests.fleet.builders import deep, facts, fails, fleet_with, gpus, node, passes, topology


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


def fabric(state: str, status: str) -> NodeFacts:
    return facts(nvidia=Nvidia(gpus=gpus(told={"fabric.state": state, "fabric.status": status}), driver="580.95.05"))


def test_a_fabric_that_is_not_ready_is_told_with_what_it_is() -> None:
    passes("fabric", fleet_with())
    passes("fabric", fleet_with(told=fabric("Completed", "Success")))
    passes("fabric", fleet_with(told=fabric("Not Supported", "N/A")))
    fails("fabric", fleet_with(told=fabric("In Progress", "N/A")), "In Progress, N/A on GPU 0", "error 802")
    fails("fabric", fleet_with(told=fabric("Completed", "Invalid Parameter")), "Completed, Invalid Parameter")
    silent = tuple(gpu.model_copy(update={"told": {}}) for gpu in gpus())
    fails("fabric", fleet_with(told=facts(nvidia=Nvidia(gpus=silent))), "fabric.state of GPU 0, found nothing")
