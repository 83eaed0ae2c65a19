"""`--data NAME=VALUE`, parsed as pyinfra parses it, changes one run and nothing else."""

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from declared_sites import GLM, PROJECT, node

from declare.invocation import enter, for_command
from declare.load import load_fleet
from declare.override import NAMES, TAKEN_BACK, parsed, read_overrides
from declare.problem import DeclarationError
from declare.site import find_site
from fleet.declaration import Fleet, LayoutDeclaration, Speculative

DIGEST = f"sha256:{'a' * 64}"
AUTO = "services: {qwen: {model: /srv/qwen, layout: auto, port: 8001}}\n"
WriteSite = Callable[..., Path]
Load = Callable[..., Fleet]


@pytest.fixture
def load(write_site: WriteSite) -> Load:
    """A fleet of two nodes, glm on n1 and qwen on n2, under overrides as typed."""

    def run(*words: str) -> Fleet:
        fleet = write_site({"inventory/prod/n2.yaml": node(2, "auto"), "group_data/auto.yaml": AUTO})
        return for_command(str(fleet), words).fleet

    return run


def setting(fleet: Fleet, path: str, node: str = "n1") -> Any:
    (value,) = fleet.placement(node).services
    for name in path.split("."):
        value = getattr(value, name)
    return value


SETTINGS = [
    ("tp=8", "layout.tp", 8),
    ("pp=1", "layout.pp", 1),
    ("dp=2", "layout.dp", 2),
    ("max_model_len=352000", "max_model_len", 352000),
    ("kv_cache_dtype=fp8_ds_mla", "kv_cache_dtype", "fp8_ds_mla"),
    ("speculative=mtp:2", "speculative", Speculative(method="mtp", k=2)),
    ("speculative=none", "speculative", "none"),
    ("speculative=auto", "speculative", "auto"),
    ('speculative={"method": "ngram", "k": 4}', "speculative", Speculative(method="ngram", k=4)),
    ("gpu_memory_utilization=0.95", "gpu_memory_utilization", 0.95),
    ("disable_custom_all_reduce=1", "disable_custom_all_reduce", True),
    ("disable_custom_all_reduce=0", "disable_custom_all_reduce", False),
    ("disable_custom_all_reduce=auto", "disable_custom_all_reduce", "auto"),
    ("v2_runner=true", "v2_runner", True),
    ("numa_bind=false", "numa_bind", False),
    ('hf_overrides={"index_topk_freq": 1}', "hf_overrides", {"index_topk_freq": 1}),
    ("boundary_repaired=true", "boundary_repaired", True),
    ("port=9000", "port", 9000),
    ("model=/srv/other", "model", "/srv/other"),
    (f"image_digest={DIGEST}", "image.digest", DIGEST),
    ("engine=0.31.0", "image.engine", "0.31.0"),
    ("start_budget_s=60", "policy.start_budget_s", 60),
    ("proof=completion,completion", "policy.proof", ("completion", "completion")),
    ("proof=[]", "policy.proof", ()),
    ("last_replica=take", "policy.last_replica", "take"),
]


@pytest.mark.parametrize(("typed", "path", "value"), SETTINGS, ids=[typed for typed, _, _ in SETTINGS])
def test_a_setting_is_overridden_on_every_service(load: Load, typed: str, path: str, value: object) -> None:
    fleet = load(typed)
    assert setting(fleet, path, "n1") == value
    assert setting(fleet, path, "n2") == value


@pytest.mark.parametrize(
    ("typed", "value"),
    [("partition=41,37", (41, 37)), ("partition=[41, 37]", (41, 37)), ("partition=78", (78,))],
)
def test_a_partition_is_a_comma_list_or_json(load: Load, typed: str, value: tuple[int, ...]) -> None:
    assert setting(load(typed, "service=glm"), "layout.partition") == value


@pytest.mark.parametrize("name", ["partition", "device_order"])
def test_an_empty_value_takes_back_what_is_declared_of_the_layout(load: Load, name: str) -> None:
    declared = {"service=glm"} | ({"device_order=7,6,5,4,3,2,1,0"} if name == "device_order" else set())
    assert setting(load(*declared), f"layout.{name}") is not None
    layout = setting(load("service=glm", f"{name}="), "layout")
    assert getattr(layout, name) is None and (layout.tp, layout.pp) == (4, 2)


@pytest.mark.parametrize(
    ("typed", "value"),
    [
        ("batches=1,25%", ("1", "25%")),
        ("batches=2", ("2",)),
        ('batches=[1, "100%"]', ("1", "100%")),
        ("batches=50%", ("50%",)),
    ],
)
def test_batches_are_overridden(load: Load, typed: str, value: tuple[str, ...]) -> None:
    assert load(typed).rollout.batches == value


def test_the_rest_of_the_policy_is_overridden(load: Load) -> None:
    rollout = load("on_failed_gate=host", "on_unreachable=host", "min_free_gib=0.5").rollout
    assert (rollout.on_failed_gate, rollout.on_unreachable, rollout.min_free_gib) == ("host", "host", 0.5)


def test_only_the_named_service_takes_the_settings(load: Load) -> None:
    fleet = load("service=qwen", "tp=2", "dp=4", "max_model_len=8192")
    assert setting(fleet, "layout", "n2") == LayoutDeclaration(tp=2, dp=4)
    assert setting(fleet, "max_model_len", "n1") == 4096


def test_a_size_makes_auto_explicit_and_leaves_the_others_at_one(load: Load) -> None:
    assert setting(load("service=qwen", "tp=8"), "layout", "n2") == LayoutDeclaration(tp=8, pp=1, dp=1)


def test_a_partition_alone_is_for_the_service_that_the_command_is_about(write_site: WriteSite) -> None:
    fleet = write_site({"inventory/prod/n2.yaml": node(2, "auto"), "group_data/auto.yaml": AUTO})
    words = ["partition=41,37", "max_model_len=8192", "waive=numa: a known fault of that board"]
    loaded = for_command(str(fleet), words, about="glm").fleet
    assert setting(loaded, "layout") == LayoutDeclaration(tp=4, pp=2, partition=(41, 37))
    assert (setting(loaded, "layout", "n2"), setting(loaded, "max_model_len", "n2")) == ("auto", 4096)
    assert loaded.waivers[0].services == (), "a gate of the node fails for no service"


def test_a_partition_alone_is_for_the_nodes_of_the_run(write_site: WriteSite) -> None:
    fleet = write_site({"inventory/prod/n2.yaml": node(2, "auto"), "group_data/auto.yaml": AUTO})
    loaded = enter(str(fleet), {"data": ("partition=41,37",), "limit": ("n1",), "dry": True}).fleet
    assert setting(loaded, "layout.partition") == (41, 37)
    with pytest.raises(DeclarationError, match='layout of qwen is "auto"'):
        enter(str(fleet), {"data": ("partition=41,37",), "limit": ("n2",), "dry": True})


def test_a_version_is_what_was_typed_and_no_number(load: Load) -> None:
    assert setting(load("engine=0.30"), "image.engine") == "0.30"


def test_one_stage_keeps_the_partition_so_that_the_gate_can_warn(load: Load) -> None:
    layout = setting(load("service=glm", "tp=8", "pp=1"), "layout")
    assert layout == LayoutDeclaration(tp=8, pp=1, partition=(42, 36))


def test_a_digest_replaces_a_digest_file_that_is_not_there(write_site: WriteSite) -> None:
    image = "    image: {name: x, digest_file: nowhere, engine: 0.30.0}\n"
    fleet = for_command(str(write_site({"group_data/glm.yaml": GLM + image})), [f"image_digest={DIGEST}"]).fleet
    assert setting(fleet, "image.digest") == DIGEST


def test_waivers_of_one_run_carry_a_reason(load: Load) -> None:
    (waiver,) = load("waive=stages: 200 trials, none bad").waivers
    assert (waiver.gate, waiver.reason, waiver.nodes, waiver.services) == ("stages", "200 trials, none bad", (), ())
    both = load('waive=["stages: 200 trials, none bad", "numa: a known fault"]', "service=glm").waivers
    assert [(waiver.gate, waiver.services) for waiver in both] == [("stages", ("glm",)), ("numa", ("glm",))]


def test_prune_is_off_unless_it_is_said(write_site: WriteSite) -> None:
    fleet = str(write_site())
    assert not for_command(fleet).prune
    assert for_command(fleet, ["prune=true"]).prune


WRONG = [
    (["tpp=8"], '--data tpp: want a known name, found "tpp"; did you mean "tp"?'),
    (["tp=eight"], '--data tp: want an integer >= 1, found "eight"'),
    (["tp=0"], "--data tp: want an integer >= 1, found 0"),
    (["tp=true"], "--data tp: want an integer >= 1, found true"),
    (["tp=8.0"], "--data tp: want an integer >= 1, found 8.0"),
    (["tp=null"], "--data tp: want a value, found null"),
    (["tp="], "--data tp: want a value, found nothing"),
    (["report= "], "--data report: want a value, found nothing"),
    (["proof=,"], "--data proof: want a value, found nothing"),
    (["ssh_config_file=/nonexistent"], '--data ssh_config_file: want a file that is there, found "/nonexistent"'),
    (["ssh_user="], "--data ssh_user: want a value, found nothing"),
    (["ssh_user=null"], "--data ssh_user: want a value, found null"),
    (["ssh_key=/nonexistent"], '--data ssh_key: want a file that is there, found "/nonexistent"'),
    (["tp"], "--data tp: want NAME=VALUE, found no ="),
    (["tp=4", "tp=8"], "--data tp: want one value, found 2"),
    (["service=glm", "partition=41-37"], '--data partition: want a list, each an integer, found "41-37"'),
    (
        ["partition=41,37"],
        '--data partition: want tp or pp beside it, or service=NAME, since the layout of qwen is "auto"',
    ),
    (
        ["service=qwen", "partition=41,37"],
        '--data partition: want tp or pp beside it, since the layout of qwen is "auto"',
    ),
    (["engine=latest"], "--data engine: want an engine version such as 0.30.0"),
    (["engine=0.30-"], "--data engine: want an engine version such as 0.30.0"),
    (["model=null"], "--data model: want an absolute path"),
    (["image_digest=latest"], "--data image_digest: want a digest: sha256: and 64 hex digits"),
    (["model=org/name"], "--data model: want an absolute path"),
    (["hf_overrides={bad"], '--data hf_overrides: want a mapping, such as {"name": 1}, found "{bad"'),
    (['hf_overrides={"a": NaN}'], '--data hf_overrides: want a mapping, such as {"name": 1}, found "{'),
    (["hf_overrides=" + "[" * 100_000], '--data hf_overrides: want a mapping, such as {"name": 1}, found "[['),
    (["service=glmm"], '--data service: want a known service, found "glmm"; did you mean "glm"?'),
    (["proof=completions"], '--data proof: want a known probe, found "completions"; did you mean "completion"?'),
    (["batches=0"], "--data batches: want counts or percents"),
    (["on_failed_gate=go"], '--data on_failed_gate: want "stop" or "host", found "go"'),
    (["waive=stages"], "--data waive: want GATE:REASON"),
    (["waive=stages:so"], '--data waive: want text of at least 8 characters, found "so"'),
    (["prune=maybe"], '--data prune: want true or false, found "maybe"'),
    (["ssh_usr=root"], '--data ssh_usr: want a known name, found "ssh_usr"; did you mean "ssh_user"?'),
    (["ssh_hostname=192.0.2.9"], "--data ssh_hostname: want the address in NODE.yaml"),
    (
        ["ssh_strict_host_key_checking=no"],
        "--data ssh_strict_host_key_checking: want host keys that are always checked",
    ),
]


@pytest.mark.parametrize(("words", "said"), WRONG, ids=[" ".join(words) for words, _ in WRONG])
def test_a_wrong_override_names_its_option(load: Load, words: list[str], said: str) -> None:
    with pytest.raises(DeclarationError) as refused:
        load(*words)
    (line,) = refused.value.lines
    assert line.startswith(said)


@pytest.mark.parametrize("name", [name for name in NAMES if name not in TAKEN_BACK])
def test_no_override_may_be_empty(load: Load, name: str) -> None:
    with pytest.raises(DeclarationError, match=f"^--data {name}: want a value, found nothing$"):
        load(f"{name}=")


def test_the_connection_options_of_pyinfra_pass(load: Load) -> None:
    assert load("ssh_user=admin", "ssh_connect_retries=3", "ssh_config_file=/dev/null")


def test_every_variable_of_the_old_script_has_its_place_in_the_page() -> None:
    page = (PROJECT / "docs/site.md").read_text()
    variables = (
        "TP_SIZE PP_SIZE PP_LAYER_PARTITION MAX_MODEL_LEN KV_CACHE_DTYPE SPEC_METHOD "
        "DISABLE_CUSTOM_ALL_REDUCE ALLOW_UNVERIFIED_PP FORCE_V2_RUNNER HF_OVERRIDES"
    )
    for variable in variables.split():
        (row,) = (line for line in page.splitlines() if line.startswith(f"| `{variable}`"))
        typed = re.findall(r"--data '?(\w+)=", row)
        assert typed and set(typed) <= set(NAMES), row


def test_every_override_is_in_the_page() -> None:
    page = (PROJECT / "docs/site.md").read_text()
    assert [name for name in NAMES if f"`{name}`" not in page] == []


def test_values_are_read_as_pyinfra_reads_them() -> None:
    words = [
        "true",
        "False",
        "8",
        "08",
        "-1",
        "+1",
        "1_0",
        "0.5",
        "0.30.0",
        "null",
        "41,37",
        "[1, 2]",
        '{"a": [null]}',
        "",
        " 8",
    ]
    words += ["{bad", "NaN", "1e3", '"0.30"', "mtp:3", "é", "25%"]
    # in a process of its own: pyinfra's command line patches the whole process for gevent
    code = (
        "import json, sys; from pyinfra_cli.util import parse_cli_arg as p; print([*map(p, json.loads(sys.argv[1]))])"
    )
    done = subprocess.run([sys.executable, "-c", code, json.dumps(words)], capture_output=True, text=True, check=True)
    assert str([parsed(word) for word in words]) == done.stdout.strip()


def test_overrides_are_values(write_site: WriteSite) -> None:
    data = {"tp": 8, "batches": "1,50%"}
    fleet = load_fleet(find_site(str(write_site()), PROJECT), data)
    assert setting(fleet, "layout.tp") == 8 and fleet.rollout.batches == ("1", "50%")
    assert read_overrides(data, []).settings == {"tp": 8}
