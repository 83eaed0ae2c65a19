"""A fan-out reaches every node in a time that grows with the logarithm of their number, whoever dies on the way."""

from hypothesis import given, settings
from hypothesis import strategies as st

from fleet.delivery.swarm import Bundle, Swarm, Transfer, rounds

ORIGIN = "controller"


def bundles(count: int) -> list[Bundle]:
    return [Bundle("item", number) for number in range(count)]


def swarm(nodes: int, count: int, serves: int = 2, parallel: int = 2) -> Swarm:
    whole = bundles(count)
    return Swarm({f"n{n:03}": whole for n in range(nodes)}, {}, {ORIGIN: whole}, serves, parallel)


def begin(one: Swarm) -> list[Transfer]:
    """Every transfer that can begin now."""
    begun = []
    for node in sorted(one.missing):
        while (transfer := one.next(node)) is not None:
            begun.append(transfer)
    return begun


def run(one: Swarm) -> tuple[int, list[Transfer]]:
    """Rounds of equally long transfers until nothing moves any more, and all transfers."""
    count, everything = 0, []
    while begun := begin(one):
        count += 1
        everything += begun
        for transfer in begun:
            one.done(transfer)
    return count, everything


@given(st.integers(1, 200), st.integers(1, 4))
def test_with_one_bundle_the_rounds_are_the_logarithm_of_the_nodes(nodes: int, serves: int) -> None:
    one = swarm(nodes, 1, serves)
    count, _ = run(one)
    assert all(one.finished(node) for node in one.missing)
    assert count == rounds(nodes, 1, serves)
    assert (serves + 1) ** (count - 1) < nodes + 1 <= (serves + 1) ** count


@settings(deadline=None, max_examples=25)
@given(st.integers(1, 60), st.integers(1, 24))
def test_many_bundles_travel_in_a_pipeline_and_leave_the_origin_seldom(nodes: int, count: int) -> None:
    one = swarm(nodes, count)
    took, everything = run(one)
    assert all(one.finished(node) for node in one.missing)
    assert took <= count + 3 * rounds(nodes, 1, 1) + 2  # a loop over the nodes takes nodes * count / serves
    assert len(everything) == nodes * count
    if nodes > 8:
        assert sum(transfer.source == ORIGIN for transfer in everything) <= max(2 * took, 2 * count)


@settings(deadline=None)
@given(st.integers(1, 20), st.integers(1, 6), st.integers(1, 3), st.integers(1, 3), st.randoms(use_true_random=False))
def test_nobody_gives_or_takes_more_than_he_may_and_only_what_he_has(nodes, count, serves, parallel, random) -> None:  # type: ignore[no-untyped-def]
    one = swarm(nodes, count, serves, parallel)
    have: dict[str, set[Bundle]] = {ORIGIN: set(bundles(count))}
    moving: list[Transfer] = []
    while True:
        for transfer in begin(one):
            assert transfer.bundle in have[transfer.source]
            moving.append(transfer)
        for name in {transfer.source for transfer in moving}:
            assert sum(transfer.source == name for transfer in moving) <= serves
        for name in {transfer.target for transfer in moving}:
            assert sum(transfer.target == name for transfer in moving) <= parallel
        assert len({(transfer.target, transfer.bundle) for transfer in moving}) == len(moving)
        if not moving:
            break
        ended = moving.pop(random.randrange(len(moving)))
        one.done(ended)
        have.setdefault(ended.target, set()).add(ended.bundle)
    assert all(one.finished(node) for node in one.missing)


@settings(deadline=None)
@given(st.integers(2, 16), st.integers(1, 5), st.sets(st.integers(0, 15), max_size=6), st.integers(0, 30))
def test_dead_peers_are_planned_around_and_all_others_get_everything(
    nodes: int, count: int, dead: set[int], after: int
) -> None:
    """Dead nodes stop to give and to take after some transfers; the origin lives on, so nobody is hopeless."""
    one, gone = swarm(nodes, count), {f"n{n:03}" for n in dead}
    steps = 0
    while begun := begin(one):
        for transfer in begun:
            steps += 1
            if steps > after and transfer.target in gone:
                one.drop(transfer.target)
            elif steps > after and transfer.source in gone:
                one.failed(transfer)
            else:
                one.done(transfer)
    living = [node for node in one.missing if node not in gone]
    assert all(one.finished(node) for node in living)
    assert not any(one.hopeless(node) for node in living)


def test_a_source_that_gives_something_else_is_not_asked_for_it_again() -> None:
    whole = bundles(1)
    one = Swarm({"n1": whole, "n2": whole}, {"liar": whole}, {}, 2, 2)
    transfer = one.next("n1")
    assert transfer == Transfer("liar", "n1", whole[0])
    one.distrust(transfer)
    assert one.next("n2") is None
    assert one.hopeless("n2") == frozenset(whole)


def test_without_any_source_a_bundle_is_told_as_hopeless_only_when_nobody_is_about_to_get_it() -> None:
    whole = bundles(2)
    one = Swarm({"n1": whole, "n2": whole}, {"n0": [whole[0]]}, {}, 2, 2)
    assert one.hopeless("n1") == {whole[1]}
    transfer = one.next("n1")
    assert transfer is not None
    one.drop("n0")
    assert one.hopeless("n2") == {whole[1]}  # the first may still arrive at n1
    one.failed(transfer)
    assert one.hopeless("n2") == set(whole)


def test_a_node_that_gives_from_another_place_still_wants_its_own_copy() -> None:
    whole = bundles(1)
    one = Swarm({"n1": whole, "n2": whole}, {}, {}, 1, 1)
    one.offer("n1", whole)
    first = one.next("n2")
    assert first == Transfer("n1", "n2", whole[0])
    one.done(first)
    assert one.next("n1") == Transfer("n1", "n1", whole[0])  # over no network


def test_a_node_that_alone_has_it_elsewhere_is_not_without_hope() -> None:
    whole = bundles(1)
    one = Swarm({"n1": whole}, {}, {}, 1, 1)
    assert one.hopeless("n1") == set(whole)
    one.offer("n1", whole)
    assert not one.hopeless("n1")
    assert one.next("n1") == Transfer("n1", "n1", whole[0])


def test_a_node_that_has_a_bundle_serves_it_before_the_origin_does() -> None:
    whole = bundles(1)
    one = Swarm({"n2": whole}, {"n1": whole}, {ORIGIN: whole}, 1, 1)
    assert one.next("n2") == Transfer("n1", "n2", whole[0])
