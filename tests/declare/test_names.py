"""Which names of other machines a node must resolve: sources of its services, and nodes that have the same."""

from declare.names import MOST_PEERS, with_names
from fleet.declaration import Placement
from tests.fleet.builders import IMAGE, node, service

CHECKPOINT = {"manifest": "/m", "digest": "sha256:" + "c" * 64}
ARCHIVE = {"url": "http://images.example:8000/x.tar", "sha256": "sha256:" + "d" * 64, "bytes": 1}


def placed(name: str, address: str, **changes: object) -> Placement:
    return Placement(node=node(name=name, address=address), services=(service(**changes),))


def test_a_service_without_sources_sends_its_node_to_nobody() -> None:
    assert with_names((placed("a1", "a1.example"), placed("a2", "a2.example")))[0].names == ()


def test_urls_name_their_host_and_addresses_need_no_name() -> None:
    both = {"checkpoint": CHECKPOINT | {"url": "https://models.example/glm/"}, "image": IMAGE | {"archive": ARCHIVE}}
    assert with_names((placed("a1", "192.0.2.1", **both),))[0].names == ("images.example", "models.example")
    literal = {"checkpoint": CHECKPOINT | {"url": "http://[2001:db8::1]/glm/"}}
    assert with_names((placed("a1", "192.0.2.1", **literal),))[0].names == ()


def test_nodes_with_the_same_checkpoint_are_peers_and_so_is_the_declared_one() -> None:
    same = {"checkpoint": CHECKPOINT}
    first, second, third = with_names(
        (placed("a1", "a1.example", **same), placed("a2", "192.0.2.2", **same), placed("a3", "a3.example", **same))
    )
    assert (first.names, second.names) == (("a3.example",), ("a1.example", "a3.example"))
    store = Placement(node=node(name="s1", address="store.example"))
    wanted = placed("a1", "a1.example", checkpoint=CHECKPOINT | {"peer": "s1"})
    assert with_names((wanted, store))[0].names == ("store.example",) and third.names == ("a1.example",)


def test_of_a_large_fleet_only_some_are_asked_about() -> None:
    many = tuple(placed(f"a{n}", f"a{n}.example", checkpoint=CHECKPOINT) for n in range(200))
    assert {len(one.names) for one in with_names(many)} == {MOST_PEERS}
