"""Patches of the engine: read from the image on the node, laid over in the container, refused while the old serves."""

import hashlib
import json
from typing import Any

import pytest
import yaml
from rollout_site import Ran, RolloutSite

from fleet.releases.command import STATE

pytestmark = pytest.mark.lab

PACKAGES = "/srv/packages"
SOURCE = "import os\n\n\ndef limit():\n    return 5\n"
LONGER = {"anchor": "return 5\n", "place": "instead", "fragment": "return 50\n"}
NOTE = {"anchor": "def limit():\n", "place": "before", "fragment": "# ours: naïve\n"}


def write_patch(
    site: RolloutSite, name: str, *edits: dict[str, str], path: str = "vllm/limits.py", sum: str = ""
) -> None:
    folder = site.fleet / "patches/0.30" / name
    folder.mkdir(parents=True, exist_ok=True)
    sums = {"0.30.0": sum or hashlib.sha256(SOURCE.encode()).hexdigest()}
    patch = {
        "why": "too short a limit",
        "tested": "in this lab",
        "files": [{"path": path, "sha256": sums, "edits": list(edits)}],
    }
    (folder / "patch.yaml").write_text(yaml.safe_dump(patch))


def service(site: RolloutSite, *names: str, packages: str = PACKAGES, **settings: Any) -> dict[str, Any]:
    """The stand-in, with a folder of the node where the engine's packages are."""
    plain = site.service(**settings)
    own = {"source": PACKAGES, "target": PACKAGES}
    image = {**plain["image"], "packages": packages}
    return {**plain, "image": image, "mounts": [*plain["mounts"], own], "patches": list(names)}


@pytest.fixture(scope="module")
def rolled(shared_site: RolloutSite) -> RolloutSite:
    """One node whose engine has two patches on one file."""
    shared_site.nodes = ("a1",)
    for other in ("h1", "l1"):
        (shared_site.fleet / f"{other}.yaml").unlink()
    held(shared_site, SOURCE)
    write_patch(shared_site, "longer", LONGER)
    write_patch(shared_site, "note", NOTE)
    shared_site.write(llm=service(shared_site, "note", "longer"))
    ran = shared_site.deploy()
    assert ran.code == 0, ran.out
    return shared_site


def held(site: RolloutSite, text: str) -> None:
    """What the image has."""
    site.on("a1", f"mkdir -p {PACKAGES}/vllm && printf %s '{text}' >{PACKAGES}/vllm/limits.py")


def seen(site: RolloutSite) -> str:
    """The file as the engine's own process sees it."""
    return site.on(
        "a1", f"cat /proc/$(podman inspect --format '{{{{.State.Pid}}}}' vllm-llm)/root{PACKAGES}/vllm/limits.py"
    )


def refused(site: RolloutSite, *texts: str) -> None:
    """A change is refused while it is staged: nothing of what serves was touched."""
    before, running = site.state("a1", "llm"), site.on("a1", "podman ps --quiet")
    ran: Ran = site.deploy()
    assert ran.code == 1, ran.out
    for text in ("a1 could not be staged, so nothing was activated anywhere", *texts):
        assert text in ran.plain, ran.out
    assert (site.state("a1", "llm"), site.on("a1", "podman ps --quiet")) == (before, running)
    assert site.on("a1", f"ls {STATE}/llm/releases").split() == sorted({before["current"], before["previous"]} - {""})


def test_the_engine_sees_one_file_with_both_patches_and_the_image_stays_as_it_was(rolled: RolloutSite) -> None:
    assert seen(rolled) == "import os\n\n\n# ours: naïve\ndef limit():\n    return 50"
    assert rolled.on("a1", f"cat {PACKAGES}/vllm/limits.py") == SOURCE.strip()
    argv = " ".join(rolled.plan("a1", "llm")["command"])
    assert argv.count(f"{STATE}/llm/current/patched-0:{PACKAGES}/vllm/limits.py:ro") == 1


def test_the_release_keeps_the_hashes_of_what_was_read_and_of_what_came_of_it(rolled: RolloutSite) -> None:
    record = json.loads(rolled.on("a1", f"cat {STATE}/llm/current/patches.json"))
    (file,) = record["files"]
    assert file["pristine_sha256"] == hashlib.sha256(SOURCE.encode()).hexdigest()
    assert file["sha256"] == rolled.on("a1", f"sha256sum <{STATE}/llm/current/patched-0").split()[0]
    assert (file["target"], file["patches"]) == (f"{PACKAGES}/vllm/limits.py", ["note", "longer"])
    named = [patch["name"] for patch in rolled.plan("a1", "llm")["patches"]]
    assert named == ["note", "longer"]
    assert rolled.on("a1", f"stat -c %a {STATE}/llm/current/patched-0 {STATE}/llm/current/patches.json").split() == [
        "644",
        "600",
    ]


def test_a_second_run_changes_nothing(rolled: RolloutSite) -> None:
    before = rolled.marks()
    ran = rolled.deploy()
    assert ran.code == 0 and "Nothing to change" in ran.plain, ran.out
    assert rolled.marks() == before


def test_a_file_that_is_not_the_one_of_that_version_is_refused(rolled: RolloutSite) -> None:
    held(rolled, SOURCE + "# of somebody else\n")
    rolled.write(llm=service(rolled, "note", "longer", max_model_len=2048))
    refused(rolled, "vllm/limits.py: want the file of engine 0.30.0", "is the image changed already")
    held(rolled, SOURCE)


@pytest.mark.parametrize(
    ("edit", "texts"),
    [
        ({**LONGER, "fragment": "return (50\n"}, ("want what broken made to compile", "SyntaxError")),
        ({**LONGER, "anchor": "return 6\n"}, ("broken, edit 1: want the anchor 'return 6' once, found it nowhere",)),
    ],
)
def test_a_patch_that_does_not_fit_or_compile_is_refused(
    rolled: RolloutSite, edit: dict[str, str], texts: tuple[str, ...]
) -> None:
    write_patch(rolled, "broken", edit)
    rolled.write(llm=service(rolled, "broken"))
    refused(rolled, *texts)


def test_two_patches_that_want_the_same_line_are_refused(rolled: RolloutSite) -> None:
    write_patch(rolled, "broken", {**LONGER, "fragment": "return 7\n"})
    rolled.write(llm=service(rolled, "longer", "broken"))
    refused(rolled, "broken, edit 1 and longer, edit 1 both want line 5")


def test_a_file_that_is_not_in_the_image_is_refused(rolled: RolloutSite) -> None:
    rolled.write(llm=service(rolled, "longer", packages="/opt/nothing"))
    refused(rolled, "No such file or directory: '/opt/nothing/vllm/limits.py'", "is images.packages right?")


def test_a_file_whose_compiled_form_would_win_is_refused(rolled: RolloutSite) -> None:
    own = "/usr/local/lib/vllm-standin"
    write_patch(rolled, "broken", LONGER, path="standin/metrics.py")
    rolled.write(llm=service(rolled, "broken", packages=own))
    refused(rolled, "compiled with an unchecked hash")


def test_a_patch_that_nobody_has_is_refused_by_its_gate(rolled: RolloutSite) -> None:
    rolled.write(llm=service(rolled, "nothing"))
    ran = rolled.deploy("--dry")
    assert ran.code == 1, ran.out
    assert "patches: want the patches nothing, found want a patch of patches/VERSION/" in ran.plain, ran.out


def test_a_patch_is_taken_away_and_comes_back_with_its_release(rolled: RolloutSite) -> None:
    rolled.write(llm=service(rolled, "longer"))
    ran = rolled.deploy("--diff")
    assert ran.code == 0, ran.out
    assert "patch note: removed (was " in ran.plain
    assert "# ours" not in seen(rolled) and "return 50" in seen(rolled)
    back = rolled.pyinfra("rollback.py", "-y")
    assert back.code == 0, back.out
    assert "# ours" in seen(rolled)


def test_an_audit_finds_a_patched_file_that_somebody_edited(rolled: RolloutSite) -> None:
    rolled.write(llm=service(rolled, "note", "longer"))
    clean = rolled.pyinfra("audit.py")
    assert clean.code == 0, clean.out
    file = f"{STATE}/llm/current/patched-0"
    rolled.on("a1", f"cp {file} /srv/kept; echo '# mine' >>{file}")
    ran = rolled.pyinfra("audit.py")
    assert ran.code == 2 and f"{PACKAGES}/vllm/limits.py as note, longer made it" in ran.plain, ran.out
    rolled.on("a1", f"cat /srv/kept >{file}")


def test_an_image_without_vllm_is_told_by_the_node(rolled: RolloutSite) -> None:
    digest = (rolled.lab.folder / "image-0.30.0.digest").read_text().strip()
    ran = rolled.fleet_command("patch", "check", f"localhost/vllm-standin@{digest}", "--node", "a1", timeout=60)
    assert ran.code == 1 and "want an image with vLLM and python3" in ran.plain, ran.out
    gone = rolled.fleet_command("patch", "check", "localhost/nothing:1", "--node", "a1", timeout=60)
    assert gone.code == 1 and "Traceback" not in gone.out, gone.out


IMAGE_WITH_ENGINE = """
set -e
asked='import os, sys; print([path for path in sys.path if os.path.isdir(path)][-1])'
packages=$(podman run --rm --network none --entrypoint python3 {standin} -c "$asked")
made=$(podman create --network none {standin})
mkdir -p /srv/engine/vllm /srv/engine/vllm-0.30.0.dist-info
: >/srv/engine/vllm/__init__.py
cp {packages}/vllm/limits.py /srv/engine/vllm/
for part in vllm vllm-0.30.0.dist-info; do podman cp /srv/engine/$part $made:$packages/; done
podman commit --quiet $made localhost/engine:1
podman rm $made
"""


def test_what_would_apply_to_an_image_on_a_node_is_told(rolled: RolloutSite) -> None:
    """Exit 0 where every file is the one that the patch was written for, 2 where only the anchors fit."""
    digest = (rolled.lab.folder / "image-0.30.0.digest").read_text().strip()
    script = IMAGE_WITH_ENGINE.format(standin=f"localhost/vllm-standin@{digest}", packages=PACKAGES)

    def told(text: str) -> tuple[int, dict[str, Any]]:
        held(rolled, text)
        rolled.on("a1", script)
        words = ("patch", "check", "localhost/engine:1", "--node", "a1", "--patch", "longer", "--json")
        ran = rolled.fleet_command(*words, timeout=60)
        assert "{" in ran.plain, ran.out
        return ran.code, json.loads(ran.plain[ran.plain.index("{") :])

    code, exact = told(SOURCE)
    assert (code, exact["engine"]) == (0, "0.30.0") and exact["patches"][0]["answer"] == "applies", exact
    code, other = told(f"# newer\n{SOURCE}")
    assert code == 2 and other["patches"][0]["answer"] == "anchors fit", other
    held(rolled, SOURCE)
