"""What is declared reaches the process unchanged, whatever characters it has: read back under a real systemd."""

import base64

import pytest
from hypothesis import HealthCheck, Phase, example, given, settings
from hypothesis import strategies as st
from rollout_site import RolloutSite

from fleet.releases.systemd import environment_file, exec_line
from lab.lab import Lab

pytestmark = pytest.mark.lab
UNITS = "/run/systemd/system"
SHELL = ("/bin/sh", "-c", "while :; do sleep 1000; done")
"""A process that takes any further words and stays."""
NASTY = (
    "",
    " ",
    "%i %% %n 100%",
    "$HOME ${HOME} $$ $",
    "'\"'\"'",
    '{"method":"mtp","k":[1,2]}',
    "a\nb\n",
    "\t tab",
    "ends with \\",
    "\\n \\x41 \\\\",
    ";",
    "#",
    "--",
    "-",
    "@/bin/sh",
    "größe 模型 🚀",
    "`id` $(id) & | > <",
    "\x01\x1b[0m\x7f",
    "\ufeff\u2028\u200b\U000e0001\ue000\U0010fffd",
)
NOT_CARRIED = "\x00" + "".join(
    chr(code) for code in range(0xFDD0, 0x110000) if code < 0xFDF0 or code & 0xFFFE == 0xFFFE
)
"""NUL, which ends a word, and noncharacters, which systemd takes for broken UTF-8: both are refused when quoted."""
WORDS = st.text(st.characters(exclude_characters=NOT_CARRIED, exclude_categories=("Cs",))) | st.sampled_from(NASTY)
VALUES = st.text(st.characters(exclude_categories=("Cs", "Cc", "Cn")) | st.sampled_from('\n\t"\\$`%'))
NAMES = st.from_regex(r"[A-Z_][A-Za-z0-9_]{0,8}", fullmatch=True).map(lambda name: f"T_{name}")
CHEAP = settings(
    max_examples=4,
    deadline=None,
    database=None,
    phases=(Phase.explicit, Phase.generate),
    suppress_health_check=list(HealthCheck),
)
"""An example holds many commands: they are started together, which costs a second."""


class Started:
    """Units of a host that were written and started together, each with a process that stays."""

    def __init__(self, lab: Lab, units: list[str], environments: list[str] | None = None) -> None:
        self._lab = lab
        files = {f"{UNITS}/quoting-{number}.service": unit for number, unit in enumerate(units)}
        files |= {f"{UNITS}/quoting-{number}.env": text for number, text in enumerate(environments or [])}
        lines = [f"base64 -d >{path} <<<{base64.b64encode(text.encode()).decode()}" for path, text in files.items()]
        self._call("\n".join(["set -e", f"rm -f {UNITS}/quoting-*", *lines, "systemctl daemon-reload"]))
        self._names = [f"quoting-{number}.service" for number in range(len(units))]
        try:
            self._call(f"systemctl start {' '.join(self._names)}")
        except AssertionError:
            self.end()
            raise

    def _call(self, script: str) -> str:
        done = self._lab.ssh("a1", "bash -s", input=script, timeout=60)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def read(self, file: str) -> list[list[str]]:
        """The words of /proc/PID/FILE of each, in order."""
        pids = f"systemctl show --value -p MainPID {' '.join(self._names)}"
        answer = self._call(f"for pid in $({pids}); do base64 -w0 /proc/$pid/{file}; echo; done")
        return [base64.b64decode(line).decode().split("\0")[:-1] for line in answer.splitlines()]

    def end(self) -> None:
        """Stop all of them."""
        self._call(f"systemctl stop {' '.join(self._names)}; rm -f {UNITS}/quoting-*; systemctl daemon-reload")


@CHEAP
@example([[word] for word in NASTY])
@example([[word, word] for word in NASTY])
@given(st.lists(st.lists(WORDS, min_size=1, max_size=6), min_size=20, max_size=20))
def test_any_command_line_survives_systemd(lab: Lab, argvs: list[list[str]]) -> None:
    commands = [(*SHELL, *argv) for argv in argvs]
    started = Started(lab, [f"[Service]\nType=exec\nExecStart={exec_line(command)}\n" for command in commands])
    try:
        assert started.read("cmdline") == [list(command) for command in commands]
    finally:
        started.end()


@CHEAP
@example(
    [{"T_A": value} for value in ("", " ", "'", "a'b\"c", "\\", "ends with \\", "# no comment", "; none", "a\n\nb")]
)
@given(st.lists(st.dictionaries(NAMES, VALUES, min_size=1, max_size=6), min_size=20, max_size=20))
def test_any_environment_survives_systemd(lab: Lab, environments: list[dict[str, str]]) -> None:
    unit = "[Service]\nType=exec\nEnvironmentFile={}/quoting-{}.env\nExecStart={}\n"
    units = [unit.format(UNITS, number, exec_line(SHELL)) for number in range(len(environments))]
    started = Started(lab, units, [environment_file(environment) for environment in environments])
    try:
        found = [dict(word.split("=", 1) for word in words) for words in started.read("environ")]
        assert [
            {name: words.get(name) for name in wanted} for words, wanted in zip(found, environments, strict=True)
        ] == (environments)
    finally:
        started.end()


def test_flags_and_environment_reach_the_engine_through_unit_and_container(site: RolloutSite) -> None:
    values = [word for word in NASTY if word.isprintable() or word in ("a\nb\n", "\t tab")]
    flags: dict[str, object] = {f"--nasty-{number}": word for number, word in enumerate(values) if word[:1] != "-"}
    flags["--override"] = {"text": 'it\'s 100% $HOME "quoted" \\ größe\n'}
    env = {f"NASTY_{number}": word for number, word in enumerate(values)}
    declared = site.service(flags=flags)
    site.write(chat={**declared, "env": {**declared["env"], **env}})
    strange = ("--limit", "a1", "--data", "waive=engine-argv:only the stand-in takes such flags")
    ran = site.deploy(*strange)
    assert ran.code == 0, ran.out
    argv, environment = site.engine("a1", "chat")
    assert argv == site.plan("a1", "chat")["argv"]
    for flag, value in flags.items():
        if isinstance(value, str):
            assert argv[argv.index(flag) + 1] == value
    assert {name: environment.get(name) for name in env} == env
    assert site.deploy(*strange).plain.count("Nothing to change") == 1, "it is read back as it was written"
