"""`fleet plan`: the layout of a service on a node, what it holds, and why it is that one."""

import json
import os
from pathlib import Path
from typing import Annotated, Any

import typer

from cli.asking import Asked, Offline, layout_named, measured_as, of_service, offline
from cli.machine import Json, fail

Config = Annotated[Path | None, typer.Option("--config", help="config.json: no node is contacted.")]
NodeFile = Annotated[Path | None, typer.Option("--node", help="NODE.yaml as in inventory/; with --config, offline.")]
FleetName = Annotated[str | None, typer.Option("--fleet", envvar="FLEET", help="As of the other verbs.")]
Data = Annotated[list[str] | None, typer.Option("--data", help="Override for this run: key=value.")]
Engine = Annotated[str | None, typer.Option("--engine", help="Offline: engine version; default: the newest known.")]
MaxModelLen = Annotated[int | None, typer.Option("--max-model-len", help="Offline: tokens; default: the model's.")]
KvDtype = Annotated[str | None, typer.Option("--kv-cache-dtype", help="Offline.")]
Speculative = Annotated[str | None, typer.Option("--speculative", help="Offline: none, auto, mtp:3, ...")]
Utilization = Annotated[float | None, typer.Option("--gpu-memory-utilization", help="Offline.")]
Objective = Annotated[
    str | None,
    typer.Option(
        "--objective", help='Offline: latency, throughput, context, or a target as JSON: {"context": 8192, ...}.'
    ),
]
Checkpoint = Annotated[
    Path | None, typer.Option("--checkpoint", help="Offline: folder with safetensors files: weights by their headers.")
]
Measured = Annotated[
    Path | None,
    typer.Option("--measured", help="Offline: YAML with the stages of a cut that ran; needs layouts with its sizes."),
]
Repaired = Annotated[bool, typer.Option("--boundary-repaired", help="Offline: as the field of a service.")]
PrefillRate = Annotated[
    float | None, typer.Option("--prefill-tokens-per-s", help="Offline: measured prompt tokens a second.")
]
Prompt = Annotated[
    int | None, typer.Option("--prompt", min=1, help="Tokens of a prompt; default: the service's length.")
]
Answer = Annotated[int, typer.Option("--answer", min=0, max=2**40, help="Tokens of an answer.")]


def plan(
    service: Annotated[
        str | None, typer.Argument(help="A service of group_data; none with --config and --node.")
    ] = None,
    node: Annotated[str | None, typer.Argument(help="Only this node; every node of the service by default.")] = None,
    config: Config = None,
    node_file: NodeFile = None,
    layout: Annotated[
        str | None, typer.Option("--layout", help="Explain this one: tp4/pp2/41,37, auto or declared.")
    ] = None,
    engine: Engine = None,
    max_model_len: MaxModelLen = None,
    kv_cache_dtype: KvDtype = None,
    speculative: Speculative = None,
    gpu_memory_utilization: Utilization = None,
    objective: Objective = None,
    boundary_repaired: Repaired = False,
    prefill_tokens_per_s: PrefillRate = None,
    checkpoint: Checkpoint = None,
    measured: Measured = None,
    prompt: Prompt = None,
    answer: Answer = 256,
    svg: Annotated[Path | None, typer.Option("--svg", help="Write a picture to this file.")] = None,
    everything: Annotated[bool, typer.Option("--all", help="Tell every other layout, not only the best.")] = False,
    fleet: FleetName = None,
    data: Data = None,
    as_json: Json = False,
) -> None:
    """Show the chosen layout, the memory of each stage, the pool, and why the other layouts were not taken.

    Exit 1: no layout can be, the declared one is refused, or config.json does not tell what would fit.
    """
    from cli.plan_document import document
    from fleet.layouts.explain import LayoutRefused, explain

    settings = {
        "engine": engine,
        "max_model_len": max_model_len,
        "kv_cache_dtype": kv_cache_dtype,
        "speculative": speculative,
        "gpu_memory_utilization": gpu_memory_utilization,
        "objective": objective,
        "boundary_repaired": boundary_repaired or None,
        "prefill_tokens_per_s": prefill_tokens_per_s,
    }
    asked = ask(service, node, config, node_file, settings, fleet, data, checkpoint)
    asked = [measured_as(one, layout, measured) for one in asked]
    answers = []
    for one in asked:
        declared, order = (one.declared, one.order) if layout is None else (layout_named(layout, one), None)
        try:
            found = explain(one.question, declared, order, prompt, answer, one.flags, one.env)
        except LayoutRefused as error:
            fail(f"{one.service} on {one.node}: {error}")
        answers.append((one, found))
    if svg is not None:
        _write(svg, answers)
    if as_json:
        documents = [document(one, found) for one, found in answers]
        typer.echo(json.dumps(documents[0] if len(documents) == 1 else documents, indent=1, ensure_ascii=False))
    else:
        from cli.plan_text import show
        from operations.show import console

        for one, found in answers:
            show(console(), one, found, everything, layout is not None)
    for one, found in answers:
        if config is not None and found.unknown:
            typer.echo(f"{one.service} on {one.node}: what fits is unknown: {found.unknown}", err=True)
    if any(found.candidate.problem or (config is not None and found.unknown) for _, found in answers):
        raise typer.Exit(1)


def ask(
    service: str | None,
    node: str | None,
    config: Path | None,
    node_file: Path | None,
    settings: dict[str, Any],
    fleet: str | None,
    data: list[str] | None,
    checkpoint: Path | None = None,
) -> list[Asked]:
    """The questions of a command line; exits 1 where it does not say what about."""
    if service is None or node_file is not None:
        if service is not None:
            fail("want a SERVICE, or --config and --node, found both")
        if config is None or node_file is None:
            fail("want a SERVICE, or --config FILE and --node FILE")
        if (settings["objective"] or "").startswith("{"):
            settings = {**settings, "objective": _target(settings["objective"])}
        return [offline(Offline(config=config, node=node_file, settings=settings, checkpoint=checkpoint))]
    settings = {**settings, "checkpoint": checkpoint}
    given = [f"--{name.replace('_', '-')}" for name, value in settings.items() if value is not None]
    if given:
        fail(f"{', '.join(given)}: only offline, with --config and --node; of a declared service: --data")
    from declare.invocation import for_command
    from declare.problem import DeclarationError

    try:
        invocation = for_command(fleet if fleet is not None else os.environ.get("FLEET"), data or [], service)
    except DeclarationError as error:
        fail(str(error))
    return of_service(invocation, service, node, config)


def _target(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        fail(f"--objective: want latency, throughput, context or a JSON object, found {text[:60]!r}: {error}")


def _write(path: Path, answers: list[Any]) -> None:
    from cli.plan_svg import picture

    try:
        path.write_text(picture(answers), encoding="utf-8")
    except OSError as error:
        fail(f"{path}: {error.strerror}")
