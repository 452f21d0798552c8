# `make demo` shows v6t; `make check` checks style and types in less than a minute; `make quick` runs the
# tests that need no lab; `make test` runs all tests. Each target creates .venv if it is missing.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
FOLDERS := api audit base benchmarks core intent packets trials plugins profiles procedures drivers analysis tools tests
SOURCES := setup.cfg pyproject.toml $(shell find $(FOLDERS) -name '*.py' -not -path '*/__pycache__/*')

.PHONY: demo check test golden results test-jool test-nat46 test-tunnel-vm test-trex-vm test-openbsd fuzz kills faults sites docs man lint types contracts quick unit clean

# Tests that time frames run one at a time. Many others mostly wait for a device's timers, so `unit`
# starts three workers per core.
JOBS ?= $(shell nproc)
PARALLEL := --dist loadgroup -n

# With this variable set, every test process would compile v6t, its libraries and the tests again.
unexport PYTHONDONTWRITEBYTECODE

demo: $(VENV)/.installed
	$(BIN)/v6t run --plugin mape-br
	@echo
	@echo 'Next:'
	@echo '  . $(BIN)/activate'
	@echo '  v6t run --plugin mape-br --tester sim -o rehearsal'
	@echo '  v6t plugins    (technologies; v6t --help lists the commands)'

check: $(VENV)/.developed
	@$(MAKE) --no-print-directory -j 2 lint types contracts
	@$(BIN)/pytest -q tests/base tests/docs/test_sentences.py

test: $(VENV)/.developed
	@$(MAKE) --no-print-directory -j 2 lint types contracts $(VENV)/.collected
	@$(MAKE) --no-print-directory unit

# pytest caches the tests it has rewritten. Collecting once here fills the cache, so that the workers of
# `unit` do not all rewrite the same new tests at once.
$(VENV)/.collected: $(VENV)/.developed $(filter tests/%,$(SOURCES))
	@$(BIN)/pytest -q --collect-only >$@ || { cat $@; rm $@; exit 1; }

lint: $(VENV)/.developed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/python -m v6t.tools.rules
	$(BIN)/shellcheck -s sh $(wildcard drivers/duts/session/sh/*.sh)

# pyrefly does not follow editable installs, so it checks a link to the checkout named like the package.
types: $(VENV)/.developed
	mkdir -p $(VENV)/types && ln -sfn "$(CURDIR)" $(VENV)/types/v6t
	cd $(VENV)/types && ../bin/pyrefly check --config ../../pyrefly.toml \
	    $(foreach folder,$(filter-out tests,$(FOLDERS)),v6t/$(folder))

# import-linter needs the whole package in one folder.
contracts: $(VENV)/.developed
	@rm -rf $(VENV)/contracts && mkdir -p $(VENV)/contracts/v6t
	@cp -r $(filter-out api,$(FOLDERS)) api/__init__.py $(VENV)/contracts/v6t
	PYTHONPATH=$(VENV)/contracts $(BIN)/lint-imports

quick: $(VENV)/.developed
	$(BIN)/pytest -q $(PARALLEL) $(JOBS) -m "not lab and not slow"

# A lab device that was starved of CPU may miss a deadline. Failed tests are therefore repeated without
# parallel load and must then pass; the first failure stays on the screen.
RETRY := --last-failed --last-failed-no-failures none

# Test files with one of the markers $(1), so that later pytest calls do not import all other files again.
marked = $(shell grep -rlE 'mark\.($(1))\b' tests --include='test_*.py')
TREX_OR_VPP := (trex or vpp) and not alone
OTHERS := not (trex or vpp or alone)

# Tests with TRex or VPP mostly wait for program starts and trials, but need one core each during a trial.
unit: $(VENV)/.developed
	$(BIN)/pytest $(PARALLEL) $$(($(JOBS) * 3)) -m "$(OTHERS)" || \
	    $(BIN)/pytest $(RETRY) -m "$(OTHERS)"
	$(BIN)/pytest $(PARALLEL) $$(($(JOBS) * 2)) -m "$(TREX_OR_VPP)" $(call marked,trex|vpp) || \
	    $(BIN)/pytest $(RETRY) -m "$(TREX_OR_VPP)" $(call marked,trex|vpp)
	$(BIN)/pytest -m alone $(call marked,alone) || $(BIN)/pytest $(RETRY) -m alone $(call marked,alone)

# The golden tests, with slow cases and audits of real devices in network namespaces. Store intended
# changes with GOLDEN=--write.
golden: $(VENV)/.developed
	$(BIN)/python -m v6t.tests.golden --lab $(GOLDEN)

# The documentation site in build/site; tests/docs/generated_pages.py generates the pages that are not committed.
docs: $(VENV)/.developed
	$(BIN)/mkdocs build --strict --quiet
	@echo build/site/index.html

# Manual pages of all commands: read them with `man -l build/man/v6t-run.1` or copy them to a man1 folder.
man: $(VENV)/.developed
	$(BIN)/python -m v6t.tools.man_pages build/man

# Every lab device with every technology, and the results page; two to three hours on an idle machine. An
# interrupted call continues; a finished one starts again, or repeats only its failures with RESUME=1.
# Programs come from PATH or from variables such as V6T_VPP. MACHINES=1 adds the virtual machines: Jool,
# nat46, ip6_tunnel, and the OpenBSD of V6T_OPENBSD_VM and V6T_OPENBSD_KEY (tests/openbsd/vm.py).
RESULTS ?= build/results
results: $(VENV)/.developed
	$(BIN)/python -m v6t.tests.zoo $(RESULTS) $(if $(RESUME),--resume) $(if $(MACHINES),--machines)

# Debian's Jool on Debian's kernel in a virtual machine; the first call builds the image.
test-jool: $(VENV)/.developed
	V6T_JOOL=1 $(BIN)/pytest -m jool tests/jool

# The nat46.ko named by V6T_NAT46, in the same virtual machine.
test-nat46: $(VENV)/.developed
	V6T_NAT46_VM=1 $(BIN)/pytest -m nat46 tests/jool

# ip6_tunnel of Debian's kernel in a virtual machine, because the host's kernel may lack the module.
test-tunnel-vm: $(VENV)/.developed
	V6T_TUNNEL_VM=1 $(BIN)/pytest -m tunnelvm tests/tunnelvm

# OpenBSD in QEMU, started with the arguments in V6T_OPENBSD_VM (tests/openbsd/vm.py).
test-openbsd: $(VENV)/.developed
	$(BIN)/pytest -m openbsd tests/openbsd

# Fuzz every command and file format; print the slowest and the largest input.
INPUTS ?= 100000
fuzz: $(VENV)/.developed
	$(BIN)/python -m v6t.tests.fuzz --inputs $(INPUTS) --jobs $(JOBS)

# Kill runs with SIGKILL at random moments; each resumed run must give the results of an uninterrupted one.
KILLS ?= 100
kills: $(VENV)/.developed
	V6T_KILLS=$(KILLS) $(BIN)/pytest -q --timeout 7200 -k kill tests/fuzz/test_kills.py tests/drivers/duts/test_runs.py

# CE and PE over real SSH, in every variant whose devices are installed. V6T_VPP and V6T_SNABB name these
# programs; ip6_tunnel runs in a virtual machine.
sites: $(VENV)/.developed
	V6T_SITES=1 $(BIN)/pytest -rs tests/drivers/duts/test_two_devices.py

# Inject every fault at every step of every driver whose program is installed, over a real sshd, at LANES
# sites in parallel; docs/development.md lists the excluded drivers.
LANES ?= $$(($(JOBS) * 4))
faults: $(VENV)/.developed
	V6T_FAULTS=all V6T_LANES=$(LANES) $(BIN)/pytest -q --timeout 7200 $(PARALLEL) $(LANES) \
	    tests/drivers/duts/test_fault_matrix.py

# TRex of TREX_DIR on emulated NICs in a virtual machine; the first call builds the image.
test-trex-vm: $(VENV)/.developed
	V6T_TREX_VM=1 $(BIN)/pytest -m trexvm tests/trexvm

QUIET := --quiet --disable-pip-version-check

# The newest pip finds the libraries in much less time than pip 23, which can install it elsewhere.
$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' || \
	    { echo "v6t needs Python 3.10 or newer: set PYTHON=" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || \
	    { echo "Python's venv module is missing: apt-get install python3-venv" >&2; exit 1; }
	$(PYTHON) -m venv --without-pip $(VENV)
	@$(PYTHON) -m pip --python $@ install $(QUIET) pip 2>/dev/null || { \
	    $(PYTHON) -m venv $(VENV) && $@ -m pip install $(QUIET) --upgrade pip; } || { rm -r $(VENV); exit 1; }

# One environment for everything. `.developed` adds v6t.tests and v6t.tools, which no wheel contains.
# PYTHONWARNINGS: setuptools warns at every editable installation.
INSTALL = PYTHONWARNINGS=ignore $(BIN)/python -m pip install $(QUIET) --editable

# --no-compile: most library modules are never imported, and compiling all of them takes 5 s.
$(VENV)/.installed: $(BIN)/python setup.cfg pyproject.toml
	$(INSTALL) . --no-compile
	@touch $@

$(VENV)/.developed: $(BIN)/python setup.cfg pyproject.toml
	$(INSTALL) '.[dev]'
	@for name in tests tools; do mkdir -p $(VENV)/checkout/v6t/$$name; \
	    echo "__path__ = ['$(CURDIR)/$$name']" >$(VENV)/checkout/v6t/$$name/__init__.py; done
	@ln -sfn '$(CURDIR)/api/__init__.py' $(VENV)/checkout/v6t/__init__.py
	@echo '$(CURDIR)/$(VENV)/checkout' >$$(ls -d $(VENV)/lib/python*/site-packages)/v6t-checkout.pth
	@touch $(VENV)/.installed $@

clean:
	rm -rf $(VENV) build dist *.egg-info .ruff_cache .pytest_cache .hypothesis
