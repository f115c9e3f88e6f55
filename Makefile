# Every habit of the project, one name each. `make` alone lists them.
SHELL := /bin/bash
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

export HOMEOSTAT_CACHE ?= /var/cache/homeostat
# The compile cache lies with the other caches and hits from any clone.
export CCACHE_DIR ?= $(HOMEOSTAT_CACHE)/ccache
export CCACHE_MAXSIZE ?= 2G
export CCACHE_BASEDIR := $(CURDIR)
export CCACHE_NOHASHDIR := 1

JOBS ?= $(shell nproc)
BENCH ?= all
LINT_IN ?= src api lab tests bench
PROGRAMS := homeostat homeostat-controller homeostat-agent homeostat-lab homeostat_fake_nvml
SOURCES = git ls-files --cached --others --exclude-standard -- '*.cpp' '*.hpp' '*.c' '*.h'
CONFIGURE := cmake --preset dev
KUBERNETES := kubernetes~12 'scripts/build-kubernetes'
IMAGES := images~2 'scripts/build-images --only pause --only slurm'

.PHONY: help
help: ## this list
	@awk -F':.*## ' '/^[a-z0-9-]+:.*## / {printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: demo
demo: ## everything on a bare Debian 12 machine: builds, starts the lab, heals a job before your eyes, leaves the lab up
	@scripts/setup
	@scripts/with-progress $(KUBERNETES) $(IMAGES) programs~5 '$(CONFIGURE) && ninja -C build -j$(JOBS) $(PROGRAMS)'
	@scripts/build-images >build/log/images-path.log
	@build/bin/homeostat demo

.PHONY: test
test: ## all tests, the end-to-end heal included; what .ci/run calls
	@scripts/setup
	@scripts/with-progress $(KUBERNETES) $(IMAGES) build~8 '$(CONFIGURE) && ninja -C build -j$(JOBS)'
	@scripts/build-images >build/log/images-path.log
	ctest --test-dir build --output-on-failure --no-tests=error -j$(JOBS) -LE e2e
	ctest --test-dir build --verbose --no-tests=error -L e2e

.PHONY: build
build: ## compile everything (build/bin, build/tests)
	@$(CONFIGURE) >/dev/null
	ninja -C build -j$(JOBS)

.PHONY: unit
unit: build ## the tests that need neither root nor the lab
	ctest --test-dir build --output-on-failure --no-tests=error -j$(JOBS) -LE e2e

.PHONY: e2e
e2e: kubernetes images ## the end-to-end heal on the lab (root)
	ctest --test-dir build --verbose --no-tests=error -L e2e

.PHONY: sim
sim: build ## repairs in virtual time, with a crash at every step
	ctest --test-dir build --output-on-failure --no-tests=error -R sim_test

.PHONY: sanitize
sanitize: ## the same tests built by clang-19 with AddressSanitizer and UndefinedBehaviorSanitizer
	@cmake --preset sanitize >/dev/null
	ninja -C build-sanitize -j$(JOBS)
	ctest --test-dir build-sanitize --output-on-failure --no-tests=error -j$(JOBS) -LE e2e

.PHONY: fuzz
fuzz: ## half a minute of libFuzzer on each parser of foreign bytes
	tests/fuzz/run

.PHONY: bench
bench: kubernetes images ## measure on the lab; BENCH=heal runs one group; writes build/bench.json (root)
	bench/run $(BENCH)

.PHONY: lint
lint: ## clang-tidy-19 on what changed since it was clean; LINT_IN="src/core" narrows it
	@$(CONFIGURE) >/dev/null
	@scripts/lint --jobs $(JOBS) $(LINT_IN)

.PHONY: format
format: ## clang-format-19 on every C and C++ file
	$(SOURCES) | xargs -r clang-format-19 -i

.PHONY: format-check
format-check: ## fails where `make format` would change something
	$(SOURCES) | xargs -r clang-format-19 --dry-run --Werror

.PHONY: kubernetes
kubernetes: ## the lab's Kubernetes and CoreDNS from source, kept in $HOMEOSTAT_CACHE (about 12 min when new)
	scripts/build-kubernetes

.PHONY: images
images: build ## the lab's three images as tars, kept in $HOMEOSTAT_CACHE (about 2 min when new)
	scripts/build-images

.PHONY: down
down: ## end the lab without a trace
	build/bin/homeostat down

.PHONY: clean
clean: ## remove what was built here; the caches outside stay
	rm -rf build build-release build-sanitize build-fuzz
