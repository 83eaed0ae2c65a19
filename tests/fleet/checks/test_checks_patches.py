"""An audit compares the patched files that the engine really sees with what the release recorded."""

import hashlib
from typing import Any

from fleet.drift import Case, Drift, audit
from fleet.engines.patch import Applied
from fleet.nodes.node import OwnFile
from fleet.nodes.running import Mounted, Running
from fleet.releases.command import STATE
from fleet.releases.difference import compare
from fleet.releases.release import make_release, patched_release_files
from tests.fleet.builders import facts, node, patch, plans_of, service, view
from tests.fleet.cases import engine, lying

TEXT = "timeout = 50\n"
SUM = hashlib.sha256(TEXT.encode()).hexdigest()
SOURCE = f"{STATE}/glm/current/patched-0"
TARGET = "/usr/local/lib/python3.12/dist-packages/vllm/wait.py"


def found(sha256: str | None = SUM, target: str = TARGET, record: str | None = "") -> tuple[Drift, ...]:
    """What the checks find where the process sees this hash there; `record` replaces patches.json, None: it is gone."""
    declared, there = service(patches=["index-boundary"]), (patch(),)
    (plan,) = plans_of(view(node(), declared, told=facts()), patches=there)
    release = make_release(plan, "[Unit]\n")
    applied = Applied(path="vllm/wait.py", pristine="0" * 64, sha256=SUM, text=TEXT, patches=("index-boundary",))
    text = record or patched_release_files(plan, [applied])["patches.json"]
    path = f"{STATE}/glm/releases/{release.id}/patches.json"
    own = OwnFile(path=path, sha256=hashlib.sha256(text.encode()).hexdigest(), mode="600", owner="root:root", text=text)
    lies = lying(plan, release, secrets={}, mounted={SOURCE: sha256 or "0"})
    kept = tuple(file for file in lies.files if not file.path.endswith("secrets.env"))
    lies = lies.model_copy(update={"files": kept if record is None else (*kept, own)})
    mounted = Mounted(source=SOURCE, target=target, same=True, sha256=sha256)
    told: dict[str, Any] = {
        "services": (lies,),
        "running": Running(engines=(engine(plan, mounts=(mounted,), secrets={}),)),
    }
    seen = view(node(), declared, told=facts(**told))
    (plan,) = plans_of(seen, patches=there)
    case = Case(plan=plan, release=release, change=compare(plan, release, {}), digests={})
    return tuple(one for one in audit([case], [seen]) if one.check in ("patches", "files"))


def test_a_container_that_sees_what_was_made_has_no_drift() -> None:
    assert found() == ()


def test_another_content_is_told_with_both_hashes() -> None:
    (one,) = found("f" * 64)
    assert (one.check, one.kind) == ("patches", "drift")
    assert (
        f"{TARGET} as index-boundary made it, sha256 {SUM[:16]}..." in one.want
        and one.got == "sha256 " + "f" * 16 + "..."
    )
    assert found(None)[0].got == "no file"


def test_a_file_that_is_not_laid_over_is_told() -> None:
    (one,) = found(target="/elsewhere")
    assert one.got == "the image's own file" and TARGET in one.want


def test_without_a_record_it_is_not_known() -> None:
    for record in (None, "{", '{"files": [1]}'):
        one = next(one for one in found(record=record) if one.check == "patches")
        assert (one.check, one.kind) == ("patches", "unknown") and "patches.json" in one.want


def test_a_release_without_its_record_is_put_right() -> None:
    assert [one.check for one in found(record=None)].count("files") == 1
