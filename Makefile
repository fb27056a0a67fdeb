# Everything here sets itself up. `serve`, `test` and `demo` need Python 3.11 or later and a package
# index; the suites with real servers and clients need Java, Maven, Go, Node, kcat and a C compiler too.
#
# The environment is .venv; .tools holds uv where the machine has none. Each set of locked
# requirements leaves a stamp in .venv, so that a second run starts at once, and each can be
# added to an environment that already has the other.

SHELL := /bin/sh
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

PYTHON ?= $(shell for python in python3 python3.14 python3.13 python3.12 python3.11; do \
	"$$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && \
	echo "$$python" && break; done)
UV := $(shell uv --version >/dev/null 2>&1 && command -v uv || echo .tools/bin/uv)
BIN := .venv/bin
INSTALL = "$(UV)" pip install --quiet --python $(BIN)/python
LOCK = "$(UV)" pip compile --quiet --universal --python-version 3.11 --generate-hashes \
	--no-annotate --no-header pyproject.toml
HEADWATER_CHAOS_SIZE ?= 1
STORES = --extra etcd --extra oxia --extra postgres

.PHONY: help serve test types units coverage format interop hostile wheel cluster backends stores faults chaos chaosfaults chaosfuzz chaospipeline pipeline demo bench docs stubs lock clean

help: ## Show this list
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/  make \1|\2/p' Makefile | column -t -s '|' 2>/dev/null \
		|| sed -n 's/^\([a-z]*\):.*## \(.*\)/  make \1: \2/p' Makefile

demo: .venv/.spark ## Produce, compact and query a topic: Kafka, Spark, Iceberg, DuckDB
	@$(BIN)/python -m scripts.demo

serve: $(if $(findstring --compact,$(ARGS)),.venv/.spark,.venv/.serve) ## Run a broker on 127.0.0.1:9092, its data in ./headwater-data
	@exec $(BIN)/headwater serve --listen 127.0.0.1:9092 --data headwater-data $(ARGS)

test: .venv/.test ## Check format, lint, types and import contracts, and run the tests
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	@$(MAKE) --no-print-directory -j2 types units

types: .venv/.test
	$(BIN)/mypy
	$(BIN)/lint-imports

units: .venv/.test
	$(BIN)/python -m pytest -q -n 3 --dist loadfile $(ARGS)

coverage: .venv/.test ## Run the tests and say how much of src they run; a page for each file in .cache/coverage
	$(BIN)/python -m pytest -q -n 3 --dist loadfile --cov --cov-report=term:skip-covered \
		--cov-report=html:.cache/coverage $(ARGS)

format: .venv/.test ## Format the code and mend what the linter can
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

interop: .venv/.test ## Prove it with the real clients in Java, C, Go, JavaScript and Python
	$(BIN)/python -m pytest -q tests/system/clients $(ARGS)
	HEADWATER_CHAOS_SECONDS=20 $(BIN)/python -m pytest -q tests/system/invariants $(ARGS)

hostile: .venv/.test ## Prove that no request of a stranger stalls, grows or ends a broker
	$(BIN)/python -m pytest -q tests/system/hostile tests/system/fuzz $(ARGS)

wheel: .venv/.test ## Prove that a wheel and an sdist install by pip, uv and pipx, and run
	$(BIN)/python -m pytest -q tests/system/install $(ARGS)

cluster: .venv/.test ## Prove a cluster's life: zones, drains, rolling restarts, upgrades, restores
	$(BIN)/python -m pytest -q tests/system/cluster $(ARGS)

backends: .venv/.test ## Prove the metadata stores on real servers
	$(BIN)/python -m pytest -q tests/system/metadata $(ARGS)

stores: .venv/.test ## Prove the object stores on a real S3 server
	$(BIN)/python -m pytest -q tests/system/objects -m "not minio" $(ARGS)

faults: .venv/.test ## Prove that nothing is lost: a minute of faults with each metadata store on S3
	$(BIN)/python -m pytest -q tests/system/faults $(ARGS)

chaos: chaosfaults chaospipeline chaosfuzz ## Prove what takes long: all of the next three; -j2 runs two at a time

chaosfaults: .venv/.spark ## Prove MinIO, and ten minutes of faults by metadata store on two S3 servers
	$(BIN)/python -m pytest -q tests/system/objects -m minio $(ARGS)
	HEADWATER_FAULT_SECONDS=300 HEADWATER_FAULT_OBJECTS=versitygw,minio \
		$(BIN)/python -m pytest -q tests/system/faults $(ARGS)

chaosfuzz: .venv/.fuzz ## Fuzz whole sessions for ten minutes: by chance, and guided by coverage
	HEADWATER_FUZZ_SECONDS=300 $(BIN)/python -m pytest -q --timeout 600 tests/system/fuzz $(ARGS)
	$(BIN)/python -m tests.support.fuzz.guided 300 .cache/fuzz

chaospipeline: .venv/.spark ## Prove every crash of the pipeline, and five million records
	HEADWATER_CHAOS_SIZE=$(HEADWATER_CHAOS_SIZE) $(BIN)/python -m pytest -q \
		tests/system/spark/compaction/test_crashes.py tests/system/spark/compaction/test_rivals.py \
		tests/system/spark/compaction/test_faults.py \
		tests/system/spark/source/test_equality.py tests/system/spark/test_s3.py $(ARGS)
	HEADWATER_CHAOS_SIZE=$(HEADWATER_CHAOS_SIZE) $(BIN)/python -m pytest -q tests/system/kills $(ARGS)

pipeline: .venv/.spark ## Prove the pipeline on a real Spark, with crashes and rivals
	$(BIN)/python -m pytest -q tests/system/spark $(ARGS)

bench: .venv/.spark ## Measure side by side with Apache Kafka
	$(BIN)/python -m bench $(ARGS)

docs: .venv/.serve ## Write the reference pages that are generated from the code
	$(BIN)/python -m scripts.reference

stubs: $(UV) ## Write the messages of etcd and Oxia again from their definitions
	cd src && "$(abspath $(UV))" run --no-project --with grpcio-tools==1.76.0 python -m grpc_tools.protoc -I. \
		--python_out=. --pyi_out=. headwater/meta/*/rpc/*.proto

lock: $(UV) ## Resolve the requirements again and write requirements/*.txt
	$(LOCK) --upgrade --output-file requirements/serve.txt
	$(LOCK) --upgrade --extra table $(STORES) --group test --constraints requirements/serve.txt \
		--output-file requirements/test.txt
	"$(UV)" pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-annotate \
		--no-header --upgrade --group pyproject.toml:fuzz --output-file requirements/fuzz.txt
	$(LOCK) --upgrade --extra spark $(STORES) --group test --constraints requirements/test.txt \
		--output-file requirements/spark.txt

clean: ## Remove the environment, the tools and the caches; data stays
	rm -rf .venv .tools .cache .hypothesis .mypy_cache .pytest_cache .ruff_cache .import_linter_cache
	find src tests bench scripts -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true

.venv/.serve: requirements/serve.txt pyproject.toml | .venv/pyvenv.cfg
	$(INSTALL) --compile-bytecode --require-hashes -r requirements/serve.txt
	$(INSTALL) --no-deps --editable .
	@touch $@

.venv/.test: requirements/test.txt pyproject.toml | .venv/pyvenv.cfg
	$(INSTALL) --require-hashes -r requirements/test.txt
	$(INSTALL) --no-deps --editable .
	@touch $@

.venv/.spark: requirements/spark.txt pyproject.toml | .venv/pyvenv.cfg
	$(INSTALL) --require-hashes -r requirements/spark.txt
	$(INSTALL) --no-deps --editable .
	@touch $@

.venv/.fuzz: requirements/fuzz.txt .venv/.test
	$(INSTALL) --require-hashes -r requirements/fuzz.txt
	@touch $@

.venv/pyvenv.cfg: | $(UV)
	@test -n "$(PYTHON)" || { echo "Headwater needs Python 3.11 or later; set PYTHON=..." >&2; exit 1; }
	"$(UV)" venv --quiet --python "$(PYTHON)" .venv

.tools/bin/uv:
	@test -n "$(PYTHON)" || { echo "Headwater needs Python 3.11 or later; set PYTHON=..." >&2; exit 1; }
	"$(PYTHON)" -m venv .tools
	.tools/bin/python -m pip install --quiet uv
