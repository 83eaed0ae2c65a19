"""A delivery tells how far a node is: while bytes move, and while the node reads what lay there before."""

import hashlib
import os
from pathlib import Path

from fleet.delivery.delivery import GIB
from operations.delivery.pace import Comparing, Pace
from tests.operations.delivery_node import Node


def test_the_time_left_is_that_of_the_pace_since_it_was_told_last() -> None:
    pace = Pace(at_s=100)
    assert pace.told(110, GIB, 4 * GIB) == "1.00 of 4.00 GiB (25 %), 102 MiB/s, 0.5 min left"
    assert pace.told(120, 3 * GIB, 4 * GIB) == "3.00 of 4.00 GiB (75 %), 205 MiB/s, 0.1 min left"
    assert pace.told(130, 3 * GIB, 4 * GIB) == "3.00 of 4.00 GiB (75 %), 0 MiB/s, time left unknown"


def test_what_was_done_while_nobody_told_is_no_part_of_the_pace() -> None:
    pace = Pace(at_s=0)
    pace.seen(1000, 2 * GIB)
    assert pace.told(1010, 3 * GIB, 4 * GIB) == "3.00 of 4.00 GiB (75 %), 102 MiB/s, 0.2 min left"


def test_a_folder_that_is_compared_is_told_like_bytes_that_move() -> None:
    comparing = Comparing("/srv/m", 2 * GIB, Pace(at_s=0))
    told = comparing.told(10, GIB)
    assert told == "1.00 of 2.00 GiB (50 %), 102 MiB/s, 0.2 min left: reads and compares what lies at /srv/m"
    assert Comparing("/srv/empty", 0, Pace(at_s=0)).told(1, 0).startswith("0.00 of 0.00 GiB (100 %)")


def test_a_node_tells_how_much_of_a_folder_it_has_compared(tmp_path: Path) -> None:
    node, folder = Node(tmp_path), tmp_path / "checkpoint"
    folder.mkdir()
    (folder / "a").write_bytes(b"1" * 1000)
    os.mkfifo(folder / "b")  # it is read to its end when the test says so
    sums = [hashlib.sha256(content).hexdigest() for content in (b"1" * 1000, b"2" * 500)]
    files = {"names": ["a", "b"], "sums": sums, "sizes": ["1000", "500"], "expected": "f 1000 a\nf 500 b"}
    assert node.run("begin") == ["begun=r1"]
    assert node.run("poll") == [], "nothing is compared yet"
    adopting = node.start("adopt", path=str(folder), staging="", digest="d", key="k", **files)
    with open(folder / "b", "wb") as late:  # waits for its reader, which comes after `a` was read
        assert node.run("poll") == ["compared=1000"]
        late.write(b"2" * 500)
    out, _ = adopting.communicate(timeout=30)
    assert "wrong=" not in out and node.run("poll") == ["compared=1500"]
    node.run("end", archives="")
    assert not (node.state / ".delivery" / "compared").exists()
