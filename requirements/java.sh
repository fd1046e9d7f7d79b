#!/usr/bin/env bash
# Print the home of a Java development kit that Spark runs on (17 or 21), with the compiler that tests/oracle needs;
# install one with the system's package manager if there is none.
# FORMATKIT_JAVA=find only looks, and never installs.
set -euo pipefail

suits() { # home
    [ -x "$1/bin/java" ] && [ -x "$1/bin/javac" ] && "$1/bin/java" -version 2>&1 | grep -Eq 'version "(17|21)[."]'
}

find_java() {
    local candidate
    candidate=$(command -v java || true)
    if [ -n "$candidate" ]; then
        candidate=$(dirname "$(dirname "$(readlink -f "$candidate" 2>/dev/null || echo "$candidate")")")
    fi
    for candidate in "${JAVA_HOME:-}" "$candidate" /usr/lib/jvm/* "$(brew --prefix openjdk@17 2>/dev/null || true)" \
        "$(/usr/libexec/java_home -v 17 2>/dev/null || true)"; do
        if [ -n "$candidate" ] && suits "$candidate"; then
            echo "$candidate"
            return
        fi
    done
    return 1
}

# Root needs no sudo, and a person is not asked for a password in the middle of make.
as_root() {
    if [ "$(id -u)" = 0 ]; then
        "$@"
    else
        sudo -n "$@"
    fi
}

may_install() { [ "$(id -u)" = 0 ] || sudo -n true 2>/dev/null; }

install_java() {
    if command -v apt-get >/dev/null && may_install; then
        as_root apt-get update -qq || true
        as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends openjdk-17-jdk-headless ||
            as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends openjdk-21-jdk-headless
    elif command -v dnf >/dev/null && may_install; then
        as_root dnf install -y -q java-17-openjdk-devel || as_root dnf install -y -q java-21-openjdk-devel
    elif command -v apk >/dev/null && may_install; then
        as_root apk add --quiet openjdk17-jdk
    elif command -v brew >/dev/null; then
        brew install --quiet openjdk@17
    else
        return 1
    fi
}

if find_java; then
    exit
fi
if [ "${FORMATKIT_JAVA:-}" != find ]; then
    echo "The tests need a JDK of Java 17 or 21, and there is none here; trying the system's package manager" >&2
    if install_java >&2 && find_java; then
        exit
    fi
fi
{
    echo "The tests need a JDK of Java 17 or 21; found: $(java -version 2>&1 | head -n 1 || true)"
    echo "  Debian, Ubuntu:  sudo apt install openjdk-17-jdk-headless"
    echo "  Fedora, RHEL:    sudo dnf install java-17-openjdk-devel"
    echo "  Alpine:          sudo apk add openjdk17-jdk"
    echo "  macOS:           brew install openjdk@17"
    echo "or name one yourself:  make JAVA_HOME=/path/to/jdk …"
} >&2
exit 1
