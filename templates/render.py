"""Jinja2 templates filled with the values of a Plan. StrictUndefined: what is missing is an error, never empty."""

from functools import cache
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template

from fleet.plan import Plan
from fleet.releases.command import NODE_SCRIPT, RUNTIMES, STATE, container_argv, container_name
from fleet.releases.release import Release, make_release
from fleet.releases.systemd import exec_line


@cache
def _template(name: str) -> Template:
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,  # systemd units, not HTML; quoting is fleet.releases.systemd's
    )
    return environment.get_template(name)


def _listens_on(host: str) -> tuple[str, ...]:
    """The address to ask for /health, where 127.0.0.1 would not reach the engine."""
    return () if host in ("0.0.0.0", "127.0.0.1") else (host,)


def _asks(verb: str, plan: Plan) -> str:
    """A question at the engine's port: of a part without HTTP of its own, at its head."""
    where = _listens_on(plan.service.host) if plan.span is None or plan.serves else (plan.span.head,)
    return exec_line((NODE_SCRIPT, verb, str(plan.service.port), *where))


def render_unit(plan: Plan) -> str:
    """The systemd unit of a plan."""
    return _template("vllm.service.j2").render(
        node=plan.node,
        service=plan.service,
        layout=plan.layout,
        span=plan.span,
        state=STATE,
        runtime=RUNTIMES[plan.node.runtime],
        container=container_name(plan.service.name),
        exec_start=exec_line(container_argv(plan)),
        wait_health=_asks("wait-health", plan),
        wait_gone=None if plan.serves else _asks("wait-gone", plan),
    )


def render_release(plan: Plan, secrets_mark: str = "") -> Release:
    """Everything rendered for a plan. Raises ValueError where the plan has no layout."""
    return make_release(plan, render_unit(plan), secrets_mark)
