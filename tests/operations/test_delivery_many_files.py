"""Hundreds of small files in one bundle from a URL: what curl is told is longer than any of them."""

import hashlib
import shutil
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from tests.operations.delivery_node import Node

pytestmark = pytest.mark.skipif(shutil.which("curl") is None, reason="curl moves the bytes")
COUNT = 600


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *words: object) -> None:
        """A line for each file says nothing."""


@pytest.fixture
def served(tmp_path: Path) -> Iterator[tuple[Path, str]]:
    folder = tmp_path / "served"
    folder.mkdir()
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=folder)) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield folder, f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


def test_a_bundle_of_many_small_files_arrives_whole(tmp_path: Path, served: tuple[Path, str]) -> None:
    folder, url = served
    contents = {f"{'part-of-a-tokenizer-' * 3}{number:04}": str(number).encode() for number in range(COUNT)}
    for name, content in contents.items():
        (folder / name).write_bytes(content)
    node, staging = Node(tmp_path), tmp_path / "staging"
    files = {
        "names": list(contents),
        "sums": [hashlib.sha256(content).hexdigest() for content in contents.values()],
        "sizes": [str(len(content)) for content in contents.values()],
        "urls": [f"{url}/{name}" for name in contents],
    }
    assert node.run("begin") == ["begun=r1"]
    told = node.run("pull", how="curl", rate="", path=str(tmp_path / "m"), staging=str(staging), key="k", **files)
    assert not [line for line in told if line.startswith(("error=", "wrong="))], told[-3:]
    assert {path.name: path.read_bytes() for path in (staging / "files").iterdir()} == contents
