"""Bad sources and bad nodes are refused with their name before anything moves."""

import http.server
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

import pytest
from delivery_site import MIB, TARGET, DeliverySite, make_checkpoint
from rollout_site import RolloutSite

from lab.lab import Lab
from lab.naming import bridge_address

pytestmark = pytest.mark.lab


@pytest.fixture(scope="module")
def made(shared_site: RolloutSite) -> DeliverySite:
    return DeliverySite(shared_site)


@pytest.fixture
def fleet(made: DeliverySite) -> DeliverySite:
    """Whole sources and bare hosts, whatever the test before has spoilt."""
    shutil.rmtree(made.source)
    make_checkpoint(made.source)
    made.site.rollout = {}
    made.tidy()
    return made


def refused(fleet: DeliverySite, *told: str) -> None:
    """Exit 1 with these words, and nothing is on any node."""
    ran = fleet.run()
    assert ran.code == 1, ran.out
    for text in told:
        assert text in ran.plain, ran.plain
    for node in fleet.site.nodes:
        assert "delivered" not in fleet.site.on(node, "ls -A /srv/models")


def test_a_manifest_that_lies_about_a_byte_is_refused(fleet: DeliverySite) -> None:
    fleet.declare(folder=str(fleet.source))
    with (fleet.source / "model-2.safetensors").open("r+b") as file:
        file.write(b"other")
    refused(fleet, "model-2.safetensors: changed: want sha256", "nothing was moved")


def test_a_truncated_shard_of_the_source_is_refused(fleet: DeliverySite) -> None:
    fleet.declare(folder=str(fleet.source))
    with (fleet.source / "model-1.safetensors").open("r+b") as file:
        file.truncate(1000)
    refused(fleet, f"model-1.safetensors: truncated: want {6 * MIB + 1} bytes, found 1000")


def test_a_source_that_is_not_there_is_refused(fleet: DeliverySite) -> None:
    fleet.declare(folder="/nowhere/at-all")
    refused(fleet, "/nowhere/at-all: want a folder, found nothing")


def test_without_a_source_and_without_a_node_that_has_it_nothing_begins(fleet: DeliverySite) -> None:
    fleet.declare()
    refused(fleet, f"want a node that has {TARGET} verified, found none")


def test_a_peer_that_does_not_have_it_is_refused(fleet: DeliverySite) -> None:
    fleet.declare(peer="h1")
    refused(fleet, f"want {TARGET} on h1 with the verified content", "found nothing")


def test_a_disk_without_room_is_refused_with_its_figures(fleet: DeliverySite) -> None:
    fleet.site.rollout = {"min_free_gib": 50}
    fleet.declare(folder=str(fleet.source))
    refused(fleet, "disk: want 50.02 GiB free beside /srv/models/delivered", "50.00 to stay free), found")


def test_a_place_that_is_a_symlink_is_refused(fleet: DeliverySite) -> None:
    fleet.declare(folder=str(fleet.source))
    fleet.site.on("h1", f"ln -s /srv/models/llama-70b {TARGET}")
    ran = fleet.run()
    assert ran.code == 1
    assert f"want a folder at {TARGET} that can be renamed, found a symlink" in ran.plain


def test_what_two_services_want_must_fit_together_in_place_and_room(fleet: DeliverySite, tmp_path: Path) -> None:
    other = make_checkpoint(tmp_path / "other", seed=3)
    mine, its = fleet.service(folder=str(fleet.source)), fleet.service(source=other, folder=str(other)) | {"port": 8001}
    fleet.site.write(m=mine, n=its)
    refused(
        fleet, f"n: want one content at {TARGET}, found another manifest for it in the service m", "nothing was moved"
    )
    fleet.site.write(m=mine, n=its | {"model": f"{TARGET}/draft"})
    refused(fleet, "want a folder of its own, found", "nothing was moved")
    size = sum(path.stat().st_size for path in fleet.source.rglob("*") if path.is_file()) // MIB
    used = int(fleet.site.on("h1", "df --block-size=1M --output=used / | tail -n 1"))
    fleet.site.lab.resize_disk("h1", f"{used + 103 + size * 3 // 2}M")  # 0.1 GiB are to stay free
    fleet.site.write(m=mine, n=its | {"model": "/srv/models/next"})
    refused(fleet, "for all that this node is to get on the disk of /srv/models/delivered", "nothing was moved")
    fleet.site.lab.resize_disk("h1", "2G")


def test_a_place_that_cannot_be_written_is_refused_for_all_before_anything_moves(fleet: DeliverySite) -> None:
    fleet.site.on("h1", "mkdir /srv/ro && mount -t tmpfs -o ro none /srv/ro && touch /srv/file")
    fleet.site.write(m=fleet.service(folder=str(fleet.source)) | {"model": "/srv/ro/m"})
    refused(fleet, "want a place for /srv/ro/m, found /srv/ro, which cannot be written", "nothing was moved")
    fleet.site.write(m=fleet.service(folder=str(fleet.source)) | {"model": "/srv/file/m"})
    refused(fleet, "want a place for /srv/file/m, found /srv/file, which is no folder", "nothing was moved")
    fleet.site.on("h1", "umount /srv/ro && rm -r /srv/ro /srv/file")


def test_a_port_that_somebody_else_listens_on_is_told_and_nobody_is_sent_there(fleet: DeliverySite) -> None:
    listens = "import socket, time; s = socket.create_server(('', 8730)); time.sleep(60)"
    fleet.site.on("h1", f'(setsid python3 -c "{listens}" >/dev/null 2>&1 </dev/null & echo $! >/run/listens); sleep 1')
    fleet.declare(folder=str(fleet.source))
    ran = fleet.run()
    fleet.site.on("h1", "kill $(cat /run/listens)")
    assert ran.code == 1
    assert "want port 8730 free for serving other nodes, found something else that listens there" in ran.plain
    assert fleet.site.on("l1", f"ls {TARGET}/config.json")


given: list[int] = []
"""Bytes of each answer of a server that ends its connections early."""


@contextmanager
def served(lab: Lab, folder: Path, page: bool = False, most: int | None = None, endless: bool = False) -> Iterator[str]:
    """An HTTP server on the lab's bridge; with `page` it answers everything with a page, as a login wall does.

    With `endless` it tells the right sizes, and then never stops. With `most` it knows ranges, and ends each connection
    after so many bytes, as a proxy does that is restarted.
    """

    class Files(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *words: object) -> None:
            pass

        def do_GET(self) -> None:
            if endless:
                self.send_response(200)
                self.end_headers()
                with suppress(OSError):
                    for _ in range(200):
                        self.wfile.write(bytes(MIB))
                return None
            if most is None:
                return super().do_GET()
            data = Path(self.translate_path(self.path)).read_bytes()
            start = int((self.headers.get("Range") or "bytes=0-").removeprefix("bytes=").partition("-")[0])
            self.send_response(206 if start else 200)
            self.send_header("Content-Range", f"bytes {start}-{len(data) - 1}/{len(data)}")
            self.send_header("Content-Length", str(len(data) - start))
            self.end_headers()
            self.wfile.write(data[start : start + most])
            given.append(len(data[start : start + most]))

        def send_head(self):  # type: ignore[no-untyped-def]
            if not page:
                return super().send_head()
            self.send_response(200)
            self.send_header("Content-Type", "text/html; charset=utf-8")
            self.send_header("Content-Length", "13")
            self.end_headers()
            return None if self.command == "HEAD" else self.wfile.write(b"<html></html>")

    record = lab._subnet()
    server = http.server.ThreadingHTTPServer((str(bridge_address(record)), 0), partial(Files, directory=str(folder)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://{bridge_address(record)}:{server.server_port}/"
    finally:
        server.shutdown()
        server.server_close()


def test_a_checkpoint_comes_from_a_url(fleet: DeliverySite) -> None:
    with served(fleet.site.lab, fleet.source) as url:
        fleet.declare(url=url)
        code, report = fleet.report()
    assert code == 0, report
    assert {row["status"] for row in report["results"]} == {"delivered"}
    for node in fleet.site.nodes:
        assert fleet.site.on(node, f"cat '{TARGET}/extra/a note.txt'") == "1"


def test_a_url_whose_connections_end_early_is_gone_on_with_from_where_they_ended(fleet: DeliverySite) -> None:
    given.clear()
    with served(fleet.site.lab, fleet.source, most=5 * MIB) as url:
        fleet.declare(url=url)
        code, report = fleet.report("--limit", "h1")
    assert code == 0, report
    whole = [path.stat().st_size for path in fleet.source.rglob("*") if path.is_file()]
    assert max(whole) > 5 * MIB
    assert sum(given) == sum(whole), "something was fetched twice"


def test_a_url_that_goes_on_and_on_is_ended_before_it_fills_a_disk(fleet: DeliverySite) -> None:
    with served(fleet.site.lab, fleet.source, endless=True) as url:
        fleet.declare(url=url)
        ran = fleet.run("--limit", "h1")
    assert ran.code == 1
    assert "more bytes came than the manifest says; it was ended" in ran.plain
    assert "delivered" not in fleet.site.on("h1", "ls -A /srv/models")


def test_a_url_that_answers_with_a_page_is_refused(fleet: DeliverySite) -> None:
    with served(fleet.site.lab, fleet.source, page=True) as url:
        fleet.declare(url=url)
        refused(fleet, "want a file, found a page (text/html")


def test_a_url_that_has_other_sizes_or_nothing_is_refused(fleet: DeliverySite, tmp_path: Path) -> None:
    other = make_checkpoint(tmp_path / "other", shards=3, mib=5)
    with served(fleet.site.lab, other) as url:
        fleet.declare(url=url)
        refused(fleet, f"want {6 * MIB} bytes, found {5 * MIB}", "want 200, found 404")


def test_a_file_of_a_url_that_is_another_one_is_named_and_not_served(fleet: DeliverySite, tmp_path: Path) -> None:
    other = make_checkpoint(tmp_path / "other", seed=2)
    with served(fleet.site.lab, other) as url:
        fleet.declare(url=url)
        ran = fleet.run()
    assert ran.code == 1
    assert "changed: want sha256" in ran.plain
    assert not fleet.site.on("a1", f"ls {TARGET} 2>/dev/null || true")
