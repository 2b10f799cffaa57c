# Everything people and CI do, by name. `make help` lists it.
# A machine needs Python >= 3.11 with pip, make, and a package index; uv is fetched when absent.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

# The newest interpreter is not always the installed one: take the first that is new enough.
PYTHON ?= $(firstword $(foreach py,python3 python python3.14 python3.13 python3.12 python3.11,\
	$(shell $(py) -c 'import sys; sys.version_info >= (3, 11) and print(sys.executable)' 2>/dev/null)))
export UV_PYTHON ?= $(PYTHON)

# uv from PATH, else from a project-local folder; the system's own environment is never touched.
UV := $(or $(shell command -v uv 2>/dev/null),$(CURDIR)/.cache/uv/bin/uv)
RUN := $(UV) run

# Tests start hundreds of processes. Without compiled files, each of them would compile all modules.
unexport PYTHONDONTWRITEBYTECODE

# Extra arguments for the tool behind a target, e.g. `make test ARGS="-k diffs -x"`.
ARGS ?=

# How much is explored: lives, the time for them, and the share of the steps at which sweeps crash.
LIVES ?= 10000
SECONDS ?= 420
SHARE ?= 0.1

# How many lives of three replicas that share the objects are explored, in SECONDS at most.
SHARDED ?= 500
FIRST ?= 0

# The seeds of CI: other ones for each commit, always the same for one commit.
COMMIT = $(shell git rev-parse --short=8 HEAD)

.PHONY: help install demo test test-long test-floors test-all-pythons e2e e2e-real e2e-long e2e-real-long e2e-k3d e2e-assets chaos chaos-all explore explore-commit model model-shards compat field deploy-check lint format typecheck imports \
	bench bench-go spine callgrind playground docs docs-browser changelog build sbom all clean

help: ## Show this list
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | sort | awk -F ':.*## ' '{printf "  %-16s %s\n", $$1, $$2}'

$(CURDIR)/.cache/uv/bin/uv:
	@test -n "$(PYTHON)" || { echo "make: Python 3.11 or newer is needed, and none was found." >&2; exit 1; }
	@echo "Fetching uv into .cache/uv ..."
	@"$(PYTHON)" -m pip install --quiet --disable-pip-version-check --root-user-action ignore --target .cache/uv --require-hashes -r tools/uv.txt

install: $(UV) ## Create .venv with all packages (editable) and the developers' tools
	$(UV) sync

demo: $(UV) ## Run the minimal example on a local sandbox, show what happens, and exit
	$(RUN) python tools/demo.py $(ARGS)

test: $(UV) ## Run the unit and behaviour tests of all packages and tools, on all cores
	$(RUN) pytest -n auto -m "not long" $(ARGS)

test-long: $(UV) ## Run those of them that start whole processes again and again, or type checkers
	$(RUN) pytest -m long $(ARGS)

test-floors: $(UV) ## Run the tests of the packages with the oldest versions of what they depend on
	$(UV) venv --quiet --clear .cache/floors
	$(UV) pip install --quiet --python .cache/floors --resolution lowest-direct --group test \
		-e "packages/kopf-cogs[full-auth,orjson]" -e "packages/kopf-core[metrics]" -e packages/kopf-kits \
		-e "packages/kopf[uvloop,models]"
	.cache/floors/bin/python -m pytest -p no:cacheprovider packages -m "not long" $(ARGS)

test-all-pythons: $(UV) ## Run the tests on every Python that is found; VERSIONS="3.13 pypy3.11" for some of them
	UV="$(UV)" $(RUN) python tools/all_pythons.py $(VERSIONS) -- -q $(ARGS)

e2e: $(UV) ## Run the end-to-end tests on the emulator (no cluster needed)
	$(RUN) pytest e2e --ignore e2e/chaos --ignore e2e/browser --ignore e2e/field --cluster emulator -m "not long" $(ARGS)

e2e-real: e2e-assets ## Run the end-to-end tests on a real kube-apiserver with etcd
	$(RUN) pytest e2e --ignore e2e/chaos --ignore e2e/browser --ignore e2e/field --ignore e2e/simulation --cluster envtest -m "not long" $(ARGS)

e2e-long: $(UV) ## Run those end-to-end tests that live through the lifetimes of real records (peering)
	$(RUN) pytest e2e --ignore e2e/chaos --ignore e2e/browser --ignore e2e/field --cluster emulator -m long $(ARGS)

# The roles of all examples take long to be tried: ROLES="least_roles" for them.
ROLES ?= not least_roles or applies_definitions or 17-admission or 18-website or 99-all-at-once
e2e-real-long: e2e-assets ## The same on a real kube-apiserver; the least roles of some examples, or ROLES=least_roles for all
	$(RUN) pytest e2e --ignore e2e/chaos --ignore e2e/browser --ignore e2e/field --cluster envtest -m long -k "$(ROLES)" $(ARGS)

e2e-k3d: $(UV) ## Run the end-to-end tests on a k3d cluster, created and deleted here (K3S_VERSION=...)
	$(RUN) pytest e2e --ignore e2e/chaos --ignore e2e/browser --ignore e2e/field --ignore e2e/simulation --cluster k3d $(ARGS)

chaos: $(UV) ## Kill, stop, and lie to operators on a fake API; CHAOS_SEED and CHAOS_ROUNDS for more
	$(RUN) pytest e2e/chaos -n 2 -m "not long" $(ARGS)

chaos-all: $(UV) ## The same with the longest sweeps
	$(RUN) pytest e2e/chaos -n 2 $(ARGS)

e2e-assets: $(UV) ## Build kube-apiserver and etcd with Go, once for each version, into the user's cache
	$(RUN) python e2e/assets/build.py

compat: e2e-assets ## Compare with the previous generation, run as a black box, on both clusters
	$(RUN) python -m e2e.compat --cluster emulator $(ARGS)
	$(RUN) python -m e2e.compat --cluster envtest $(ARGS)

explore: $(UV) ## Live many simulated lives: LIVES=10000 at most, in SECONDS=420 at most; a sweep of crashes; SHARDED=500 of replicas
	$(RUN) python -m e2e.simulation.sweeps --share $(SHARE)
	$(RUN) python -m e2e.simulation.explore --lives $(LIVES) --seconds $(SECONDS) $(ARGS)
	$(RUN) python -m e2e.simulation.shards --lives $(SHARDED) --first $(FIRST) --seconds $(SECONDS)

explore-commit: ## Live a few hundred lives, with the seeds of the current commit
	$(MAKE) explore LIVES=500 SHARE=0.02 SHARDED=50 FIRST=$$((0x$(COMMIT))) ARGS="--base $(COMMIT)"

model: $(UV) ## Explore all states of one object in an abstract world; ARGS="--budget edit=2,crash=1"
	$(RUN) python -m e2e.simulation.model $(ARGS)

model-shards: $(UV) ## Explore all states of the hand-over of shards; ARGS="--budget crash=1,lost=1"
	$(RUN) python -m e2e.simulation.handover $(ARGS)

field: $(UV) ## Run operators of others, as released, with our wheels instead of the previous generation
	UV="$(UV)" $(RUN) pytest e2e/field --cluster emulator $(ARGS)

deploy-check: e2e-assets ## Have the real server check what is in deploy/, and what the Helm chart renders
	$(RUN) python -m e2e.deploy.helm
	$(RUN) pytest e2e/deploy --cluster envtest $(ARGS)

lint: $(UV) ## Check the style, the layers of imports, the versions, and that no test needs real time
	! git grep -nE "^(<{7}|>{7}) " # the marks of unfinished merges
	$(RUN) ruff check .
	$(RUN) ruff format --check .
	$(RUN) zizmor --offline --quiet .github
	$(RUN) lint-imports --config import-linter.ini
	$(RUN) python tools/lockstep.py --check
	$(RUN) python tools/changelog.py --check
	$(RUN) python tools/real_time.py --check

format: $(UV) ## Fix what can be fixed automatically
	$(RUN) ruff check --fix .
	$(RUN) ruff format .

typecheck: $(UV) ## Check the types of all packages, tools, and the bench, strictly
	$(RUN) mypy packages/*/src tools bench

bench: $(UV) ## Measure CPU, memory, and latency against the previous generation
	$(RUN) python -m bench $(ARGS)

bench-go: e2e-assets ## Measure beside operators in Go on a real server, a quarter of an hour; ARGS="--scale 0.1" for a look
	$(RUN) python -m bench.beside $(ARGS)
	$(RUN) python -m bench.owners

spine: $(UV) ## Count exactly what is done for an object: requests, tasks, steps of Python, and so on
	$(RUN) python -m bench.spine $(ARGS)

callgrind: $(UV) ## Count the processor's instructions for an object, 2 minutes; compare them with the landed figures
	@command -v valgrind >/dev/null || { apt-get -qq update && apt-get -qq -y --no-install-recommends install valgrind; } \
		|| { echo "make: valgrind is needed; install it, e.g. by \`apt-get install valgrind\` as root." >&2; exit 1; }
	$(RUN) python -m bench.callgrind $(ARGS)

playground: $(UV) ## Build what the playground in the documentation downloads (Pyodide comes from npm)
	$(RUN) --group docs python tools/playground.py

docs: playground ## Check the prose, build the documentation into docs/_build; warnings and dead references are errors
	$(RUN) python tools/prose.py
	$(RUN) --group docs sphinx-build -n -W --keep-going -q -b html docs docs/_build/html
	$(RUN) python tools/dead_links.py docs/_build/html
	@echo "Open docs/_build/html/index.html"

docs-browser: $(UV) ## Look at the built documentation in a real browser (installed if you are root)
	$(RUN) --group browser python e2e/browser/chromium.py
	$(RUN) --group browser pytest e2e/browser $(ARGS)

changelog: $(UV) ## Preview the release notes made of changelog.d/
	$(RUN) python tools/changelog.py --draft

build: export SOURCE_DATE_EPOCH ?= $(shell git log -1 --format=%ct 2>/dev/null || echo 1577836800)
# The packages are built by what is in the lock, and by nothing newer; also when they are built once more.
build: export UV_BUILD_CONSTRAINT := $(CURDIR)/.cache/build.txt
build: $(UV) ## Build the wheels and source archives into dist/, twice, and check that they are fit to publish
	rm -rf dist
	$(UV) export --quiet --only-group build --no-emit-workspace --output-file .cache/build.txt
	$(UV) build --all-packages --out-dir dist --quiet
	$(RUN) --group release twine check --strict dist/*
	UV="$(UV)" $(RUN) python tools/reproduce.py dist
	$(RUN) python tools/smoke_wheels.py dist $(ARGS)

sbom: $(UV) ## List everything that kopf from dist/ brings, for each extra, as CycloneDX files into build/sbom/
	UV="$(UV)" $(RUN) --group release python tools/sbom.py dist build/sbom

all: lint typecheck test test-long e2e docs build ## Everything but the real server and the benchmarks

clean: ## Remove what was built and cached in this folder (.venv stays)
	rm -rf dist build docs/_build .mypy_cache .ruff_cache .pytest_cache .import_linter_cache
