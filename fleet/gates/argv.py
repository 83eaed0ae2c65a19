"""Would the engine of the declared version take the command line and the environment that are about to be rendered?"""

import difflib
from collections.abc import Iterator

from fleet.argv.catalog import Catalog
from fleet.argv.check import check_argv
from fleet.engines.catalogs import catalog_of, versions
from fleet.gate import gate
from fleet.known import Undecidable, layout_of
from fleet.plan import Plan
from fleet.releases.command import engine_argv, engine_env
from fleet.verdict import Finding


def catalog_for(plan: Plan) -> Catalog:
    """The catalog of the declared engine version. Raises Undecidable, with the remedy, where there is none."""
    version = plan.service.image.engine
    found = catalog_of(version)
    if found is None:
        want = f"an engine version with a catalog ({', '.join(versions())})"
        raise Undecidable(want, version, f"make the catalog of {version}: fleet engine dump {version}")
    return found


@gate(
    "engine-argv",
    reads="flags and fields of the service, catalog of image.engine",
    severity="fail or warn",
    remedy="correct flags of {service}; fleet engine show lists what the version has",
)
def engine_takes_argv(plan: Plan) -> list[Finding]:
    """The command line is one that the declared engine version takes, and with which it does not refuse to start."""
    layout_of(plan)
    report = check_argv(catalog_for(plan), list(engine_argv(plan)))
    words = list(_words(plan.service.flags))
    want = f"a command line that vllm {report.engine} takes"
    return [
        Finding(
            want=want,
            got=_without(words, f"{one.flag}: {one.message}" if one.flag else one.message),
            remedy=_without(words, _remedy(one.suggestion)) if one.suggestion else None,
            warning=one.level == "warning",
        )
        for one in report.findings
    ]


def _remedy(suggestion: str) -> str:
    """A suggestion is what to write instead, or a sentence about it."""
    return suggestion if " " in suggestion and suggestion[0] != "-" else f"write {suggestion}"


def _words(value: object) -> Iterator[str]:
    """Every value in the owner's own flags."""
    if isinstance(value, dict):
        for one in value.values():
            yield from _words(one)
    elif isinstance(value, list | tuple):
        for one in value:
            yield from _words(one)
    elif isinstance(value, str):
        yield value


def _without(words: list[str], text: str) -> str:
    """The text without values of the owner's flags that may be secret: nobody looks for one of three letters there."""
    for word in sorted(words, key=len, reverse=True):
        text = text.replace(word, "***") if len(word) > 3 else text
    return text


@gate(
    "engine-env",
    reads="env, secrets, catalog of image.engine",
    severity="fail or warn",
    remedy="correct env of {service}; fleet engine show lists what the version reads",
)
def engine_reads_env(plan: Plan) -> list[Finding]:
    """Every VLLM_ variable is one that the declared engine version reads; another is a warning, nothing reads it."""
    layout_of(plan)
    catalog = catalog_for(plan)
    names = sorted({*engine_env(plan), *plan.service.secrets})
    unknown = [name for name in names if name.startswith("VLLM_") and name not in catalog.environment]
    close = {name: difflib.get_close_matches(name, catalog.environment, n=1) for name in unknown}
    want = f"variables that vllm {catalog.version} reads"
    return [
        Finding(want=want, got=name, remedy=f"write {close[name][0]}" if close[name] else None, warning=True)
        for name in unknown
    ]
