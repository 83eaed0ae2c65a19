"""`make demo` as somebody sees it who has just cloned this, word by word, and `make clean` after it."""

import re
from pathlib import Path

import pytest
from elsewhere import Elsewhere, Ran

from lab import cgroup, host

pytestmark = pytest.mark.lab

DEMO = "make --assume-old=.venv/.complete demo"
"""Without making .venv, which the tests run in."""
REFUSED = ".venv/bin/pyinfra inventory.py deploy.py --dry"
"""What the demo proposes after it has let a GPU be lost."""


def shown(ran: Ran) -> str:
    """The output with white space folded."""
    return re.sub(r"[ \t]+", " ", ran.out)


def proposed(ran: Ran) -> list[str]:
    """The commands below "Try next"."""
    lines = ran.out[ran.out.index("Try next") :].splitlines()[1:]
    return [line.strip() for line in lines if line.startswith("  ") and not line.startswith("  #")]


def test_the_first_demo_boots_rolls_out_asks_and_shows(elsewhere: Elsewhere) -> None:
    ran = elsewhere.run(DEMO)
    text = shown(ran)
    assert ran.code == 0, ran.out
    assert "a stand-in that takes vLLM's argv and speaks its HTTP interface; it is not vLLM" in text
    assert "lab: booted a1, h1, l1" in text
    assert "$ .venv/bin/pyinfra inventory.py deploy.py -y" in text
    for service in ("a1/glm", "h1/qwen", "l1/llama"):
        assert f"{service}: 'The answer is 42.'" in text
    table = text[text.index("What serves now") :]
    assert "node service layout partition release endpoint proof" in table
    row = r"a1 glm TP4/PP2 42,36 [0-9a-f]{16} http://10\.231\.0\.11:8000 smoke, degeneration "
    row += r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\dZ"
    assert re.search(row, table)
    assert "h1 qwen TP8/PP1 - " in table
    assert "l1 llama TP4/PP1 - " in table
    assert len(proposed(ran)) == 9


def test_a_second_demo_changes_nothing_and_says_so(elsewhere: Elsewhere) -> None:
    before = elsewhere.run(".venv/bin/fleet status --json")
    ran = elsewhere.run(DEMO)
    assert ran.code == 0, ran.out
    assert "Nothing was changed: the lab ran already, and every service is as declared." in ran.out
    assert elsewhere.run(".venv/bin/fleet status --json").out == before.out, "nothing was restarted"


def test_a_fleet_of_the_callers_shell_is_left_alone(elsewhere: Elsewhere) -> None:
    ran = elsewhere.run(DEMO, FLEET="/srv/production")
    assert ran.code == 0, ran.out
    assert "FLEET is /srv/production in this shell: unset it first" in ran.out


def test_what_the_demo_proposes_works(elsewhere: Elsewhere) -> None:
    for command in proposed(elsewhere.run(DEMO)):
        if command != "make clean":
            ran = elsewhere.run(command)
            assert ran.code == (1 if command == REFUSED else 0), f"{command}\n{ran.out}"


def test_clean_without_venv_does_not_lose_the_lab(elsewhere: Elsewhere) -> None:
    assert elsewhere.run(".venv/bin/fleet lab up").code == 0
    ran = elsewhere.run("mv .venv elsewhere; make clean; code=$?; mv elsewhere .venv; exit $code")
    assert ran.code != 0
    assert "a lab of this folder runs, and .venv, which can end it, is gone" in ran.out


def test_clean_leaves_the_lab_of_another_checkout_alone(elsewhere: Elsewhere, tmp_path: Path) -> None:
    other = {"VLLM_FLEET_LAB_STATE": str(tmp_path)}
    assert elsewhere.run(".venv/bin/fleet lab up -n 1 --name other", **other).code == 0
    venv = elsewhere.run("readlink .venv").out.strip()
    ran = elsewhere.run(f"make clean && ln -s {venv} .venv")
    assert ran.code == 0, ran.out
    assert "lab other of" in ran.out
    assert "was left alone" in ran.out
    status = elsewhere.run(".venv/bin/fleet lab status --name other --json", **other)
    assert '"state": "running"' in status.out, status.out
    assert elsewhere.run(".venv/bin/fleet lab status").code == 1, "the lab of this checkout is gone"
    assert elsewhere.run(".venv/bin/fleet lab down --name other", **other).code == 0


def test_clean_leaves_no_trace(elsewhere: Elsewhere) -> None:
    assert elsewhere.run(".venv/bin/fleet lab up").code == 0
    cached = elsewhere.run(f"ls -A {host.cache_root()}").out.split()
    ran = elsewhere.run("make clean")
    assert ran.code == 0, ran.out
    base = re.search(r'^BASE = "(.+)"$', (elsewhere.clone / "lab/cgroup.py").read_text(), re.M)
    assert base and cached
    # What is dead and not yet reaped by the machine's init is gone; what another test caches meanwhile is not ours.
    look = f"""
        ip -brief link | grep -v '^lo'; ip route; ls /run/netns
        find /run -path /run/upper -prune -o -path /run/work -prune -o -name '*vllm*' -print -o -name 'vfl*' -print
        cd {host.cache_root()} && ls -d {" ".join(cached)}
        cd {elsewhere.clone} && ls -d .venv .lab .pytest_cache
        ls -d {" ".join(str(point / base[1]) for _, point in cgroup.hierarchies())}
        for found in $(grep -l {base[1]} /proc/[0-9]*/cgroup); do
            grep -L '^State:.Z' "${{found%cgroup}}status"
        done
    """
    assert elsewhere.run(f"({look}) 2>/dev/null").out == ""
    assert elsewhere.run("make clean").code == 0, "a second clean has nothing to do"
