#!/usr/bin/env bash
# Compile the pinned requirements. Usage: requirements/compile.sh UV
set -euo pipefail
cd "$(dirname "$0")/.."
uv=$1

compile() { # target, then arguments of uv
    local target=$1
    shift
    "$uv" pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
        --no-emit-find-links --custom-compile-command "make requirements" --output-file "$target" "$@"
}

compile requirements/dev.txt pyproject.toml --extra dev requirements/build.in
compile requirements/bench.txt pyproject.toml benchmarks/requirements.in requirements/build.in
