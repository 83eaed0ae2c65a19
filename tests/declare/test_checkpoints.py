"""What a service's checkpoint and its image's archive may say, and how a mistake in them is told."""

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from declared_sites import DIGEST, GLM, PROJECT, one_line

from declare.load import load_fleet
from declare.site import find_site
from fleet.delivery.manifest import HEAD, read_manifest
from fleet.delivery.source import DeliveryPolicy

MANIFEST = f"{HEAD}\n{'a' * 64} 5 config.json\n"
Refusal = Callable[[Mapping[str, str | bytes]], tuple[str, ...]]


def with_checkpoint(text: str) -> dict[str, str]:
    return {"group_data/glm.yaml": f"{GLM}    checkpoint: {text}\n", "glm.manifest": MANIFEST}


def test_paths_are_relative_to_their_file_and_the_manifest_gives_the_digest(
    write_site: Callable[[Mapping[str, str | bytes]], Path],
) -> None:
    fleet = write_site(
        {
            **with_checkpoint("{manifest: ../glm.manifest, folder: ../data/glm}"),
            "group_data/all.yaml": (
                f'images: {{engine: {{name: x, digest: "{DIGEST}", engine: 0.30.0, archive: ../x.tar}}}}\n'
                "defaults: {image: engine, max_model_len: 4096}\ndelivery: {serves: 3}\n"
            ),
        }
    )
    root = fleet.parent.parent
    loaded = load_fleet(find_site(str(fleet), PROJECT), {"rate_mib_s": 100})
    (service,) = loaded.placements[0].services
    assert service.checkpoint is not None
    assert service.checkpoint.folder == str(root / "data/glm")
    assert service.checkpoint.digest == read_manifest(MANIFEST).digest
    assert (service.checkpoint.bytes, service.image.archive and service.image.archive.bytes) == (5, None)
    (root / "x.tar").write_bytes(b"1234567")
    again = load_fleet(find_site(str(fleet), PROJECT)).placements[0].services[0]
    assert again.image.archive is not None and again.image.archive.bytes == 7
    assert service.image.archive is not None
    assert service.image.archive.file == str(root / "x.tar")
    assert loaded.delivery == DeliveryPolicy(serves=3, rate_mib_s=100)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("{manifest: ../none.manifest}", "checkpoint.manifest: want a manifest, found "),
        ("{manifest: /dev/zero}", "found a pipe or a device"),
        ("{folder: /data}", "checkpoint.manifest: want text, found nothing"),
        ("{manifest: ../glm.manifest, folder: ../d, url: 'https://x/'}", "want one of folder, url and peer"),
        ("{manifest: ../glm.manifest, peer: n9}", 'want a node of this fleet (n1), found "n9"'),
        ("{manifest: ../glm.manifest, peer: n1, folder: a/b}", "want an absolute path"),
        ("{manifest: ../glm.manifest, url: 'ftp://x/'}", "want a URL such as"),
        ("{manifest: ../glm.manifest, url: 'https://x/{a,b}/'}", "want a URL such as"),
        ("{manifest: ../glm.manifest, url: 'https://x/a\"b/'}", "want a URL such as"),
        ("{manifest: ../glm.manifest, url: 'https://x:99999/'}", "want a URL such as"),
        ("{manifest: ../glm.manifest, url: 'https://[::1/'}", "want a URL such as"),
        ("{manifest: ../glm.manifest, url: 'ftp://me:secret@x:99999/'}", "want a URL without a user or password"),
        ("{manifest: ../glm.manifest, url: 'https://me:secret@x/'}", "want a URL without a user or password"),
        ("{manifest: ../glm.manifest, url: 'https://x/?a=b'}", "found one with ? or #"),
        (f"{{manifest: ../glm.manifest, digest: '{DIGEST}'}}", "which "),
        ("{manifest: ../glm.manifest, digest: 'sha256:12'}", 'found "sha256:12"'),
        ("{manifest: ../glm.manifest, form: x}", "want a known field"),
    ],
)
def test_a_mistake_in_a_checkpoint_is_told_with_its_line(refusal: Refusal, text: str, told: str) -> None:
    said = one_line(refusal(with_checkpoint(text)))
    assert said.startswith("group_data/glm.yaml:5: services.glm.checkpoint")
    assert told in said
    assert "secret@" not in said


def test_a_manifest_with_a_path_that_leaves_the_folder_is_refused(refusal: Refusal) -> None:
    bad = {**with_checkpoint("{manifest: ../glm.manifest}"), "glm.manifest": MANIFEST.replace("config", "../config")}
    assert "want a relative path without .." in one_line(refusal(bad))


@pytest.mark.parametrize(
    ("archive", "told"),
    [
        ("{url: 'https://x/image.tar'}", "want sha256 and bytes of the archive beside its url"),
        ("{url: 'https://x/image.tar', sha256: 'sha256:12', bytes: 5}", "want a digest (sha256: and 64 hex digits)"),
        ("{file: /x.tar, url: 'https://x/image.tar'}", "want exactly one of"),
    ],
)
def test_a_mistake_in_an_archive_is_told(refusal: Refusal, archive: str, told: str) -> None:
    image = f'{{name: x, digest: "{DIGEST}", engine: 0.30.0, archive: {archive}}}'
    lines = refusal(
        {"group_data/all.yaml": f"images: {{engine: {image}}}\ndefaults: {{image: engine, max_model_len: 1}}\n"}
    )
    assert told in one_line(lines)
    assert "group_data/all.yaml:1: images.engine.archive" in lines[0]


@pytest.mark.parametrize("rate", ["1.0e+300", "0", "-1", "fast"])
def test_a_rate_that_no_tool_takes_is_refused(refusal: Refusal, rate: str) -> None:
    lines = refusal({"group_data/all.yaml": f"delivery: {{rate_mib_s: {rate}}}\n"})
    assert any("delivery.rate_mib_s: want a number" in line for line in lines)
