"""Mistakes in the services of group data."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from declared_sites import ALL, DIGEST, GLM, node, one_line

Files = dict[str, str | bytes]
Refusal = Callable[[Files], tuple[str, ...]]
N1, EVERYONE, GROUP = "inventory/prod/n1.yaml", "group_data/all.yaml", "group_data/glm.yaml"

MISTAKES: dict[str, tuple[Files, str]] = {
    "a_name_with_a_space": (
        {GROUP: "services: {my glm: {}}"},
        f"{GROUP}:1: services.my glm: want a service name: small letters",
    ),
    "a_name_that_climbs": ({GROUP: 'services: {"../glm": {}}'}, f"{GROUP}:1: services.../glm: want a service name"),
    "a_name_with_a_dollar": ({GROUP: "services: {glm$x: {}}"}, f"{GROUP}:1: services.glm$x: want a service name"),
    "the_name_of_the_lock_beside_it": (
        {GROUP: "services: {lock: {}}"},
        f"{GROUP}:1: services.lock: want a service name",
    ),
    "a_name_that_gives_a_unit_of_this_project": (
        {GROUP: "services: {fleet-boot: {}}"},
        f"{GROUP}:1: services.fleet-boot: want a service name",
    ),
    "services_that_are_no_mapping": ({GROUP: "services: [glm]"}, f"{GROUP}:1: services: want a mapping, found"),
    "services_of_a_node_that_are_no_mapping": (
        {N1: node() + "services:\n"},
        f"{N1}:6: services: want a mapping of services (none: {{}}), found nothing",
    ),
    "a_word_for_a_service": ({GROUP: "services: {glm: yes}"}, f"{GROUP}:1: services.glm: want a mapping of settings"),
    "an_unknown_setting": (
        {GROUP: GLM + "    max_model_length: 1\n"},
        f'{GROUP}:5: services.glm.max_model_length: want a known field, found "max_model_length"; '
        'did you mean "max_model_len"?',
    ),
    "a_variable_that_systemd_would_drop": (
        {GROUP: GLM + '    env: {BELL: "a\\x07b"}\n'},
        f"{GROUP}:5: services.glm.env.BELL: want text without control characters, found",
    ),
    "a_flag_that_no_argv_can_carry": (
        {GROUP: GLM + '    flags: {--chat-template: "a\\0b"}\n'},
        f"{GROUP}:5: services.glm.flags.--chat-template: want text without NUL bytes, found",
    ),
    "a_flag_that_systemd_takes_for_broken_text": (
        {GROUP: GLM + '    flags: {--chat-template: "a\\uFFFEb"}\n'},
        f"{GROUP}:5: services.glm.flags.--chat-template: want text without Unicode noncharacters, found",
    ),
    "a_section_nobody_knows": (
        {GROUP: GLM + "service: {}\n"},
        f'{GROUP}:5: service: want a known field, found "service"; did you mean "services"?',
    ),
    "more_stages_than_can_be_counted_out": (
        {GROUP: GLM.replace("pp: 2", f"pp: {10**23}")},
        f"{GROUP}:4: services.glm.layout.pp: want at most 1024, found {10**23}",
    ),
    "a_start_budget_that_systemd_would_ignore": (
        {GROUP: GLM + f"    policy: {{start_budget_s: {10**23}}}\n"},
        f"{GROUP}:5: services.glm.policy.start_budget_s: want at most 604800, found {10**23}",
    ),
    "a_restart_limit_that_systemd_would_ignore": (
        {GROUP: GLM + f"    policy: {{restart_limit: {10**23}}}\n"},
        f"{GROUP}:5: services.glm.policy.restart_limit: want at most 1000, found {10**23}",
    ),
    "gpus_that_the_node_has_not": (
        {GROUP: GLM + "    gpus: [0, 8, -1]\n"},
        f"{GROUP}:5: services.glm.gpus: want GPUs of n1, which has 8 (from 0), found 8, -1",
    ),
    "a_rollout_in_a_group": ({GROUP: GLM + "rollout: {}\n"}, f"{GROUP}:5: rollout: want `rollout` in all.yaml only"),
    "a_mistake_in_the_defaults": (
        {EVERYONE: ALL.replace("4096", "4k")},
        f'{EVERYONE}:3: defaults.max_model_len: want an integer >= 1, found "4k"',
    ),
    "no_model": (
        {GROUP: GLM.replace("    model: /srv/glm\n", "")},
        f"{GROUP}:2: services.glm.model: want text, found nothing",
    ),
    "a_model_by_name": (
        {GROUP: GLM.replace("/srv/glm", "org/glm")},
        f"{GROUP}:3: services.glm.model: want an absolute path",
    ),
    "a_layout_nobody_knows": (
        {GROUP: GLM.replace("{tp: 4, pp: 2, partition: [42, 36]}", "automatic")},
        f'{GROUP}:4: services.glm.layout: want a mapping (tp, pp, dp, partition, device_order) or "auto", '
        'found "automatic"',
    ),
    "a_word_for_tp": (
        {GROUP: GLM.replace("tp: 4", "tp: four")},
        f'{GROUP}:4: services.glm.layout.tp: want an integer >= 1, found "four"',
    ),
    "an_unknown_layout_field": (
        {GROUP: GLM.replace("tp: 4", "tpp: 4")},
        f"{GROUP}:4: services.glm.layout.tpp: want a known field",
    ),
    "a_partition_of_words": (
        {GROUP: GLM.replace("[42, 36]", "'a,b'")},
        f'{GROUP}:4: services.glm.layout.partition: want a list, each an integer, found "a,b"',
    ),
    "k_of_zero": (
        {GROUP: GLM + "    speculative: mtp:0\n"},
        f"{GROUP}:5: services.glm.speculative: want auto, none, a method or METHOD:K such as mtp:3, found 'mtp:0'",
    ),
    "more_drafts_than_the_engine_takes": (
        {GROUP: GLM + "    speculative: mtp:99999\n"},
        f"{GROUP}:5: services.glm.speculative: want METHOD:K with K from 1 to 128, found 'mtp:99999'",
    ),
    "a_k_that_is_a_word": (
        {GROUP: GLM + "    speculative: {method: mtp, k: x}\n"},
        f'{GROUP}:5: services.glm.speculative.k: want an integer from 1 to 128, found "x"',
    ),
    "more_memory_than_there_is": (
        {GROUP: GLM + "    gpu_memory_utilization: 95\n"},
        f"{GROUP}:5: services.glm.gpu_memory_utilization: want a number > 0 and <= 1, found 95",
    ),
    "a_flag_with_one_dash": (
        {GROUP: GLM + "    flags: {-x: 1}\n"},
        f"{GROUP}:5: services.glm.flags.-x: want a flag such as",
    ),
    "a_key_that_everybody_reads": (
        {GROUP: GLM + "    flags: {--api_key: hunter2}\n"},
        f"{GROUP}:5: services.glm.flags: want the key as VLLM_API_KEY in secrets, for argv is for everybody on the "
        "node to read, found --api_key",
    ),
    "a_number_in_env": (
        {GROUP: GLM + "    env:\n      NCCL_DEBUG: 0.10\n"},
        f"{GROUP}:6: services.glm.env.NCCL_DEBUG: want text, found 0.10; put it in quotes",
    ),
    "an_env_name_with_a_dash": (
        {GROUP: GLM + "    env: {MY-VAR: x}\n"},
        f"{GROUP}:5: services.glm.env.MY-VAR: want an environment variable's name",
    ),
    "env_and_secret": (
        {GROUP: GLM + "    env: {A: x}\n    secrets: {A: {env: A}}\n"},
        f"{GROUP}:2: services.glm: want each name in env or in secrets, found ['A'] in both",
    ),
    "a_probe_nobody_wrote": (
        {GROUP: GLM + "    policy: {proof: [completions]}\n"},
        f'{GROUP}:5: services.glm.policy.proof: want a known probe, found "completions"; did you mean "completion"?',
    ),
    "a_hook_in_one_line": (
        {GROUP: GLM + "    policy:\n      drain: {command: ./drain.sh}\n"},
        f"{GROUP}:6: services.glm.policy.drain.command: want a list, at least 1, each text",
    ),
    "an_image_nobody_has": (
        {GROUP: GLM + "    image: engin\n"},
        f'{GROUP}:5: services.glm.image: want a known image of the catalogue, found "engin"; did you mean "engine"?',
    ),
    "an_image_by_tag": (
        {GROUP: GLM + "    image: {name: engine, digest: latest, engine: 0.30.0}\n"},
        f"{GROUP}:5: services.glm.image.digest: want a digest: sha256: and 64 hex digits",
    ),
    "an_engine_that_is_a_number": (
        {EVERYONE: ALL.replace("engine: 0.30.0", "engine: 0.30")},
        f"{EVERYONE}:2: images.engine.engine: want text, found 0.30; put it in quotes",
    ),
    "an_unused_image_with_a_mistake": (
        {EVERYONE: ALL.replace("defaults:", "  other: {name: x, digets: y}\ndefaults:")},
        f'{EVERYONE}:3: images.other.digets: want a known field, found "digets"; did you mean "digest"?',
    ),
    "no_digest_file": (
        {EVERYONE: ALL.replace(f'digest: "{DIGEST}"', "digest_file: ../build/digest")},
        f"{EVERYONE}:2: images.engine.digest_file: want a digest in ",
    ),
    "a_digest_file_with_something_else": (
        {EVERYONE: ALL.replace(f'digest: "{DIGEST}"', "digest_file: ../build/digest"), "build/digest": "latest\n"},
        f"{EVERYONE}:2: images.engine.digest_file: want a digest (sha256: and 64 hex digits) in ",
    ),
    "a_model_in_a_folder_with_a_colon": (
        {GROUP: GLM.replace("/srv/glm", "/srv/glm:fp8")},
        f"{GROUP}:3: services.glm.model: want an absolute path without a colon",
    ),
    "a_mount_with_a_colon": (
        {GROUP: GLM + '    mounts: [{source: /srv, target: "/data:rw"}]\n'},
        f"{GROUP}:5: services.glm.mounts[0].target: want an absolute path without a colon",
    ),
    "a_hook_that_no_program_can_be_called_with": (
        {GROUP: GLM + '    policy: {drain: {command: [echo, "a\\0b"]}}\n'},
        f"{GROUP}:5: services.glm.policy.drain.command[1]: want text without NUL bytes",
    ),
    "both_digests": (
        {EVERYONE: ALL.replace("digest:", "digest_file: x, digest:")},
        f"{EVERYONE}:2: images.engine.digest_file: want either digest or digest_file, found both",
    ),
}


def test_a_digest_file_that_is_a_pipe_is_refused_and_not_waited_for(refusal: Refusal, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "digest")
    files: Files = {EVERYONE: ALL.replace(f'digest: "{DIGEST}"', f"digest_file: {tmp_path / 'digest'}")}
    assert "found a pipe, a socket or a device" in one_line(refusal(files))


@pytest.mark.parametrize(("files", "said"), MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_in_a_service_is_told_with_its_place(refusal: Refusal, files: Files, said: str) -> None:
    assert one_line(refusal(files)).startswith(said)
