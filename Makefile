# Everything here works on a fresh machine with Python 3.11 or newer and make: the first target that needs it sets up
# .venv from the pinned, hashed requirements; `make demo` with what users run, the others with what developers need, too.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
USER_STAMP := $(VENV)/.installed
STAMP := $(VENV)/.developer
# Tests wait now and then, so three processes keep two cores busy. Each story process has a control plane, about
# 1 GB, or a browser; stories on a cluster wait most of the time.
WORKERS ?= 3
STORY_WORKERS ?= 2
CLUSTER_WORKERS ?= 4
BENCHES ?= decide switches superpods cycle bounded answers faults list simulate start soak web
BENCH_OUTPUT ?= table
COUNT ?= 300
SEED ?= 1
REPEAT ?= 1
UV_VERSION := 0.13.7
BROWSER_STAMP := $(VENV)/.browser
RELEASE_STAMP := $(VENV)/.release
RELEASE_URL ?= https://ringwise.io/releases/v$(VERSION)
FIND_BROWSER := $(BIN)/python -c 'import sys; from ringwise_bench.page import find_browser; sys.exit(not find_browser())'
NO_BROWSER := no Chromium is found; Debian has it as the package chromium, RINGWISE_BROWSER names another one

# Where it is set, as in many images, every process compiles all sources anew: more than half of its start.
unexport PYTHONDONTWRITEBYTECODE
# Each worker takes from the others when it has no tests left, and what a module shares is made once.
IN_PARALLEL := --dist=worksteal -n

.DEFAULT_GOAL := help
.PHONY: help setup demo test test-browser test-cluster test-node test-chaos lint style types lint-page format bench mutants \
  release test-release audit manifests docs tour pictures proto requirements page-vendor clean

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)$$/  make \1|\2/p' $(MAKEFILE_LIST) | awk -F'|' '{printf "%-20s %s\n", $$1, $$2}'

setup: $(STAMP) ## make .venv and install Ringwise into it, with what developers need

$(USER_STAMP): requirements.txt requirements-build.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "Ringwise needs Python 3.11 or newer; name one with: make PYTHON=/path/to/python3"; exit 1; }
	@$(PYTHON) tools/set_up.py $(VENV) -r requirements.txt -r requirements-build.txt -e .
	@touch $@

$(STAMP): requirements-dev.txt bench/pyproject.toml $(USER_STAMP)
	@$(PYTHON) tools/set_up.py $(VENV) -r requirements-dev.txt -e ./bench
	@touch $@

demo: $(USER_STAMP) ## show Ringwise at work on a sample cluster
	@$(BIN)/ringwise demo

# In a new checkout the tests are compiled first: the processes would do it at the same time, each for itself.
test: style ## all checks and all tests
	@echo "== tests, and types beside them"
	@mkdir -p build; $(BIN)/mypy > build/types.log 2>&1 & types=$$!; \
	  test -d tests/__pycache__ || $(BIN)/python -m pytest -q --collect-only > /dev/null; \
	  $(BIN)/python -m pytest -q $(IN_PARALLEL) $(WORKERS); tests=$$?; \
	  wait $$types; types=$$?; echo "== types"; cat build/types.log; test $$tests$$types = 00

test-cluster: export RINGWISE_REPEAT = $(REPEAT)
# The programs of Kubernetes, which are started hundreds of times, collect garbage less often: memory is not scarce.
test-cluster test-node: export GOGC = 400
test-cluster: $(STAMP) ## user stories on a real control plane, each REPEAT=1 times; its programs are found, or built once with Go
	@echo "== programs"
	@$(BIN)/python tests/cluster/tools/build.py
	@echo "== chart and plain manifests"
	@RINGWISE_HELM=$$($(BIN)/python tests/cluster/tools/build.py helm | cut -f2) \
	  $(BIN)/python -m pytest -q $(IN_PARALLEL) $(WORKERS) tests/deploy/test_manifests.py tests/deploy/test_chart.py \
	    tests/deploy/test_chart_snapshots.py
	@echo "== user stories on a cluster"
	@$(BIN)/python -m pytest -q $(IN_PARALLEL) $(CLUSTER_WORKERS) -m "cluster and not alone" tests/cluster
	@echo "== faults, pauses and large objects: each with a core of its own"
	@$(BIN)/python -m pytest -q $(IN_PARALLEL) $(STORY_WORKERS) -m "cluster and alone" tests/cluster
	@$(MAKE) --no-print-directory test-node

test-node: $(STAMP) ## stories on a real kubelet; root is needed
	@echo "== programs"
	@$(BIN)/python tests/cluster/tools/build.py etcd kube-apiserver kube-controller-manager kubectl kubelet
	@echo "== stories on a kubelet"
	@$(BIN)/python -m pytest -q -m node tests/node

test-chaos: $(STAMP) ## faults and 200 kills of each component, about two hours; RINGWISE_CHAOS_SEED selects them
	@$(BIN)/python tests/cluster/tools/build.py
	@RINGWISE_CHAOS_KILLS=$${RINGWISE_CHAOS_KILLS:-200} $(BIN)/python -m pytest -q -s -m chaos tests/cluster tests/node

test-browser: $(STAMP) ## stories on the dashboard's page in a Chromium, if one is found
	@echo "== the page in a browser"
	@if $(FIND_BROWSER); then $(MAKE) --no-print-directory $(BROWSER_STAMP) && \
	  $(BIN)/python -m pytest -q $(IN_PARALLEL) $(STORY_WORKERS) -m browser tests/web/browser; \
	else echo "   skipped: $(NO_BROWSER)"; fi

pictures: $(STAMP) ## make the pictures of the dashboard in docs/pictures; a Chromium is needed
	@$(FIND_BROWSER) || { echo "$(NO_BROWSER)"; exit 1; }
	@$(MAKE) --no-print-directory $(BROWSER_STAMP)
	@$(BIN)/python -m tests.web.browser.pictures

$(BROWSER_STAMP): requirements-browser.txt $(STAMP)
	@echo "   installing what drives the browser, once: about 50 MB"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-browser.txt
	@touch $@

lint-page: ## types and style of the dashboard's page, where Node.js is
	@echo "== the page: types and style"
	@if command -v npm >/dev/null; then \
	  (cd tools/page && npm ci --silent) && \
	  tools/page/node_modules/.bin/tsc -p tools/page/tsconfig.json && \
	  tools/page/node_modules/.bin/eslint -c tools/page/eslint.config.js src/ringwise/web/page; \
	else echo "   skipped: Node.js is not found"; fi

page-vendor: ## copy the libraries of the dashboard's page anew, as tools/page/package.json names them; needs Node.js
	@$(PYTHON) tools/page/vendor.py

lint: style types ## style, types and the direction of imports

style: $(STAMP)
	@echo "== style"
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@echo "== direction of imports"
	@$(BIN)/lint-imports --no-logo

types: $(STAMP)
	@echo "== types"
	@$(BIN)/mypy

format: $(STAMP) ## put all files into the common form
	@$(BIN)/ruff check --fix-only --quiet .
	@$(BIN)/ruff format .

bench: $(STAMP) ## all benchmarks; BENCHES="decide cycle" picks some, BENCH_OUTPUT=json prints JSON
	@failed=""; for name in $(BENCHES); do \
	  echo "== bench $$name" >&2; \
	  $(BIN)/ringwise bench $$name -o $(BENCH_OUTPUT) || failed="$$failed $$name"; \
	done; \
	test -z "$$failed" || { echo "goals not met:$$failed" >&2; exit 1; }

mutants: $(STAMP) ## plant COUNT=300 small bugs in PATHS by SEED=1, one at a time, and list those that no test notices
	@$(BIN)/python -m tools.mutants $(PATHS) --count $(COUNT) --seed $(SEED)

release: $(RELEASE_STAMP) ## build the files of VERSION=0.1.0 below dist from HEAD, without publishing anything
	@test -n "$(VERSION)" || { echo "error: give a version: make release VERSION=0.1.0"; exit 2; }
	@$(BIN)/python -m tools.release $(VERSION) --output dist/$(VERSION) --url $(RELEASE_URL)

test-release: $(RELEASE_STAMP) ## build a release twice, compare, and install it offline from its files
	@echo "== release"
	@$(BIN)/python -m pytest -q -m release tests/release

audit: $(RELEASE_STAMP) ## look for known vulnerabilities of dependencies; ADVISORIES=DIR reads OSV files and needs no network
	@$(if $(ADVISORIES),$(BIN)/python -m tools.audit $(ADVISORIES),$(BIN)/pip-audit --strict --disable-pip \
	  --require-hashes -r requirements.txt)

$(RELEASE_STAMP): requirements-release.txt $(STAMP)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-release.txt
	@touch $@

manifests: $(STAMP) ## write the rights of the chart, and render deploy/manifests from it; Helm is found, or built once with Go
	@$(BIN)/python tests/cluster/tools/build.py helm > /dev/null
	@$(BIN)/python -m tools.manifests

docs: $(STAMP) ## write the reference pages anew from their sources
	@$(BIN)/python -m ringwise_bench.docs.write docs

tour: $(STAMP) ## run the commands that the pages show, and write what they print into the pages
	@RINGWISE_WRITE_GOLDEN=1 $(BIN)/python -m pytest -q tests/tour tests/lab/test_page.py

proto: $(STAMP) ## generate the messages of kubelet's and the container runtime's API anew
	@cd src && ../$(BIN)/python -m grpc_tools.protoc -I. --python_out=. --pyi_out=. \
	  ringwise/device/api/deviceplugin.proto ringwise/device/api/podresources.proto
	@$(BIN)/python -m grpc_tools.protoc -I. --python_out=. --pyi_out=. --grpc_python_out=. \
	  tests/node/cri/runtime.proto

requirements: $(STAMP) ## pin the newest versions that fit, with hashes for all platforms
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check uv==$(UV_VERSION)
	@$(BIN)/uv pip compile --quiet --upgrade --universal --python-version 3.11 --generate-hashes --no-header \
	  --no-emit-index-url --no-emit-find-links \
	  --extra device pyproject.toml -o requirements.txt
	@$(BIN)/uv pip compile --quiet --upgrade --universal --python-version 3.11 --generate-hashes --no-header \
	  --no-emit-index-url --no-emit-find-links --constraint requirements.txt \
	  --extra device pyproject.toml requirements-dev.in -o requirements-dev.txt
	@$(BIN)/uv pip compile --quiet --upgrade --universal --python-version 3.11 --generate-hashes --no-header \
	  --no-emit-index-url --no-emit-find-links --constraint requirements-dev.txt \
	  requirements-browser.in -o requirements-browser.txt
	@$(BIN)/uv pip compile --quiet --upgrade --universal --python-version 3.11 --generate-hashes --no-header \
	  --no-emit-index-url --no-emit-find-links --constraint requirements-dev.txt \
	  requirements-release.in -o requirements-release.txt
	@{ echo "# What builds the package in the image: the lines of requirements-dev.txt."; \
	  awk '/^[^ #]/{on=/^setuptools==/} on && !/^ *#/' requirements-dev.txt; } > requirements-build.txt

clean: ## remove .venv and every cache
	@rm -rf $(VENV) build dist bench/build .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
