"""Quoting for systemd. That systemd itself reads it so is shown in the lab, with `/proc/PID/cmdline`."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleet.releases.systemd import (
    QuotingError,
    environment_file,
    environment_line,
    exec_line,
    exec_word,
    read_environment_file,
)

NONCHARACTERS = [*range(0xFDD0, 0xFDF0), *(plane << 16 | low for plane in range(17) for low in (0xFFFE, 0xFFFF))]
NONE_OF = "\x00" + "".join(map(chr, NONCHARACTERS))
words = st.text(st.characters(exclude_characters=NONE_OF, exclude_categories=("Cs",)))
values = st.text(st.characters(exclude_characters=NONE_OF, exclude_categories=("Cs", "Cc")) | st.sampled_from("\n\t"))
ESCAPES = {"\\\\": "\\", '\\"': '"', "%%": "%", "$$": "$"}


def read_exec(line: str) -> list[str]:
    """ExecStart= as systemd.service(5) tells that it is read: quotes, C escapes, doubled specifiers and dollars."""

    def plain(match: re.Match[str]) -> str:
        text = match[0]
        return chr(int(text[2:], 16)) if text.startswith("\\x") else ESCAPES[text]

    joined = line.replace("\\\n", " ")  # a backslash at the end of a line joins it with the next
    parts = re.findall(r'"((?:[^"\\]|\\.)*)"|(\S+)', joined)
    return [re.sub(r'\\x[0-9a-f]{2}|\\\\|\\"|%%|\$\$', plain, quoted or bare) for quoted, bare in parts]


@given(st.lists(words))
def test_any_argv_is_read_back_word_for_word(argv: list[str]) -> None:
    line = exec_line(("/usr/bin/podman", *argv))
    assert read_exec(line) == ["/usr/bin/podman", *argv]
    assert not re.search(r"[\x00-\x1f\x7f]", line.replace("\\\n", ""))


@pytest.mark.parametrize(
    ("word", "quoted"),
    [
        ("--max-model-len", "--max-model-len"),
        ("", '""'),
        ("a b", '"a b"'),
        ("100%", '"100%%"'),
        ("$HOME", '"$$HOME"'),
        ('{"method":"mtp"}', '"{\\"method\\":\\"mtp\\"}"'),
        ("a\nb", '"a\\x0ab"'),
        ("C:\\x41", '"C:\\\\x41"'),
        ("größe 模型", '"größe 模型"'),
        (";", '";"'),
        ("'", '"\'"'),
    ],
)
def test_words_are_quoted_as_systemd_wants_them(word: str, quoted: str) -> None:
    assert exec_word(word) == quoted


def test_a_command_starts_with_a_path() -> None:
    for argv in ((), ("podman",), ("-/usr/bin/podman",), ("@/bin/sh",)):
        with pytest.raises(QuotingError, match="absolute path"):
            exec_line(argv)


def read_environment(text: str) -> dict[str, str]:
    """An EnvironmentFile= as systemd.exec(5) tells that it is read: within double quotes only four escapes."""
    entries = re.findall(r'^(\w+)="((?:[^"\\]|\\[\s\S])*)"\n', text, re.MULTILINE)
    return {name: re.sub(r'\\([\\"$`])', r"\1", value) for name, value in entries}


@given(st.dictionaries(st.from_regex(r"[A-Z_][A-Z0-9_]*", fullmatch=True), values))
def test_any_environment_is_read_back(environment: dict[str, str]) -> None:
    assert read_environment(environment_file(environment)) == environment
    assert read_environment_file(environment_file(environment)) == environment


@pytest.mark.parametrize("text", ["A=secret", 'A="secret', 'A="1" B="secret"', 'secret\nA="1"', "\n"])
def test_an_environment_that_we_did_not_write_is_refused_without_showing_it(text: str) -> None:
    with pytest.raises(QuotingError) as refused:
        read_environment_file(text)
    assert "secret" not in str(refused.value)


def test_an_environment_is_written_in_name_order() -> None:
    assert environment_file({"B": "2", "A": "$1"}) == 'A="\\$1"\nB="2"\n'


@pytest.mark.parametrize("value", ["a\x00b", "a\x07b", "a\rb", "\x7f"])
def test_what_systemd_would_drop_from_an_environment_is_refused(value: str) -> None:
    with pytest.raises(QuotingError):
        environment_line("A", value)


def test_nul_is_refused_everywhere() -> None:
    with pytest.raises(QuotingError, match="NUL"):
        exec_word("a\x00")


@pytest.mark.parametrize("code", [NONCHARACTERS[0], NONCHARACTERS[31], NONCHARACTERS[32], NONCHARACTERS[-1]])
def test_a_noncharacter_is_refused_because_systemd_refuses_the_whole_unit(code: int) -> None:
    for quoted in (lambda: exec_word(f"a{chr(code)}"), lambda: environment_line("A", chr(code))):
        with pytest.raises(QuotingError, match="noncharacter"):
            quoted()
