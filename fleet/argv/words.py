"""What vLLM does to its words before argparse sees them (`FlexibleArgumentParser.parse_args`, 0.28 to 0.33).

`--model X` moves to the front, `--config FILE` becomes flags, underscores become dashes, `-O3` becomes
`--optimization-level 3`, and dotted keys (`--speculative-config.method mtp`) become one JSON argument at the end.
"""

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

from fleet.argv.values import Refused, human_readable_int

MODEL = re.compile(r"^--model(=.+|$)")
SERVED = re.compile(r"^--served[-_]model[-_]name(=.+|$)")
BEFORE_DOT = re.compile(r"(?<=--)[^\.]*")
ReadConfig = Callable[[str], Mapping[str, Any]]


class Words:
    """The words after `vllm`, as argparse gets them, and what was noticed on the way."""

    def __init__(self, given: list[str], read_config: ReadConfig) -> None:
        """`given` begins with `serve`. Raises Refused where vLLM ends with an error here already."""
        self.duplicates: set[str] = set()
        self.by_flag = False
        words = self._model_first(given)
        if "--config" in words:
            words = _config_file(words, read_config)
        self.words = self._dotted(_spelled(words))

    def _model_first(self, words: list[str]) -> list[str]:
        place = next((i for i, word in enumerate(words) if MODEL.match(word)), None)
        if place is not None:
            self.by_flag = True
            if words[place] == "--model":
                if place + 1 == len(words):
                    raise Refused("expected one argument", "--model")
                model, after = words[place + 1], place + 2
            else:
                model, after = words[place].removeprefix("--model="), place + 1
            words = ["serve", model, *words[1:place], *words[after:]]
        flag_first = len(words) > 1 and words[1].startswith("-")
        if flag_first and any(map(SERVED.match, words)) and not any(re.match(r"^--config(=.+|$)", w) for w in words):
            raise Refused("with --served-model-name the model must be the first word after `vllm serve`", None)
        return words

    def _dotted(self, words: list[str]) -> list[str]:
        taken: set[int] = set()
        seen: set[str] = set()
        merged: dict[str, dict[str, Any]] = {}
        for place, word in enumerate(words):
            if place in taken:
                continue
            if word.startswith("--") and "." not in word:
                self._note(word.split("=", 1)[0], seen)
            elif word.startswith("-") and "." in word:
                name, equals, text = word.partition("=")
                if equals and "." not in name:
                    continue  # the dot is in the value
                if not equals:
                    if place + 1 == len(words):
                        raise Refused("expected one argument", name)
                    text = words[place + 1]
                    taken.add(place + 1)
                taken.add(place)
                if name.endswith("+"):
                    name, text = name[:-1], json.dumps(text.split(","))
                key, *keys = name.split(".")
                again = _merge(merged.setdefault(key, {}), _nested(keys, _value(text)))
                self.duplicates |= {f"{key}.{name}" for name in again}
        kept = [word for place, word in enumerate(words) if place not in taken]
        return kept + [part for key, value in merged.items() for part in (key, json.dumps(value))]

    def _note(self, name: str, seen: set[str]) -> None:
        if name in seen and name != "--":
            self.duplicates.add(name)
        seen.add(name)


def _spelled(words: list[str]) -> list[str]:
    """Dashes for underscores in names, `--optimization-level` for -O."""
    out: list[str] = []
    for place, word in enumerate(words):
        if word.startswith("--help="):
            out.append("--help")
        elif word.startswith("--"):
            name, equals, value = word.partition("=")
            out.append(BEFORE_DOT.sub(lambda found: found[0].replace("_", "-"), name, count=1) + equals + value)
        elif word.startswith("-O") and word != "-O":
            out += ["--optimization-level", word[3:] if word[2] == "=" else word[2:]]
        elif word == "-O" and words[place + 1 : place + 2] in (["0"], ["1"], ["2"], ["3"]):
            out.append("--optimization-level")
        else:
            out.append(word)
    return out


def _value(text: str) -> Any:
    """JSON where it is, a number with a suffix (80g) where it is, else the text."""
    try:
        return json.loads(text)
    except RecursionError:
        raise Refused("JSON nested too deeply", None) from None
    except ValueError:
        pass
    try:
        return human_readable_int(text)
    except ValueError:
        return text


def _nested(keys: list[str], value: Any) -> dict[str, Any]:
    for key in reversed(keys):
        value = {key: value}
    return dict(value)


def _merge(into: dict[str, Any], more: dict[str, Any]) -> set[str]:
    """Merge in place; the keys that were overwritten, dotted."""
    again: set[str] = set()
    for key, value in more.items():
        old = into.get(key)
        if isinstance(value, dict) and isinstance(old, dict):
            again |= {f"{key}.{name}" for name in _merge(old, value)}
        elif isinstance(value, list) and isinstance(old, list):
            into[key] = old + value
        else:
            if key in into:
                again.add(key)
            into[key] = value
    return again


def _config_file(words: list[str], read: ReadConfig) -> list[str]:
    """The flags of `--config FILE`, before those of the command line, so that these win."""
    if words.count("--config") > 1:
        raise Refused("more than one config file", "--config")
    place = words.index("--config")
    if place == len(words) - 1:
        raise Refused("expected one argument", "--config")
    path = words[place + 1]
    if path.split(".")[-1] not in ("yaml", "yml"):
        raise Refused("want a .yaml or .yml file", "--config", found=path)
    found = flags_of_config(read(path))
    if not words[1].startswith("-"):
        return [words[0], words[1], *found, *words[2:place], *words[place + 2 :]]
    if "--model" not in found:
        raise Refused("no model: neither as the first word nor in the config file", "--config")
    return [words[0], *found, *words[1:place], *words[place + 2 :]]


def flags_of_config(config: Mapping[str, Any]) -> list[str]:
    """A config file's settings as words: true is the bare flag, false is dropped, a mapping is JSON.

    vLLM means to write `--no-x` for false, and looks for it among the flags of `vllm` itself, which has none of them.
    """
    words: list[str] = []
    for key, value in config.items():
        if isinstance(value, bool):
            words += [f"--{key}"] if value else []
        elif isinstance(value, list):
            words += [f"--{key}", *map(str, value)] if value else []
        elif isinstance(value, dict):
            words += [f"--{key}", json.dumps(value)]
        else:
            words += [f"--{key}", str(value)]
    return words
