"""Command lines of `vllm serve`, generated from a catalog: about half of them wrong in one or more ways."""

import json
import random
from collections.abc import Callable
from typing import Any

from fleet.argv.catalog import Catalog, FlagInfo

WORDS = {
    "int": [
        "1",
        "8",
        "0",
        "-1",
        "4096",
        " 7 ",
        "1_000",
        "007",
        "+3",
        "1.0",
        "4k",
        "x",
        "",
        "None",
        "１２",
        "1e3",
        "--1",
    ],
    "float": ["0.9", "1", "-0.5", "1e-3", "nan", "inf", ".5", "5.", "0,9", "90%", "", "None", "1_0.5"],
    "str": [
        "x",
        "",
        "None",
        "a b",
        "-x",
        "/srv/models/a-b",
        "{}",
        "auto",
        "false",
        "é",
        "a=b",
        "--y z",
        "-",
        "-1",
        "x.y",
    ],
    "human_readable_int": [
        "4096",
        "4k",
        "4K",
        "1.5k",
        "1.5K",
        "2M",
        "-1",
        "auto",
        "AUTO",
        "1 k",
        "0.5g",
        "k",
        "",
        "None",
    ],
    "json": [
        '{"a": 1}',
        "[1, 2]",
        "3",
        "true",
        "{a: 1}",
        "'{\"a\": 1}'",
        '{"a": 1',
        "",
        "None",
        '{"a": 1k}',
        "NaN",
        "{}",
    ],
    "lower with underscores": ["auto", "Auto", "flashinfer-cutlass", "no such", "TRITON", ""],
    "device ids": ["0", "0,1", "GPU-1,2", "²", "", "1, 2"],
    "parse_reasoning_parser": ["qwen3", "none", "", "x"],
}
SAMPLES: dict[str, list[Any]] = {
    "bool": [True, False, 1, 0, "true", "no", "maybe", None, 2, 1.0],
    "int": [1, 0, -1, 64, "8", 1.0, 1.5, True, None, "x", 10**20, "1k"],
    "float": [0.5, 1, "0.5", "x", None, True, -1],
    "str": ["x", "", "all", 1, None, True, ["x"], "+op", "a.b"],
    "any": [1, "x", None, {}, [], {"a": {"b": 1}}],
    "path": ["/tmp/x", "", 1, None],
}
LOOSE = [
    *(["vllm"], ["serve"], ["vllm", "serve"], ["extra"], [""], ["-"], ["--"], [" # a comment"], ["#", "two"], ["-5"]),
    *(
        ["--no-such-flag"],
        ["--no-such-flag", "1"],
        ["--tp", "8"],
        ["-tp8"],
        ["-x"],
        ["-p", "2"],
        ["-c", "{}"],
        ["--=1"],
    ),
    *(
        ["-O3"],
        ["-O", "2"],
        ["-O", "x"],
        ["-O=1"],
        ["-O"],
        ["-Odecode"],
        ["-O4"],
        ["--host 127.0.0.1"],
        ["--port=80 1"],
    ),
    *(["-h"], ["--help"], ["--help=all"], ["-hx"], ["--hel"]),
    *(["--temperature 0.8"], ["-tp=8"], ["-tp", "=8"], ["-dp", "16", "-dpl", "8"], ["-ep"], ["-ep=1"], ["-n2"], ["-q"]),
    *(
        ["--model", "m"],
        ["--model=m"],
        ["--model="],
        ["--model"],
        ["--served_model_name", "a", "b"],
        ["--task", "embed"],
    ),
    *(["--enable-chunked-prefill=False"], ["--no-enable-chunked-prefill"], ["--enable_prefix_caching"], ["-nr", "1"]),
    *(["--config=x.yaml"], ["--device", "cuda"], ["--max-model", "1k"], ["--max-num", "3"], ["-language-model-only"]),
    *(["--compilation_config.mode", "3"], ["--compilation-config.mode=NONE"], ["-cc.mode=2"], ["-cc.x", "1"], ["-cc."]),
    *(["-cc.custom_ops+", "all"], ["--compilation-config.custom_ops+=+a,-b"], ["-cc.cudagraph_capture_sizes", "[1,2]"]),
    *(["--speculative-config.method", "mtp", "--speculative_config.num_speculative_tokens", "3"], ["-sc.", "1"]),
    *(["--kv-transfer-config.kv_buffer_size", "80m"], ["--watermark", "-0.5"], ["--eplb-config.use_async"], ["--a.b"]),
    *(["--limit-mm-per-prompt.image", "1"], ["--lora-modules", "a=b", '{"name": "x", "path": "y"}'], ["--x.y+", "1"]),
    *(["--lora-modules", '{"name": "x"}'], ["--lora-modules", "a,b=c"], ["--lora-modules", ""], ["--lora-modules"]),
]


class Generator:
    """Reproducible from its seed."""

    def __init__(self, catalog: Catalog, seed: int) -> None:
        self.catalog = catalog
        self.random = random.Random(seed)
        self.flags = [flag for flag in catalog.flags if flag.flag and flag.action != "help" and flag.flag != "--config"]
        self.names = sorted(name for name in catalog.options if name not in ("-h", "--help", "--config"))

    def argv(self) -> list[str]:
        """One command line. Half of them are meant to be right, as far as their types tell."""
        wrong = self.random.random() < 0.5
        parts = [self._flag(0.0 if not wrong else 0.15) for _ in range(self.random.randint(0, 6))]
        if wrong:
            ways: list[Callable[[list[list[str]]], None]] = [self._loose, self._wrong_value, self._spoil, self._typo]
            for _ in range(self.random.choice((1, 1, 1, 2))):
                self.random.choice(ways)(parts)
        elif self.random.random() < 0.2:
            parts.insert(self.random.randint(0, len(parts)), self._flag(0.0))
        model = self.random.choice(
            (["org/model"], ["org/model"], ["/srv/models/m"], [], ["--model", "m"], ["--model=m"])
        )
        words = [word for part in parts for word in part]
        front = self.random.random() < 0.8
        return ["vllm", "serve", *(model if front else []), *words, *([] if front else model)]

    def _flag(self, wrong: float) -> list[str]:
        flag = self.random.choice(self.flags)
        if self.random.random() < 0.25:
            flag = self.random.choice([one for one in self.flags if one.config or one.later or one.type == "json"])
        name = self._spelling(flag)
        if not flag.takes_value:
            return [name]
        if flag.config and self.random.random() < 0.3:
            return self._dotted(flag, wrong)
        values = [self._word(flag, wrong) for _ in range(self.random.choice((1, 1, 3)) if flag.nargs == "+" else 1)]
        if flag.nargs == "?" and self.random.random() < 0.3:
            return [name]
        if len(values) == 1 and self.random.random() < 0.3:
            return [f"{name}={values[0]}"]
        return [name, *values]

    def _spelling(self, flag: FlagInfo) -> str:
        name = self.random.choice(flag.names)
        roll = self.random.random()
        if roll < 0.15 and name.startswith("--"):
            return "--" + name[2:].replace("-", "_")
        if roll < 0.3 and name.startswith("--"):
            return name[: self.random.randint(max(4, len(name) - 6), len(name))]
        return name

    def _word(self, flag: FlagInfo, wrong: float) -> str:
        roll = self.random.random()
        if flag.choices and roll > wrong:
            return str(self.random.choice(flag.choices))
        if flag.config:
            return self._json(flag.config, wrong)
        if flag.later and self.random.random() < 0.7:
            return self._json(flag.later, wrong)
        kind = flag.type.removeprefix("optional ").removesuffix("_or_auto").removesuffix(" or str")
        pool = WORDS.get(kind, WORDS["str"])
        if roll < wrong:
            return self.random.choice(self.random.choice(list(WORDS.values())))
        return self.random.choice(pool[:5] if self.random.random() < 0.8 else pool)

    def _json(self, config: str, wrong: float) -> str:
        text = json.dumps(self._object(config, wrong))
        if self.random.random() < wrong:
            spoiled = (
                f"'{text}'",
                text.replace('"', ""),
                text[:-1],
                text.replace('"', '\\"'),
                f"{text} {text}",
                "[]",
                "3",
            )
            return self.random.choice(spoiled)
        return text

    def _object(self, config: str, wrong: float) -> dict[str, Any]:
        fields = self.catalog.configs[config].fields
        keys = self.random.sample(sorted(fields), min(len(fields), self.random.choice((0, 1, 1, 2, 3))))
        made = {key: self._sample(fields[key], wrong) for key in keys}
        if self.random.random() < wrong:
            made[self.random.choice(("no_such_key", "Mode", "enabled", "level"))] = 1
        return made

    def _sample(self, schema: Any, wrong: float) -> Any:
        kind = schema["type"]
        if self.random.random() < wrong:
            return self.random.choice([*SAMPLES["int"], *SAMPLES["str"], {}, [], {"a": 1}, [1, "x"], 1.5])
        if kind == "config":
            return self._object(schema["name"], wrong)
        if kind == "literal":
            return self.random.choice(schema["expected"])
        if kind == "enum":
            return self.random.choice([*schema["members"], *schema["members"].values(), "lower", 7])
        if kind in ("list", "tuple", "set"):
            items = schema.get("items_schema", {"type": "any"})
            inner = items if isinstance(items, list) else [items] * self.random.choice((0, 1, 2))
            return [self._sample(one, wrong) for one in inner]
        if kind == "dict":
            names = self.random.sample(
                ("a", "re:x.*", "re:(", "all", "full_attention", "image"), self.random.choice((0, 1, 2))
            )
            return {name: self._sample(schema.get("values_schema", {"type": "any"}), wrong) for name in names}
        if kind == "union":
            return self._sample(self.random.choice(schema["choices"]), wrong)
        if kind.startswith("function-") and self.random.random() < 0.5:
            tables = self.catalog.tables
            names = [*tables["quant_keys"], *tables["online_shorthands"], *tables["attention_backends"], "auto", "NONE"]
            return self.random.choice([*names, "full", "a, b", None])
        if "schema" in schema:
            return None if kind == "nullable" and self.random.random() < 0.2 else self._sample(schema["schema"], wrong)
        pool = SAMPLES.get(kind, SAMPLES["any"])
        return self.random.choice(pool[:3] if self.random.random() < 0.8 else pool)

    def _dotted(self, flag: FlagInfo, wrong: float) -> list[str]:
        words: list[str] = []
        for key, value in self._object(flag.config or "", wrong).items():
            text = value if isinstance(value, str) else json.dumps(value)
            name = f"{self._spelling(flag)}.{key}"
            if self.random.random() < 0.1:
                name += "+"
            words += [f"{name}={text}"] if self.random.random() < 0.3 else [name, text]
        return words

    def _loose(self, parts: list[list[str]]) -> None:
        parts.insert(self.random.randint(0, len(parts)), list(self.random.choice(LOOSE)))

    def _wrong_value(self, parts: list[list[str]]) -> None:
        parts.insert(self.random.randint(0, len(parts)), self._flag(1.0))

    def _spoil(self, parts: list[list[str]]) -> None:
        """Tear, glue, repeat or cut what is there."""
        if not parts:
            return
        place = self.random.randrange(len(parts))
        part = parts[place]
        ways = (
            part[:-1],
            [" ".join(part)],
            part + part,
            [*part, "stray"],
            ["-" + part[0], *part[1:]] if part else part,
            [part[0].lstrip("-"), *part[1:]] if part else part,
            [f"--no-{part[0].lstrip('-')}", *part[1:]] if part else part,
            [piece for word in part for piece in word.split(",")],
            [f"{part[0]}=", *part[1:]] if part else part,
            [word.upper() for word in part],
        )
        parts[place] = list(self.random.choice(ways))

    def _typo(self, parts: list[list[str]]) -> None:
        name = self.random.choice(self.names)
        at = self.random.randrange(len(name))
        typed = (name[:at] + name[at + 1 :], name[:at] + name[at] + name[at:], name[: max(2, at)], name + "s", name[1:])
        parts.insert(
            self.random.randint(0, len(parts)), [self.random.choice(typed), *self.random.choice(([], ["1"], ["x"]))]
        )
