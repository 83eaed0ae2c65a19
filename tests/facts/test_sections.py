"""The probe's own bash on folders that look like a node's, and what is read from its answer."""

import hashlib
import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from facts.parse.frames import Section, parse_frames
from facts.parse.probe import read_models
from facts.parse.runtime import parse_disks, parse_ports, parse_runtime
from facts.parse.services import parse_services
from fleet.nodes.node import Image, Installed, ModelFolder, NodeFacts, Runtime
from fleet.nodes.request import ProbeRequest, ServiceRequest
from fleet.releases.command import STATE
from fleet.releases.systemd import environment_file
from tests.facts.fake_node import CURRENT, DIGEST, OLD, FakeNode

pytestmark = pytest.mark.skipif(shutil.which("bash") is None, reason="runs the probe's bash")

KEY = "a-random-key"
NAME = "localhost/vllm"
UNIT = "Id=vllm-chat.service\nLoadState=loaded\nActiveState=active\nSubState=running\nUnitFileState=enabled\n"
UNITS = Section(text=f"MainPID=42\nNRestarts=1\n{UNIT}ActiveEnterTimestamp=Mon 2026-11-30 04:20:00 UTC\n", code=0)


@pytest.fixture
def node(tmp_path: Path) -> FakeNode:
    return FakeNode(tmp_path)


def request(model: str = "/srv/model", image: str = f"{NAME}@{DIGEST}", key: str = KEY) -> ProbeRequest:
    return ProbeRequest(services=(ServiceRequest(name="chat", model=model, image=image, port=8000),), secret_key=key)


def installed(node: FakeNode, key: str = KEY) -> tuple[tuple[Installed, ...], str | None]:
    answer, script = node.ask(request(key=key), "services", "files", "secrets")
    return parse_services({**parse_frames(answer, script.nonce), "units": UNITS}, ["chat"])


def the_service(node: FakeNode) -> Installed:
    services, error = installed(node)
    assert error is None
    return services[0]


def runtime(node: FakeNode, image: str = f"{NAME}@{DIGEST}") -> Runtime:
    answer, script = node.ask(request(image=image), "runtime")
    return parse_runtime(parse_frames(answer, script.nonce)["runtime"], "podman")


def test_a_service_with_its_releases_marks_files_and_unit(node: FakeNode) -> None:
    folder = node.release("chat", CURRENT, unit="[Unit]\n", env='A="ü"\n', proof_json='{"ok": true}')
    (folder / "env").chmod(0o600)
    node.release("chat", OLD)
    node.mark("chat", current=CURRENT, proven=f"{CURRENT}\n", previous=f"{OLD}\n", pending=f"{CURRENT} 100 200 run-1\n")
    (node.units / "vllm-chat.service").write_text("[Unit]\n")
    service = the_service(node)
    assert (service.current, service.proven, service.previous) == (CURRENT, CURRENT, OLD)
    assert service.releases == (CURRENT, OLD)
    assert service.pending and (service.pending.since, service.pending.deadline, service.pending.run) == (
        100,
        200,
        "run-1",
    )
    assert service.proof == '{"ok": true}' and service.error is None
    files = {file.path: file for file in service.files}
    env = files[f"{STATE}/chat/releases/{CURRENT}/env"]
    assert (env.mode, env.text, env.sha256) == ("600", 'A="ü"\n', hashlib.sha256('A="ü"\n'.encode()).hexdigest())
    assert "/etc/systemd/system/vllm-chat.service" in files
    assert service.unit and (service.unit.main_pid, service.unit.restarts, service.unit.enabled) == (42, 1, "enabled")


def test_a_node_without_our_state_has_no_services(node: FakeNode) -> None:
    assert installed(node) == ((), None)


def test_a_unit_of_a_declared_name_is_told_of_though_we_did_not_write_it(node: FakeNode) -> None:
    (node.units / "vllm-chat.service").write_text("[Service]\n")
    service = the_service(node)
    assert service.current is None and service.files[0].text == "[Service]\n"


def test_a_current_release_that_is_not_complete_is_an_error(node: FakeNode) -> None:
    (node.release("chat", CURRENT) / "plan.json").unlink()
    node.mark("chat", current=CURRENT)
    service = the_service(node)
    assert service.current == CURRENT and service.releases == ()
    assert "has no plan.json" in (service.error or "")


@pytest.mark.parametrize(
    ("mark", "text", "told"),
    [
        ("current", "nowhere", "current: want a release id, found 'no release"),
        ("proven", "../../etc\n", "proven: want a release id, found '../../etc'"),
        ("proven", "", "proven: want a release id, found ''"),
        ("pending", f"{CURRENT} 100\n", "pending: want `ID SINCE DEADLINE RUN`"),
    ],
)
def test_a_mark_that_cannot_be_read_is_an_error_with_its_text(node: FakeNode, mark: str, text: str, told: str) -> None:
    node.release("chat", CURRENT)
    node.mark("chat", **{mark: text})
    assert told in (the_service(node).error or "")


def test_large_binary_and_linked_files_have_neither_text_nor_digest(node: FakeNode) -> None:
    folder = node.release("chat", CURRENT, env="x" * 70000)
    (folder / "plan.json").write_bytes(b"{}\0")
    (folder / "unit").symlink_to("/dev/null")
    node.mark("chat", current=CURRENT)
    for file in the_service(node).files:
        assert (file.text, file.sha256) == (None, "")


SECRET = st.text(st.characters(exclude_categories=("Cc", "Cs")) | st.sampled_from('\n\t"\\$`%='), max_size=40)


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(values=st.dictionaries(st.sampled_from(["TOKEN", "API_KEY", "_x1"]), SECRET, min_size=1))
def test_any_secret_comes_back_as_a_keyed_digest_only(node: FakeNode, values: dict[str, str]) -> None:
    shutil.rmtree(node.state, ignore_errors=True)
    node.release("chat", CURRENT, secrets_env=environment_file(values))
    node.mark("chat", current=CURRENT)
    answer, _ = node.ask(request(), "services", "files", "secrets")
    assert not any(len(value) > 8 and value in answer for value in values.values())
    digests = {name: hashlib.sha256((KEY + value).encode()).hexdigest() for name, value in values.items()}
    service = the_service(node)
    assert service.secrets == digests and service.error is None
    assert [file.sha256 for file in service.files if file.path.endswith("secrets.env")] == [""]


def test_secrets_that_somebody_else_wrote_are_an_error(node: FakeNode) -> None:
    node.release("chat", CURRENT, secrets_env='A="1"\nTOKEN=abc\n')
    node.mark("chat", current=CURRENT)
    assert "secrets.env" in (the_service(node).error or "")


def test_without_a_key_no_secret_is_looked_at(node: FakeNode) -> None:
    node.release("chat", CURRENT, secrets_env='A="1"\n')
    node.mark("chat", current=CURRENT)
    services, error = installed(node, key="")
    assert error is None and services[0].secrets == {}


def test_a_wanted_image_is_found_in_the_store_without_starting_podman(node: FakeNode) -> None:
    node.runtime("echo started; exit 3")
    node.image("docker.io/other/thing:1", digest="sha256:" + "cd" * 32)
    node.image(f"{NAME}:0.30.0", engine="0.30.0")
    found = runtime(node)
    assert found.error is None
    assert found.images[0] == Image(reference=f"{NAME}@{DIGEST}", digest=DIGEST, engine="0.30.0")
    assert found.images[1].reference == "docker.io/other/thing@sha256:" + "cd" * 32


def test_an_image_with_the_digest_under_another_name_is_a_question_for_podman(node: FakeNode) -> None:
    node.runtime('echo "Error: $6: image not known" >&2; exit 125')
    node.image("localhost/other:1")
    found = runtime(node)
    assert found.error is None
    assert [image.reference for image in found.images] == [f"localhost/other@{DIGEST}"]


def test_podman_is_asked_where_the_store_does_not_tell(node: FakeNode) -> None:
    node.runtime("""echo '["localhost/vllm@sha256:1"] {"org.vllm-fleet.engine":"0.31.0"}'""")
    assert runtime(node).images == (Image(reference=f"{NAME}@{DIGEST}", digest=DIGEST, engine="0.31.0"),)


def test_a_podman_that_was_never_used_is_left_so_and_asked_only_where_a_store_has_heard_of_the_digest(
    node: FakeNode,
) -> None:
    node.runtime("echo started; exit 3")
    (node.store / "db.sql").unlink()
    found = runtime(node)
    assert (found.images, found.error) == ((), None), "the image is absent, and podman was not started"
    node.image("localhost/other:1")
    assert "started" in (runtime(node).error or "")


@pytest.mark.parametrize("text", ["echo broken; exit 1", "echo 'no json'", "exit 125"])
def test_a_podman_that_does_not_answer_is_an_error_and_never_an_absent_image(node: FakeNode, text: str) -> None:
    node.runtime(text)
    found = runtime(node)
    assert found.images == () and found.error


def test_no_runtime_at_all_is_an_error(node: FakeNode) -> None:
    assert runtime(node).error == "no executable /usr/bin/podman"


@pytest.mark.parametrize(
    ("text", "error"),
    [('{"layers": 2}', None), ("{", "config.json"), ("[1]", "want an object"), (None, "No such file")],
)
def test_the_config_of_a_model_or_why_there_is_none(node: FakeNode, text: str | None, error: str | None) -> None:
    folder = node.root / """mod$(touch pwned) 'el" `id`; \\ü"""
    folder.mkdir()
    if text is not None:
        (folder / "config.json").write_text(text)
    path = str(folder)
    answer, script = node.ask(request(model=path), "models")
    (model,) = read_models(parse_frames(answer, script.nonce)["models"], [path])
    assert model.path == path
    assert error is None or error in (model.error or "")
    if error is None and text:
        assert model.config == json.loads(text)
        assert model.config_sha256 == hashlib.sha256(text.encode()).hexdigest()
    assert not Path("pwned").exists() and not (node.root / "pwned").exists()


def test_room_is_that_of_the_nearest_folder_that_exists(node: FakeNode) -> None:
    answer, script = node.ask(request(), "disks")
    state, storage = parse_disks(parse_frames(answer, script.nonce)["disks"])
    room = os.statvfs(node.root)
    assert state.path == STATE and storage.path.endswith("/store")
    assert state.total_bytes == storage.total_bytes == room.f_blocks * room.f_frsize


SS = '0      128          [::]:8000    [::]:*    users:(("vllm api",pid=7,fd=3),("python3",pid=8,fd=3))'


def test_a_listener_belongs_to_the_innermost_unit_of_its_cgroup() -> None:
    text = f"0 5 127.0.0.1:22 0.0.0.0:*\n{SS}\ncgroup 7 /system.slice/vllm-chat.service/libpod-payload-1\ncgroup 8 /\n"
    ports, error = parse_ports(Section(text=text, code=0))
    assert error is None
    assert [(port.port, port.process, port.pid, port.unit) for port in ports] == [
        (22, None, None, None),
        (8000, "vllm api", 7, "vllm-chat.service"),
        (8000, "python3", 8, None),
    ]


def test_a_container_of_docker_belongs_to_the_unit_of_its_name() -> None:
    text = f"{SS}\ncgroup 7 /system.slice/docker-{'ab' * 32}.scope\ncontainer {'ab' * 32} vllm-chat\n"
    assert parse_ports(Section(text=text, code=0))[0][0].unit == "vllm-chat.service"


@pytest.mark.parametrize("section", [Section(text="ss: command not found", code=127), Section(text="what?", code=0)])
def test_listeners_that_cannot_be_read_are_unknown(section: Section) -> None:
    ports, error = parse_ports(section)
    assert ports == () and error


def test_the_whole_probe_of_this_machine_is_one_answer(node: FakeNode) -> None:
    from facts.parse.probe import parse_probe

    answer, script = node.ask(request())
    facts = parse_probe(answer, script)
    assert isinstance(facts, NodeFacts) and facts.hostname == Path("/proc/sys/kernel/hostname").read_text().strip()


INDEXER = ("wq_b.weight", "wk.weight", "weights_proj.weight", "k_norm.weight", "k_norm.bias")


def tensor_names(*layers: int, leave_out: str = "", prefix: str = "model") -> dict[str, str]:
    names = [f"{prefix}.layers.{layer}.self_attn.indexer.{part}" for layer in layers for part in INDEXER]
    names += [f"{prefix}.layers.{layer}.self_attn.q_b_proj.weight" for layer in range(6)]
    return {name: "model-1.safetensors" for name in names if name != leave_out}


def folder_with(node: FakeNode, config: dict[str, Any], **files: bytes) -> ModelFolder:
    path = str(node.root / "checkpoint")
    Path(path).mkdir()
    (Path(path) / "config.json").write_text(json.dumps(config))
    for name, content in files.items():
        (Path(path) / name.replace("_", ".")).write_bytes(content)
    answer, script = node.ask(request(model=path), "models")
    (model,) = read_models(parse_frames(answer, script.nonce)["models"], [path])
    return model


SPARSE = {"index_topk": 2048, "num_hidden_layers": 6}


@pytest.mark.parametrize("indent", [None, 2])
@pytest.mark.parametrize("prefix", ["model", "model.language_model"])
def test_layers_with_an_indexer_are_told_by_the_index_of_the_shards(
    node: FakeNode, indent: int | None, prefix: str
) -> None:
    index = json.dumps({"weight_map": tensor_names(0, 1, 4, prefix=prefix)}, indent=indent).encode()
    model = folder_with(node, SPARSE, model_safetensors_index_json=index)
    assert (model.indexer_layers, model.tensors_error, model.config) == ((0, 1, 4), None, SPARSE)


def test_a_layer_with_half_an_indexer_has_none(node: FakeNode) -> None:
    gone = "model.layers.4.self_attn.indexer.wk.weight"
    index = json.dumps({"weight_map": tensor_names(0, 1, 4, leave_out=gone)}).encode()
    assert folder_with(node, SPARSE, model_safetensors_index_json=index).indexer_layers == (0, 1)


def test_layers_with_an_indexer_are_told_by_the_header_of_the_only_file(node: FakeNode) -> None:
    header = json.dumps({name: {"dtype": "BF16"} for name in tensor_names(0, 3)}).encode()
    body = b'"model.layers.5.self_attn.indexer.wk.weight"' * 4
    content = len(header).to_bytes(8, "little") + header + body
    assert folder_with(node, SPARSE, model_safetensors=content).indexer_layers == (0, 3)


def test_a_checkpoint_without_any_indexer_has_none_and_that_is_known(node: FakeNode) -> None:
    index = json.dumps({"weight_map": tensor_names()}).encode()
    model = folder_with(node, SPARSE, model_safetensors_index_json=index)
    assert (model.indexer_layers, model.tensors_error) == ((), None)


@pytest.mark.parametrize(
    ("files", "why"),
    [
        ({}, "no model.safetensors.index.json and no model.safetensors"),
        ({"model_safetensors": b"\xff" * 32}, "is not that of safetensors"),
        ({"model_safetensors": b""}, "is not that of safetensors"),
    ],
)
def test_tensor_names_that_cannot_be_read_are_not_known(node: FakeNode, files: dict[str, bytes], why: str) -> None:
    model = folder_with(node, SPARSE, **files)
    assert model.indexer_layers is None and why in (model.tensors_error or "")
    assert model.config == SPARSE


def test_of_a_model_without_sparse_attention_no_tensor_is_looked_for(node: FakeNode) -> None:
    model = folder_with(node, {"num_hidden_layers": 6})
    assert (model.indexer_layers, model.tensors_error) == (None, None)
