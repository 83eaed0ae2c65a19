"""Would the engine take this command line, would it start, and what was probably meant?"""

import difflib
import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any, Literal

from fleet.argv.catalog import Catalog, FlagInfo
from fleet.argv.configs import Mistake, check_config, check_mapping, check_value
from fleet.argv.hints import REPLACED
from fleet.argv.parser import Given, Parsed, ambiguous_at_top
from fleet.argv.values import Refused, convert, load_json, shorten
from fleet.argv.words import ReadConfig, Words
from fleet.frozen import Frozen

Level = Literal["refused", "fails", "warning"]
"""refused: the parser ends with an error. fails: it parses, and the engine refuses to start. warning: it starts."""


_DASHES = "\u2010\u2011\u2012\u2013\u2014\u2015\u2212"
"""What an editor makes of hyphens."""


class Finding(Frozen):
    """One thing to say about a command line."""

    level: Level
    flag: str | None
    message: str
    found: str | None = None
    """The value that it is about, cut short. Gates leave it out: they do not know what is secret."""
    suggestion: str | None = None
    """What to write instead."""

    def __str__(self) -> str:
        about = f"{self.flag}: " if self.flag else ""
        found = f", found {self.found}" if self.found else ""
        return f"{about}{self.message}{found}" + (f"; {self.suggestion}" if self.suggestion else "")


class ArgvReport(Frozen):
    """The answer for one command line and one engine version."""

    engine: str
    findings: tuple[Finding, ...] = ()

    @property
    def accepts(self) -> bool:
        """Does the parser take it?"""
        return all(one.level != "refused" for one in self.findings)

    @property
    def starts(self) -> bool:
        """As far as the command line tells: would the engine start?"""
        return all(one.level == "warning" for one in self.findings)


def no_config_file(path: str) -> Mapping[str, Any]:
    """For callers that read no files: a config file is refused."""
    raise Refused(f"the file {path} is not read here", "--config", "give its settings as flags")


def check_argv(catalog: Catalog, argv: list[str], read_config: ReadConfig = no_config_file) -> ArgvReport:
    """Judge `vllm serve MODEL ...`. `read_config` gives the settings of a `--config` file, or raises Refused."""
    return ArgvReport(engine=catalog.version, findings=tuple(_findings(catalog, argv, read_config)))


def _findings(catalog: Catalog, argv: list[str], read_config: ReadConfig) -> Iterator[Finding]:
    words = _after_vllm(argv)
    if words[:1] != ["serve"]:
        shown = shorten(" ".join(argv[:2]))
        yield Finding(level="refused", flag=None, message="want `vllm serve MODEL ...`", found=shown)
        return
    try:
        prepared = Words(words, read_config)
    except Refused as refused:
        yield _refusal(refused).model_copy(update={"suggestion": refused.suggestion or _glued(words)})
        return
    if (ambiguous := ambiguous_at_top(prepared.words)) is not None:
        yield _refusal(ambiguous)
    parsed = Parsed(catalog, prepared.words[1:])
    yield from map(_refusal, parsed.refused)
    yield from _unrecognized(catalog, parsed, words)
    settings: dict[str, Any] = {}
    for given in parsed.given:
        yield from _value(catalog, given, settings)
    if parsed.asks_help:
        yield Finding(level="fails", flag="--help", message="the help is printed, and nothing is started")
        return
    yield from _together(catalog, settings)
    yield from _doubtful(catalog, parsed, prepared)


def _after_vllm(argv: list[str]) -> list[str]:
    return argv[1:] if argv and argv[0].rpartition("/")[2] == "vllm" else argv


def _refusal(refused: Refused) -> Finding:
    said = {"message": str(refused), "suggestion": refused.suggestion, "found": refused.found}
    return Finding.model_validate({"level": "refused", "flag": refused.flag, **said})


def _unrecognized(catalog: Catalog, parsed: Parsed, words: list[str]) -> Iterator[Finding]:
    """Words that no flag takes: each unknown flag with the nearest right one, the rest together."""
    loose: list[str] = []
    of_unknown = -2
    told = {refused.flag for refused in parsed.refused}
    for place in parsed.unrecognized:
        word = parsed.words[place]
        if parsed.pattern[place] == "O":
            name = word.partition("=")[0]
            if word not in told:
                yield Finding(level="refused", flag=name, message="no such flag", suggestion=suggest(catalog, word))
        elif place != of_unknown + 1:
            loose.append(word)
            continue
        of_unknown = place  # what stands right behind an unknown flag is taken for its value
    if loose:
        again = "vllm" in words[1:2] or "serve" in words[1:3]
        hint = (
            "`vllm serve` is there twice: leave one out, an image's entrypoint may have it" if again else _glued(words)
        )
        if hint is None and any(word.lstrip().startswith("#") for word in loose):
            hint = "a comment is no part of a command line"
        hint = hint or _beside(loose)
        found = shorten(" ".join(loose))
        yield Finding(level="refused", flag=None, message="words that belong to no flag", found=found, suggestion=hint)


def suggest(catalog: Catalog, word: str) -> str | None:
    """The flag that was probably meant by one that does not exist."""
    if (glued := _glued([word])) is not None:
        return glued
    name, equals, value = word.partition("=")
    name = name.split(" ", 1)[0].replace("_", "-")
    if name in REPLACED:
        return REPLACED[name]
    if (short := re.fullmatch(r"(-[a-z]+)(\d+)", name)) is not None and short[1] in catalog.options:
        return f"{short[1]} {short[2]}"
    for other in (f"-{name}", name[1:]):
        if other in catalog.options:
            return other + equals + value
    close = difflib.get_close_matches(name.split(".")[0], catalog.options, n=1, cutoff=0.7)
    return close[0] if close else None


def _beside(loose: list[str]) -> str | None:
    """What a word that no flag takes was meant for: a switch's value, or a flag behind a typographic dash."""
    for word in filter(None, loose):
        if word.lower() in ("true", "false"):
            return "a switch takes no value: write --flag alone, or --no-flag"
        if word[0] in _DASHES and len(word) > 1:
            return f"{word[0]} is no hyphen: write --{word.lstrip(_DASHES + '-')}"
        if word[0] in _DASHES:
            return f"{word} is no hyphen"
    return None


def _glued(words: list[str]) -> str | None:
    """A flag and its value in one argument, as a YAML list or a quoted shell word makes it."""
    for word in words:
        if (found := re.match(r"(--?[A-Za-z][\w.-]*) +(\S.*)", word)) is not None:
            return f"two words in one argument: write {found[1]} and {found[2]} apart"
    return None


def _value(catalog: Catalog, given: Given, settings: dict[str, Any]) -> Iterator[Finding]:
    """Convert one flag's words, and judge the values against what the engine asks later."""
    flag = given.flag
    if not flag.takes_value:
        settings[flag.dest] = given.spelling not in flag.negative
        return
    values: list[Any] = []
    for word in given.words:
        mistakes = list(_mistakes(catalog, flag, word, values))
        yield from (_finding("refused", flag, mistake) for mistake in mistakes)
        if mistakes:
            return
    if flag.config is not None:
        return
    yield from _unknown_names(flag, values)
    value: Any = values if flag.nargs in ("+", "*") else values[0] if values else flag.const
    settings[flag.dest] = value
    if flag.action == "LoRAParserAction":
        yield from _lora(catalog, flag, values)
    elif flag.later is not None and isinstance(value, dict):
        spelled = {key.replace("-", "_"): one for key, one in value.items()}  # as the engine does
        yield from (_finding("fails", flag, one) for one in check_mapping(catalog, flag.later, spelled))
    elif flag.field is not None and flag.choices is None and flag.action == "store" and value is not None:
        yield from (_finding("fails", flag, one) for one in check_value(catalog, flag.field, value))


def _mistakes(catalog: Catalog, flag: FlagInfo, word: str, values: list[Any]) -> Iterator[Mistake]:
    """Why the parser refuses this word for this flag; its value is added to `values` otherwise."""
    if flag.config is not None:
        if flag.type.startswith("optional ") and word in ("", "None"):
            return
        yield from check_config(catalog, flag.config, word)
        return
    try:
        value = convert(flag.type, word)
    except Refused as refused:
        yield Mistake((), str(refused), refused.suggestion, refused.found)
        return
    if flag.choices is not None and value not in flag.choices:
        close = difflib.get_close_matches(str(value), [str(one) for one in flag.choices], n=1)
        known = ", ".join(map(str, flag.choices))
        yield Mistake((), f"want one of {known}", close[0] if close else None, shorten(word))
        return
    values.append(value)


def _finding(level: Level, flag: FlagInfo, mistake: Mistake) -> Finding:
    place = ".".join((flag.flag or flag.dest, *mistake.place))
    said = {"message": mistake.message, "suggestion": mistake.suggestion, "found": mistake.found}
    return Finding.model_validate({"level": level, "flag": place, **said})


def _lora(catalog: Catalog, flag: FlagInfo, values: list[Any]) -> Iterator[Finding]:
    """Each item is NAME=PATH, or a JSON object with the keys of a LoRA module."""
    fields = catalog.configs["LoRAModulePath"].fields
    for item in values:
        if not item or ("=" in item and "," not in item):
            continue
        try:
            found = load_json(item)
        except Refused:
            yield _finding("refused", flag, Mistake((), "want NAME=PATH or a JSON object", found=shorten(item)))
            continue
        needed = [key for key, schema in fields.items() if schema.get("required", True)]
        good = isinstance(found, dict) and set(found) <= set(fields) and set(needed) <= set(found)
        if not good:
            message = f"want an object with {', '.join(needed)}, and of {', '.join(fields)} at most"
            yield _finding("refused", flag, Mistake((), message, found=shorten(item)))


def _together(catalog: Catalog, settings: Mapping[str, Any]) -> Iterator[Finding]:
    """What the engine checks of several settings before it loads anything (`validate_parsed_serve_args`)."""
    if settings.get("enable_auto_tool_choice") and not settings.get("tool_call_parser"):
        yield _fails("--enable-auto-tool-choice", "needs --tool-call-parser")
    if settings.get("enable_log_outputs") and not settings.get("enable_log_requests"):
        yield _fails("--enable-log-outputs", "needs --enable-log-requests")
    if (settings.get("sse_keep_alive_interval") or 0) < 0:
        yield _fails("--sse-keep-alive-interval", "want 0 or more seconds")
    if settings.get("enable_per_request_metrics") and settings.get("disable_log_stats"):
        yield _fails("--enable-per-request-metrics", "excludes --disable-log-stats")
    if settings.get("headless") and (settings.get("api_server_count") or 0) > 0:
        yield _fails("--api-server-count", "excludes --headless, which starts no API server")
    if not 0 <= (settings.get("port") or 0) <= 65535:
        yield _fails("--port", "want a port, 0 to 65535, that a socket can be bound to")
    given = settings.get("speculative_config")
    for dest, key in (("spec_method", "method"), ("spec_model", "model"), ("spec_tokens", "num_speculative_tokens")):
        if settings.get(dest) is not None and isinstance(given, dict) and key in given:
            yield _fails(f"--{dest.replace('_', '-')}", f"excludes {key} in --speculative-config")
    for dest, table in (("tool_call_parser", "tool_parsers"), ("reasoning_parser", "reasoning_parsers")):
        if dest in catalog.by_dest:
            yield from _named(catalog.by_dest[dest], settings.get(dest), catalog.tables.get(table, ()))


def _fails(flag: str, message: str) -> Finding:
    return Finding(level="fails", flag=flag, message=message)


def _unknown_names(flag: FlagInfo, values: list[Any]) -> Iterator[Finding]:
    for value in values if flag.known else ():
        yield from _named(flag, value, flag.known or ())


def _named(flag: FlagInfo, name: Any, known: Collection[Any]) -> Iterator[Finding]:
    """A name that the version does not have may come from a plugin: a warning."""
    if not isinstance(name, str) or not known or name in known or name.lower() in ("", "none"):
        return
    close = difflib.get_close_matches(name, map(str, known), n=1)
    message = "the engine itself does not know that name: it starts only where a plugin brings it"
    yield _warning(flag.flag, message, close[0] if close else None, shorten(name))


def _doubtful(catalog: Catalog, parsed: Parsed, prepared: Words) -> Iterator[Finding]:
    """What is taken, and hardly meant."""
    for name in sorted(prepared.duplicates):
        yield _warning(name, "is there more than once; the last one counts")
    for written, meant in parsed.abbreviated.items():
        yield _warning(written, f"is short for {meant}", "write it out: a later version may have another flag so named")
    for given in parsed.given:
        if given.flag.deprecated:
            yield _warning(given.spelling, "is deprecated")
        for word in given.words:
            if re.match(r"\s*--?[a-z][\w-]+ \S", word):
                yield _warning(given.spelling or None, "its value looks like a flag", found=shorten(word))
    if prepared.by_flag:
        yield _warning("--model", "the model's place is right after `vllm serve`")
    elif all(given.flag.flag is not None for given in parsed.given):
        yield _warning(None, "no model: the engine would serve its default")


def _warning(flag: str | None, message: str, suggestion: str | None = None, found: str | None = None) -> Finding:
    return Finding(level="warning", flag=flag, message=message, suggestion=suggestion, found=found)
