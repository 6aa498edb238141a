# `make` alone lists what there is to make. Everything runs in .venv, made at the first call.

# Makes .venv. Where this Python has PyTorch already, that one is used; later calls need not name
# it again.
PYTHON ?= python3
SETUP := $(PYTHON) tools/setup.py $(if $(filter file,$(origin PYTHON)),,--named)

# Added to the command that they name, for example: make lab LAB_ARGS="--no-browser --port 8890",
# or make bench BENCH_ARGS=measure_overhead
LAB_ARGS ?=
REPORT_ARGS ?=
BOOK_ARGS ?=
BENCH_ARGS ?=
SUBMISSIONS ?=
GRADE_ARGS ?=
SLIDES_ARGS ?=
EXAM_ARGS ?=
NBGRADER_ARGS ?=
GRADESCOPE_ARGS ?=
CHAPTERS ?=

# OpenMP's threads wait for each other in a busy loop. Where other programs use the cores, too, small
# products then take tens of times as long. Passive threads sleep while they wait.
# Kernels and ranks import the course again and again, so that its bytecode is kept in any case.
RUN := env -u PYTHONDONTWRITEBYTECODE PATH="$(CURDIR)/.venv/bin:$$PATH" OMP_WAIT_POLICY=PASSIVE \
	.venv/bin/python

.PHONY: help setup lab smoke test test-notebooks test-deep test-optional test-kernels test-all \
	answers build bench handout grade nbgrader gradescope slides exam report ledger book \
	doctor lock clean

help:
	@echo "make setup    install what the course needs, in .venv/"
	@echo "make lab      open the course in JupyterLab"
	@echo "make smoke    check in a minute that this installation works"
	@echo "make test     check the course: about eight minutes on two cores"
	@echo "make test-notebooks   execute the notebooks, and compare: all, or CHAPTERS=\"02 06b\""
	@echo "make test-deep  every answer to every exercise, and what takes long: an hour"
	@echo "make test-optional  what needs a browser, walls around answers, DeepSpeed or transformers"
	@echo "make test-kernels   what compares numbers, with other processors' arithmetic"
	@echo "make test-all all of these stages: hours"
	@echo "make build    build notebooks/ and labs/ from chapters/, and execute what has changed"
	@echo "make answers  try the answers to the exercises on ranks that have changed"
	@echo "make bench    compare with the other libraries, side by side"
	@echo "make grade    grade a folder of submissions: SUBMISSIONS=folder"
	@echo "make nbgrader   assignments for nbgrader, in nbgrader/: CHAPTERS=\"02 06\""
	@echo "make gradescope Gradescope's autograder, in gradescope/: CHAPTERS=\"02\""
	@echo "make report   measure this machine and write it as one HTML page"
	@echo "make ledger   all statements of the documents, and what was found of each, as a page"
	@echo "make book     the executed notebooks as a website, in site/"
	@echo "make slides   for teachers: a deck of slides for each part, in slides/"
	@echo "make exam     for teachers: an exam and its answers, in exam/"
	@echo "make handout  the course without answers, as a folder and a zip: CHAPTERS=\"02 06\""
	@echo "make doctor   say what works on this machine, and how to mend what does not"
	@echo "make lock     renew constraints.txt (needs uv)"
	@echo "make clean    remove .venv and caches"

setup:
	@$(SETUP)

lab: setup
	@$(RUN) -m pedagogy_lib lab $(LAB_ARGS)

# More workers than two cores, as many tests wait. A file's tests in one worker: a notebook's cells
# need the same kernel. The limit of a cell ends what hangs; a slow machine takes long for the rest.
PYTEST := -m pytest -n 3 --dist loadfile
NBVAL := --nbval --nbval-current-env --nbval-cell-timeout=600 --nbval-sanitize-with=tests/support/nbval.cfg

# Short parts that `make test` executes, which use much of the bench.
SAMPLE := 00b_what_to_split 01_gradient_accumulation 02c_the_ring 05d_activations 07b_the_pair
RECORDS := $(or $(foreach chapter,$(CHAPTERS),$(wildcard solutions/$(chapter)*_*.ipynb)), \
	$(if $(strip $(CHAPTERS)),,$(wildcard solutions/[0-9]*.ipynb)))

# What some tests need and `make setup` does not bring: see tests/support/needs.py.
NEEDING ?= Chromium,playwright,walls,deepspeed,transformers

# Whether an installation works: one line says so.
smoke: setup
	@$(RUN) tests/support/smoke.py

test: setup
	@$(RUN) -m ruff check --quiet .
	@$(RUN) -m ruff format --check --quiet .
	@$(RUN) $(PYTEST) $(NBVAL) -m "not deep" tests $(SAMPLE:%=solutions/%.ipynb)

# make test-notebooks, or of some chapters or parts: make test-notebooks CHAPTERS="02 06b"
test-notebooks: setup
	@$(if $(RECORDS),,echo "no record in solutions/ is of $(CHAPTERS)"; exit 2)
	@$(RUN) $(PYTEST) $(NBVAL) $(RECORDS) tests/coursekit/test_build.py::test_executed_records_are_current

test-deep: setup
	@$(RUN) $(PYTEST) -m deep tests

test-optional: setup
	@$(SETUP) browser
	@$(SETUP) classroom
	@$(SETUP) deepspeed
	@$(SETUP) transformers
	@$(RUN) $(PYTEST) -m "not deep" --needing "$(NEEDING)" tests

test-kernels: setup
	@$(RUN) tests/support/kernels.py .venv/bin/python $(PYTEST) $(NBVAL) tests $(wildcard solutions/[0-9]*.ipynb)

test-all: setup
	@echo "Hours on two cores: first the tests of make test, then the notebooks, deep, kernels."
	@echo "Each is a stage of its own: make test-notebooks, test-deep, test-optional, test-kernels."
	@$(SETUP) browser
	@$(SETUP) deepspeed
	@$(SETUP) torchft
	@$(SETUP) transformers
	@$(SETUP) clusters
	@$(SETUP) workflows
	@$(SETUP) nbgrader
	@$(SETUP) book
	@$(MAKE) --no-print-directory test test-notebooks test-deep test-kernels

# Try the answers to exercises on ranks that changed, or whose check or lab did, and note them.
answers: setup
	@$(RUN) tests/support/trials.py

build: setup
	@$(RUN) -m pedagogy_lib build
	@$(RUN) -m classroom.teaching plans >/dev/null

bench:
	@$(SETUP) bench
	@$(SETUP) deepspeed
	@$(RUN) benchmarks/run.py $(BENCH_ARGS)

# make grade SUBMISSIONS=folder GRADE_ARGS='--chapters "02"'
grade: setup
	@$(RUN) -m classroom.grading "$(SUBMISSIONS)" $(GRADE_ARGS)

nbgrader:
	@$(SETUP) nbgrader
	@$(RUN) -m classroom.lms nbgrader --chapters "$(CHAPTERS)" $(NBGRADER_ARGS)

gradescope: setup
	@$(RUN) -m classroom.lms gradescope --chapters "$(CHAPTERS)" $(GRADESCOPE_ARGS)

report: setup
	@$(RUN) -m pedagogy_lib report $(REPORT_ARGS)

ledger: setup
	@$(RUN) -m pedagogy_lib ledger

# The website: it needs no kernel, no server and no network.
book:
	@$(SETUP) book
	@$(RUN) -m book $(BOOK_ARGS)

slides: setup
	@$(RUN) -m classroom.teaching slides $(SLIDES_ARGS)

exam: setup
	@$(RUN) -m classroom.teaching exam $(EXAM_ARGS)
# For students, without answers: make handout, or make handout CHAPTERS="02 06"
handout: setup
	@$(RUN) -m classroom.handout $(CHAPTERS)

doctor: setup
	@$(RUN) -m pedagogy_lib doctor

# Without torch: tools/setup.py chooses its build, and pip the CUDA libraries of that build.
lock:
	echo "# What tools/setup.py installs, beside torch. Renewed by make lock." >constraints.txt
	uv pip compile --universal --python-version 3.10 --no-annotate --no-header --quiet \
		--extra course --extra test pyproject.toml | grep -Ev '^(torch|triton|nvidia|cuda)' >>constraints.txt

clean:
	@if [ ! -e .venv ] || [ -e .venv/chosen-python ]; then rm -rf .venv/* .venv; \
	else echo ".venv was not made by this set-up, so it stays"; fi
	rm -rf *.egg-info .pytest_cache .ruff_cache
	find . -name __pycache__ -prune -exec rm -rf {} +
