# Every target sets itself up: the first call makes .venv from the pinned requirements.

VENV := .venv
BENCH_VENV := .venv-bench
BIN := $(VENV)/bin
READY := $(VENV)/.ready
BENCH_READY := $(BENCH_VENV)/.ready
ORACLE := .oracle
ORACLE_READY := $(ORACLE)/.ready
CONNECT := .connect
CONNECT_READY := $(CONNECT)/.ready
CORPUS := .corpus
CORPUS_READY := $(CORPUS)/.ready
VERSIONS := .versions
# Older versions of Spark, each laid over .venv; the newest is in it. CI runs a little on the oldest that has data sources.
SPARK_VERSIONS := $(patsubst requirements/spark/%.in,%,$(wildcard requirements/spark/*.in))
SPARK_IN_CI := 4.0
# All but Spark, which is as large as everything else together.
VERSIONS_EXTRAS := encryption lance polars tck vortex
# Installing formatkit compiles its kernels, so it is installed again when they change.
COMPILED := hatch_build.py $(wildcard src/formatkit/formats/*/kernels/*.py src/formatkit/batches/compiled/*.py)
PYTEST := $(BIN)/python -m pytest
# The workers of the test run; WORKERS=0 runs in one process, for a debugger.
WORKERS ?= auto
FUZZ ?= tests
# The suites that ask Spark and other libraries for Java.
JAVA_SUITES := spark oracle cluster corpus interop connect sparkversions
# A part of Spark's suite that takes as long as the rest of it, and runs beside it.
STATEMENTS := tests/spark/catalog tests/spark/streaming
# What CI runs on the newest Python: what depends on the standard library and on catalogs, and a little of the rest.
NEWEST := kernel contract registry puffin cli/test_changes.py cli/test_process.py scan/test_manifests.py \
	scan/test_resources.py scan/test_wrong_metadata.py integrations/pyiceberg/test_installing.py write/orphans \
	write/table/test_partitions.py $(foreach name,conflicts failures retries snapshots,write/commit/test_$(name).py)
# Some tests ask Spark and Iceberg's own library, which run on Java 17 or 21.
WITH_JAVA := JAVA_HOME=$$(requirements/java.sh) && export JAVA_HOME &&

COMPILE := $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
	--custom-compile-command "make requirements"

export PYTHONUTF8 := 1
export PIP_DISABLE_PIP_VERSION_CHECK := 1
.DEFAULT_GOAL := help
.PHONY: $(JAVA_SUITES:%=test-%) test-statements test-rest test-installs test-newest help setup demo test checks lint types arch unit installs versions oracle tck coverage report fuzz faults attack cluster migration streams sparkversions bench formats iobench sparkbench compare format requirements clean

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(READY) ## Make .venv with everything pinned, and formatkit itself in editable form

demo: $(READY) ## Make a small Iceberg table, evolve it, change it, read it here and on Spark, and run a pipeline there
	@$(WITH_JAVA) $(BIN)/python examples/demo.py

test: checks test-installs test-newest ## All that CI runs: lint, types, architecture, tests, TCK, installs and another Python
	@echo "make test: lint, types, architecture, tests and TCK passed, here and in part on another Python; formatkit installs."

checks: lint types arch unit

lint: $(READY) ## Check style and formatting
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(READY) ## Check types (mypy, strict)
	$(BIN)/mypy

arch: $(READY) ## Check that imports point down (import-linter)
	$(BIN)/lint-imports --no-cache

unit: $(READY) $(ORACLE_READY)
	@$(MAKE) --no-print-directory --keep-going -j 2 $(if $(filter output-sync,$(.FEATURES)),--output-sync=target) test-statements $(JAVA_SUITES:%=test-%); \
	suites=$$?; $(MAKE) --no-print-directory test-rest && exit $$suites

# Each suite runs even where another fails: one run tells all that is broken.
test-rest: $(READY)
	HYPOTHESIS_PROFILE=ci $(PYTEST) -n $(WORKERS) --dist worksteal $(JAVA_SUITES:%=--ignore=tests/%) --ignore=tests/installs

# Each in a process of its own: Spark is started by a fork, which a process that other tests made grow may be refused,
# and has one session a process. Two at a time, the longest first.
$(JAVA_SUITES:%=test-%): test-%: $(READY) $(ORACLE_READY)
	$(WITH_JAVA) HYPOTHESIS_PROFILE=ci $(PYTEST) tests/$* $(APART:%=--ignore=%)

test-spark: APART := $(STATEMENTS)

test-statements: $(READY)
	$(WITH_JAVA) HYPOTHESIS_PROFILE=ci $(PYTEST) $(STATEMENTS)

# Packages of Spark Connect's client lie over those of .venv.
test-connect: export PYTHONPATH := $(CURDIR)/$(CONNECT)
test-connect: $(CONNECT_READY)

# So do those of writers that need pandas.
test-corpus fuzz: export PYTHONPATH := $(CURDIR)/$(CORPUS)
test-corpus: $(CORPUS_READY)

test-sparkversions: $(VERSIONS)/spark-$(SPARK_IN_CI)/.ready

installs: $(READY) ## Install a clone by pip, build and uv into empty environments, and use every format there
	$(PYTEST) tests/installs -o faulthandler_timeout=0

test-installs: $(READY)
	INSTALLS=short $(PYTEST) tests/installs

versions: $(READY) ## Run all of the above but installs on every other Python that is found, by name or in pyenv
	@requirements/pythons.sh $(BIN)/python | { failed=; while read -r version python; do \
		$(MAKE) --no-print-directory PYTHON="$$python" VENV=$(VERSIONS)/$$version CONNECT=$(VERSIONS)/connect-$$version \
			CORPUS=$(VERSIONS)/corpus-$$version checks </dev/null || failed="$$failed $$version"; \
	done; if [ -n "$$failed" ]; then echo "make versions: failures on Python$$failed" >&2; exit 1; fi; }

# uv, because this environment is made from nothing in each run of CI.
test-newest: $(READY)
	@requirements/pythons.sh $(BIN)/python | tail -n 1 | while read -r version python; do \
		echo "Some tests on Python $$version" && \
		$(BIN)/uv venv --quiet --clear --python "$$python" $(VERSIONS)/newest && \
		$(BIN)/uv pip install --quiet --python $(VERSIONS)/newest --require-hashes --requirement requirements/versions.txt && \
		$(BIN)/uv pip install --quiet --python $(VERSIONS)/newest --no-deps --no-build-isolation --editable . && \
		$(VERSIONS)/newest/bin/python -m pytest -n $(WORKERS) --dist worksteal $(NEWEST:%=tests/%) </dev/null || exit 1; \
	done

oracle: $(READY) $(ORACLE_READY) ## Ask Iceberg for Java and iceberg-rust about our tables and theirs, with many random ones
	$(WITH_JAVA) HYPOTHESIS_PROFILE=fuzz $(PYTEST) tests/oracle -o faulthandler_timeout=0

tck: $(READY) ## Run the conformance kit on the built-in formats
	HYPOTHESIS_PROFILE=ci $(PYTEST) -n $(WORKERS) --dist worksteal tests/tck

report: $(READY) ## Run the conformance kit on everything that is installed, and write build/tck.html, .md, .json, .svg
	$(BIN)/formatkit tck all $(foreach form,html md json svg,--report build/tck.$(form))

coverage: $(READY) ## Write docs/tck-coverage.md: which check covers which clause and which case
	$(BIN)/python -m formatkit.tck.coverage > docs/tck-coverage.md

fuzz: $(READY) $(CORPUS_READY) ## Run the property tests for long, with fresh random examples; FUZZ=path narrows them
	$(WITH_JAVA) HYPOTHESIS_PROFILE=fuzz $(PYTEST) -n $(WORKERS) --dist worksteal -m "hypothesis or fuzz" -o faulthandler_timeout=0 --ignore=tests/oracle --ignore=tests/cluster $(FUZZ)

faults: $(READY) ## Kill writers at random points, 60 times, and look at what is left; FAULT_RUNS and FAULT_SEED choose
	FAULT_RUNS=$${FAULT_RUNS:-60} $(PYTEST) -n $(WORKERS) tests/faults

attack: $(READY) ## Attack the library for ATTACK_MINUTES (10): mutants, lying storage, kills, orphan cleaning; docs/attack.md
	PYTHONPATH=tests $(BIN)/python -m attack $(CASES)

cluster: $(READY) ## Read and write on a cluster of two Spark workers, and kill some of its processes; CLUSTER_RUNS says how often, CLUSTER_SEED repeats it
	$(WITH_JAVA) CLUSTER_RUNS=$${CLUSTER_RUNS:-10} $(PYTEST) tests/cluster -o faulthandler_timeout=0

migration: $(READY) ## Migrate a table of 200 files from format to format by spark-submit on a cluster of two workers; MIGRATION_FILES
	$(WITH_JAVA) MIGRATION_FILES=$${MIGRATION_FILES:-200} MIGRATION_FORMATS=orc,avro,vortex,parquet $(PYTEST) -s tests/cluster/test_migration.py -o faulthandler_timeout=0

streams: $(READY) ## Stream a hundred micro-batches from table to table in each way, and kill the driver twenty times; STREAM_SEED repeats it
	$(WITH_JAVA) STREAM_BATCHES=$${STREAM_BATCHES:-100} STREAM_KILLS=$${STREAM_KILLS:-20} $(PYTEST) tests/spark/streaming/test_killed_drivers.py -o faulthandler_timeout=0

sparkversions: $(READY) $(SPARK_VERSIONS:%=$(VERSIONS)/spark-%/.ready) ## Run what formatkit does on Spark on each of its versions, and write the table of docs/spark.md; SPARK=4.1 runs one of them
	$(WITH_JAVA) PYTHONPATH=tests $(BIN)/python -m sparkversions.matrix $(SPARK)

bench: $(BENCH_READY) ## Measure formatkit and its peers in one run
	$(BENCH_VENV)/bin/python benchmarks/run.py

formats: $(BENCH_READY) ## Measure each format against its own library and its peers
	$(BENCH_VENV)/bin/python -m benchmarks.formats.run

iobench: $(BENCH_READY) ## Measure range reads of local files, and scans of an object store with latency
	$(BENCH_VENV)/bin/python -m benchmarks.local_ranges
	$(BENCH_VENV)/bin/python -m benchmarks.storage

sparkbench: $(READY) ## Measure reading with Spark against its own reader and what one would write by hand
	$(WITH_JAVA) $(BIN)/python benchmarks/spark.py

compare: $(BENCH_READY) ## Ask the peers the same questions and write docs/comparison.md
	$(BENCH_VENV)/bin/python benchmarks/compare.py

format: $(READY) ## Rewrite the code in the project's format
	$(BIN)/ruff check --fix-only --quiet .
	$(BIN)/ruff format .

requirements: $(READY) ## Compile requirements/*.txt again from pyproject.toml and benchmarks/requirements.in
	$(COMPILE) --output-file requirements/dev.txt pyproject.toml --extra dev requirements/build.in
	$(COMPILE) --constraint requirements/dev.txt --output-file requirements/versions.txt pyproject.toml $(VERSIONS_EXTRAS:%=--extra %) \
		requirements/versions.in requirements/build.in
	$(COMPILE) --output-file requirements/bench.txt pyproject.toml benchmarks/requirements.in requirements/build.in
	$(COMPILE) --output-file requirements/oracle.txt requirements/oracle.in
	$(COMPILE) --constraint requirements/dev.txt --output-file requirements/connect.txt requirements/connect.in
	$(COMPILE) --constraint requirements/dev.txt --output-file requirements/corpus.txt requirements/corpus.in
	$(foreach version,$(SPARK_VERSIONS),$(COMPILE) --output-file requirements/spark/$(version).txt requirements/spark/$(version).in &&) true
	$(COMPILE) --no-deps --output-file requirements/oracle-java.txt requirements/oracle-java.in

clean: ## Remove everything that make made
	rm -rf $(VENV) $(BENCH_VENV) $(ORACLE) $(CONNECT) $(CORPUS) $(VERSIONS) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache build dist

$(READY): requirements/dev.txt requirements/bootstrap.sh pyproject.toml $(COMPILED)
	@requirements/bootstrap.sh $(VENV) requirements/dev.txt
	@$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation --editable .
	@touch $@

$(BENCH_READY): requirements/bench.txt requirements/bootstrap.sh pyproject.toml $(COMPILED)
	@requirements/bootstrap.sh $(BENCH_VENV) requirements/bench.txt
	@$(BENCH_VENV)/bin/python -m pip install --quiet --no-deps --no-build-isolation --editable .
	@touch $@

$(CONNECT_READY): requirements/connect.txt | $(READY)
	@rm -rf $(CONNECT)
	@$(BIN)/python -m pip install --quiet --no-deps --require-hashes --target $(CONNECT) --requirement requirements/connect.txt
	@touch $@

$(CORPUS_READY): requirements/corpus.txt | $(READY)
	@rm -rf $(CORPUS)
	@$(BIN)/python -m pip install --quiet --no-deps --require-hashes --target $(CORPUS) --requirement requirements/corpus.txt
	@touch $@

# uv, because CI makes it from nothing, and builds Spark's package of its source.
$(VERSIONS)/spark-%/.ready: requirements/spark/%.txt | $(READY)
	@echo "Installing $< into $(@D)"
	@rm -rf $(@D)
	@$(BIN)/uv pip install --quiet --python $(BIN)/python --no-deps --require-hashes --target $(@D) --requirement $<
	@touch $@

$(ORACLE)/iceberg.jar: requirements/oracle-java.txt requirements/oracle-java.sh | $(READY)
	@requirements/oracle-java.sh $(BIN)/python $@

$(ORACLE)/venv/.ready: requirements/oracle.txt requirements/bootstrap.sh
	@requirements/bootstrap.sh $(ORACLE)/venv requirements/oracle.txt
	@touch $@

$(ORACLE_READY): $(ORACLE)/iceberg.jar $(ORACLE)/venv/.ready $(wildcard tests/oracle/java/*.java tests/oracle/java/*/*.java)
	@echo "Compiling tests/oracle/java"
	@rm -rf $(ORACLE)/classes
	@$(WITH_JAVA) "$$JAVA_HOME/bin/javac" -nowarn -proc:none -Xlint:none -d $(ORACLE)/classes \
		-cp "$(ORACLE)/iceberg.jar:$$($(BIN)/python -c 'import pyspark; print(pyspark.__path__[0])')/jars/*" $(filter %.java,$^)
	@touch $@
