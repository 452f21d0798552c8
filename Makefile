# `make demo` shows v6t, `make check` applies the rules of the code in less than a minute, `make quick` runs the
# tests that need no lab, `make test` runs all. All make .venv.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
ROOMS := api audit base benchmarks core intent packets trials plugins profiles procedures drivers analysis tools tests
SOURCES := setup.cfg pyproject.toml $(shell find $(ROOMS) -name '*.py' -not -path '*/__pycache__/*')

.PHONY: demo check test golden results test-jool test-nat46 test-tunnel-vm test-trex-vm test-openbsd fuzz kills faults sites plain docs man lint types contracts quick unit clean

# tests that time frames go one after the other; of the others some wait for a device's timers
# most of the time: three of them for each core
JOBS ?= $(shell nproc)
PARALLEL := --dist loadgroup -n

# every process of every test would compile v6t, its libraries and the tests anew
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

# pytest rewrites the tests it imports and keeps that: new ones once here, beside what takes one
# core, and not by all workers of `unit` at the same moment
$(VENV)/.collected: $(VENV)/.developed $(filter tests/%,$(SOURCES))
	@$(BIN)/pytest -q --collect-only >$@ || { cat $@; rm $@; exit 1; }

lint: $(VENV)/.developed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/python -m v6t.tools.rules
	$(BIN)/shellcheck -s sh $(wildcard drivers/duts/session/sh/*.sh)

# pyrefly cannot see through an editable install: it is shown the checkout under the package's name
types: $(VENV)/.developed
	mkdir -p $(VENV)/types && ln -sfn "$(CURDIR)" $(VENV)/types/v6t
	cd $(VENV)/types && ../bin/pyrefly check --config ../../pyrefly.toml \
	    $(foreach room,$(filter-out tests,$(ROOMS)),v6t/$(room))

# import-linter wants one package in one folder
contracts: $(VENV)/.developed
	@rm -rf $(VENV)/contracts && mkdir -p $(VENV)/contracts/v6t
	@cp -r $(filter-out api,$(ROOMS)) api/__init__.py $(VENV)/contracts/v6t
	PYTHONPATH=$(VENV)/contracts $(BIN)/lint-imports

quick: $(VENV)/.developed
	$(BIN)/pytest -q $(PARALLEL) $(JOBS) -m "not lab and not slow"

# a device of the lab that was starved of CPU may have missed its time: what failed is repeated with
# nothing beside it and must pass; the first failure stays on the screen
AGAIN := --last-failed --last-failed-no-failures none

# who marks none need not be imported a second time
marked = $(shell grep -rlE 'mark\.($(1))\b' tests --include='test_*.py')
ENGINES := (trex or vpp) and not alone
OTHERS := not (trex or vpp or alone)

# engines wait for their own start and for trials most of the time, but during these want a core each
unit: $(VENV)/.developed
	$(BIN)/pytest $(PARALLEL) $$(($(JOBS) * 3)) -m "$(OTHERS)" || \
	    $(BIN)/pytest $(AGAIN) -m "$(OTHERS)"
	$(BIN)/pytest $(PARALLEL) $$(($(JOBS) * 2)) -m "$(ENGINES)" $(call marked,trex|vpp) || \
	    $(BIN)/pytest $(AGAIN) -m "$(ENGINES)" $(call marked,trex|vpp)
	$(BIN)/pytest -m alone $(call marked,alone) || $(BIN)/pytest $(AGAIN) -m alone $(call marked,alone)

# the regression net, with its slow cases and the audits of real devices in network namespaces; what is
# intended is stored with GOLDEN=--write
golden: $(VENV)/.developed
	$(BIN)/python -m v6t.tests.golden --lab $(GOLDEN)

# the site in build/site; tests/docs/built.py builds what is not committed
docs: $(VENV)/.developed
	$(BIN)/mkdocs build --strict --quiet
	@echo build/site/index.html

# manual pages of all commands: `man -l build/man/v6t-run.1`, or copied to a folder man1 of MANPATH
man: $(VENV)/.developed
	$(BIN)/python -m v6t.tools.man_pages build/man

# every device of the lab as every technology, one to two hours on an idle machine, and its page. What was
# interrupted is continued; what came to its end is made anew, or with RESUME=1 what failed of it. Programs
# are those in PATH, or of V6T_VPP and the like. MACHINES=1: Jool, nat46 and ip6_tunnel in virtual machines,
# and the OpenBSD of V6T_OPENBSD_VM and V6T_OPENBSD_KEY (tests/openbsd/vm.py)
RESULTS ?= build/results
results: $(VENV)/.developed
	$(BIN)/python -m v6t.tests.zoo $(RESULTS) $(if $(RESUME),--resume) $(if $(MACHINES),--machines)

# Debian's Jool on Debian's kernel in a virtual machine; the first time, the image is made
test-jool: $(VENV)/.developed
	V6T_JOOL=1 $(BIN)/pytest -m jool tests/jool

# the nat46.ko that V6T_NAT46 names, in the same machine
test-nat46: $(VENV)/.developed
	V6T_NAT46_VM=1 $(BIN)/pytest -m nat46 tests/jool

# ip6_tunnel of Debian's kernel, likewise: not every kernel that runs tests has it
test-tunnel-vm: $(VENV)/.developed
	V6T_TUNNEL_VM=1 $(BIN)/pytest -m tunnelvm tests/tunnelvm

# an OpenBSD that boots in QEMU with the arguments in V6T_OPENBSD_VM (tests/openbsd/vm.py)
test-openbsd: $(VENV)/.developed
	$(BIN)/pytest -m openbsd tests/openbsd

# the long attack: every command and file format, with the slowest and the largest input
INPUTS ?= 100000
fuzz: $(VENV)/.developed
	$(BIN)/python -m v6t.tests.fuzz --inputs $(INPUTS) --jobs $(JOBS)

# kill -9 at random moments; what is resumed must end as if nothing had happened
KILLS ?= 100
kills: $(VENV)/.developed
	V6T_KILLS=$(KILLS) $(BIN)/pytest -q --timeout 7200 tests/fuzz/test_kills.py

# CE and PE over real SSH in every variant that devices are here for; VPP and Snabb by V6T_VPP, V6T_SNABB, ip6_tunnel
# in a virtual machine
sites: $(VENV)/.developed
	V6T_SITES=1 $(BIN)/pytest -rs tests/drivers/duts/test_two_devices.py

# every driver as everything it can be, by the plain command
plain: $(VENV)/.developed
	V6T_PLAIN=1 $(BIN)/pytest -rs tests/core/test_plain_runs.py

# every fault at every step of every driver whose program is here, over a real sshd, at so many sites;
# docs/development.md names those that are left out
LANES ?= $$(($(JOBS) * 4))
faults: $(VENV)/.developed
	V6T_FAULTS=all V6T_LANES=$(LANES) $(BIN)/pytest -q --timeout 7200 $(PARALLEL) $(LANES) \
	    tests/drivers/duts/test_fault_matrix.py

# TRex of TREX_DIR on emulated NICs; the first time, the image of Debian's kernel is made
test-trex-vm: $(VENV)/.developed
	V6T_TREX_VM=1 $(BIN)/pytest -m trexvm tests/trexvm

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' || \
	    { echo "v6t needs Python 3.10 or newer: set PYTHON=" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || \
	    { echo "Python's venv module is missing: apt-get install python3-venv" >&2; exit 1; }
	$(PYTHON) -m venv $(if $(findstring --python,$(PIP)),--without-pip) $(VENV)

# copying pip into the new environment first takes 3 s, which pip 23 and newer can do without
PIP = $(shell $(PYTHON) -c 'import pip; exit(int(pip.__version__.split(".")[0]) < 23)' 2>/dev/null && \
    echo $(PYTHON) -m pip --python $(BIN)/python || echo $(BIN)/python -m pip)

# one environment for all: the checkout itself, with v6t.tests and v6t.tools, which no wheel contains
# setuptools warns of every editable installation
INSTALL = PYTHONWARNINGS=ignore $(PIP) install --quiet --disable-pip-version-check pip --editable

# most modules of the libraries are never imported; compiling all of them takes 5 s
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
