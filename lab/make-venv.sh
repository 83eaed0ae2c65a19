#!/bin/sh
# Make the virtual environment: a Python of 3.11 or newer, the pinned packages, this checkout.
# On Debian or Ubuntu as root, a missing interpreter or venv module is installed.
set -eu
venv=$1
python=${PYTHON:-python3}

good() { "$1" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; }

choose() {
    for candidate in "$python" python3.13 python3.12 python3.11 python3; do
        if good "$candidate"; then echo "$candidate"; return 0; fi
    done
    return 1
}

if ! chosen=$(choose); then
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
        echo 'installing Python 3 with venv'
        export DEBIAN_FRONTEND=noninteractive DEBCONF_NOWARNINGS=yes
        apt-get update -q >/dev/null
        apt-get install -y -q --no-install-recommends python3 python3-venv >/dev/null
        # Ubuntu 22.04 has 3.10 as its python3 and 3.11 beside it.
        choose >/dev/null || apt-get install -y -q --no-install-recommends python3.11 python3.11-venv >/dev/null
    fi
    chosen=$(choose) || {
        echo 'want Python 3.11 or newer with venv, found none; install it: python3-venv (Ubuntu 22.04: python3.11-venv),' \
            'or name it: make PYTHON=/path/to/python' >&2
        exit 1
    }
fi

echo "making $venv with $("$chosen" --version) (about half a minute)"
"$chosen" -m venv "$venv"
"$venv/bin/python" -m pip install -qq --disable-pip-version-check -r requirements.txt
# As a line in a path file. What setuptools makes otherwise loads modules of its own at each start of Python.
"$venv/bin/python" -m pip install -qq --disable-pip-version-check --no-deps --no-build-isolation --config-settings editable_mode=compat -e .
# What is loaded at a start stays: Python need not look for cycles in it, which takes a tenth of the start. See declare/garbage.py.
echo 'import gc; gc.set_threshold(200_000)' >"$("$venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/seldom_search.pth"
# pyinfra keeps Python from writing compiled modules, so each run would compile ours anew.
"$venv/bin/python" -m compileall -q cli declare facts fleet lab operations probes templates
