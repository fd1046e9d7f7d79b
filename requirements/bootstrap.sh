#!/usr/bin/env bash
# Make a virtual environment with pinned packages and this checkout in it.
# Usage: requirements/bootstrap.sh VENV REQUIREMENTS
#
# Needs only Python 3.11 or newer. PYTHON=/path/to/python overrides the search for it.
set -euo pipefail
cd "$(dirname "$0")/.."
venv=$1
requirements=$2

new_enough() { "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; }
has_module() { "$1" -c "import $2" >/dev/null 2>&1; }

find_python() {
    local candidate
    for candidate in ${PYTHON:-python3 python3.13 python3.12 python3.11 python3.14 python}; do
        if new_enough "$candidate"; then
            echo "$candidate"
            return
        fi
    done
    {
        echo "formatkit needs Python 3.11 or newer; found: $(python3 --version 2>&1 || true)"
        echo "  Debian, Ubuntu:  sudo apt install python3 python3-venv"
        echo "  Fedora, RHEL:    sudo dnf install python3.12"
        echo "  macOS:           brew install python@3.13"
        echo "or name one yourself:  make PYTHON=/path/to/python3.12 …"
    } >&2
    return 1
}

create() { # python
    if has_module "$1" ensurepip; then
        "$1" -m venv --clear "$venv"
    elif has_module "$1" venv && has_module "$1" pip; then
        # Debian splits ensurepip off; its pip can still serve an environment that has none.
        "$1" -m venv --clear --without-pip "$venv"
        "$1" -m pip --python "$venv/bin/python" install --quiet pip
    else
        echo "$1 cannot make virtual environments: its modules venv and ensurepip are missing." >&2
        echo "  Debian, Ubuntu:  sudo apt install python3-venv" >&2
        return 1
    fi
}

if ! new_enough "$venv/bin/python" || ! has_module "$venv/bin/python" pip; then
    python=$(find_python)
    echo "Making $venv with $("$python" --version)"
    create "$python"
fi

echo "Installing $requirements into $venv"
"$venv/bin/python" -m pip install --quiet --require-hashes -r "$requirements"
