#!/usr/bin/env bash
# Print the other versions of Python that formatkit runs on and this machine has, the newest last: "3.13 /path/to/python".
# Usage: requirements/pythons.sh PYTHON, which is the one that needs no mention.
#
# They are found by name (python3.12, …) and in the folders of pyenv, whose names work for chosen versions only.
set -euo pipefail
own=$("$1" -c 'import sys; print("%d.%d" % sys.version_info[:2])')

tell() { # python
    "$1" -c '
import ensurepip, sys, sysconfig, venv
version = "%d.%d" % sys.version_info[:2]
finished = sys.version_info.releaselevel == "final" and not sysconfig.get_config_var("Py_GIL_DISABLED")
if finished and sys.version_info >= (3, 11) and version != sys.argv[1]:
    print(version, sys.executable)
' "$own" 2>/dev/null || true
}

found=$(
    for name in python3 python3.{11..20} "${PYENV_ROOT:-$HOME/.pyenv}"/versions/*/bin/python; do
        tell "$name"
    done | sort -t. -k2,2n -s -u
)
if [ -n "$found" ]; then
    echo "$found"
else
    echo "Python $own is the only version here that formatkit runs on; nothing is tested on others." >&2
fi
