# Every target sets up what it needs, once: a fresh machine with Python and make is enough.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
BROWSER := $(VENV)/.browser
DATABASE := $(VENV)/.database
PYTEST := $(BIN)/python -m pytest
export UV_SYSTEM_CERTS := 1

.PHONY: demo ui test crash stores ceph bench lint format lock clean

demo: $(READY)
	$(BIN)/pairlog demo

# Dagster on 127.0.0.1 with the bundled experiment on the simulator; prints what to click.
ui: $(READY)
	$(BIN)/python infra/demo/ui.py

test: $(READY) $(BROWSER) $(DATABASE)
	$(PYTEST) -n auto --dist worksteal -m "not slow"

# The whole crash matrix (on disk, S3 and GCS; on several wires), pairs of crashes, and thousands of simulated histories:
# half an hour. How many cells and seeds there were is told at the end.
crash: $(READY)
	PAIRLOG_SIMULATIONS=4000 $(PYTEST) -n auto --dist worksteal -m "slow or not slow" tests/flows/crash tests/flows/simulation

# What only real object stores show: races of 32 writers, hundreds of runs, big files;
# some minutes on a quiet machine, half an hour and more on a busy one. Folders are on a disk here, not in memory.
stores: $(READY)
	PYTEST_DEBUG_TEMPROOT=$${TMPDIR:-/tmp} $(PYTEST) -m slow tests/storage

# A second opinion on S3: Ceph's gateway, from Debian's packages unless they are there; some minutes. Left out are the tests
# of rights, which are written in SeaweedFS's words, and that the last of two uploads in parts loses: on Ceph it wins.
ceph: $(READY)
	command -v ceph-mon >/dev/null && command -v ceph-osd >/dev/null && command -v radosgw >/dev/null \
	  || { apt-get update --quiet=2 && apt-get install --yes --quiet=2 --no-install-recommends ceph-mon ceph-osd radosgw; } >/dev/null
	PAIRLOG_S3_SERVER=ceph $(PYTEST) -m "not slow" -k "not may_only_be_read and not second_to_end" \
	  tests/storage/test_stores.py tests/storage/test_object_stores.py tests/storage/test_object_stores_log.py \
	  tests/storage/test_object_stores_faults.py tests/storage/test_appending.py

# Each stage beside its peers in the same run; prints ratios, and fails where a bar is missed: nine minutes to half an hour.
bench: $(READY)
	$(BIN)/python infra/bench/run.py

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(READY)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# The lock holds hashes and no address; uv itself is installed from it first, because it is faster than pip by far.
$(READY): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Pairlog needs Python 3.11 or newer, and $(PYTHON) is %d.%d: make PYTHON=python3.11" % sys.version_info[:2])'
	$(PYTHON) -m venv --clear $(VENV)
	awk '/^[a-z]/ {keep = /^uv==/} keep' requirements.lock > $(VENV)/uv.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r $(VENV)/uv.txt
	$(BIN)/uv pip sync --quiet --compile-bytecode --python $(BIN)/python --require-hashes requirements.lock
	$(BIN)/uv pip install --quiet --python $(BIN)/python --no-deps --no-build-isolation --editable .
	touch $@

# The report is looked at in a real browser: Debian's, unless there is one.
$(BROWSER): $(READY)
	command -v chromium chromium-browser google-chrome >/dev/null \
	  || { apt-get update --quiet=2 && apt-get install --yes --quiet=2 --no-install-recommends chromium; } >/dev/null
	touch $@

# Dagster's production storage is tried on a real PostgreSQL: Debian's, unless there is one.
$(DATABASE): $(READY)
	ls /usr/lib/postgresql/*/bin/postgres >/dev/null 2>&1 || command -v postgres >/dev/null \
	  || { apt-get update --quiet=2 && apt-get install --yes --quiet=2 --no-install-recommends postgresql; } >/dev/null
	touch $@

lock: $(READY)
	$(BIN)/uv pip compile --quiet --upgrade --universal --python-version 3.11 --generate-hashes \
	  --no-header --all-extras --group build --group lint --group test --group sdks --group servers --group bench pyproject.toml --output-file requirements.lock

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .import_linter_cache .hypothesis
