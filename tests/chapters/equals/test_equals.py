"""What a lab's docstring says it equals, it equals under odd but legal input, or it says no."""

import re

import accumulation_twins
import collectives_twins
import context_twins
import data_twins
import function_twins
import gradient_twins
import muon_twins
import narrow_twins
import norm_twins
import optimizer_twins
import pytest
import store_twins
import tensor_parallel_twins
import vocabulary_twins
from helpers import ROOT
from selection import parametrize
from twins import EQUAL, Excluded

from pedagogy_lib import launch

FILES = (collectives_twins, context_twins, gradient_twins, accumulation_twins, data_twins,
         function_twins, muon_twins, narrow_twins, norm_twins, optimizer_twins, store_twins,
         tensor_parallel_twins, vocabulary_twins)  # fmt: skip
TWINS = [twin for file in FILES for twin in file.TWINS]
LABS = sorted((ROOT / "chapters").glob("ch*/labs/*.py"))


def check_outcomes(twin, names, n):
    """Fail with every condition of which some rank has another outcome than the table."""
    names = [name for name in names if not isinstance(twin.conditions[name], Excluded)]
    run = launch(twin.outcomes, names, world_size=n, device="cpu", timeout=120.0)
    wrong = []
    for name in names:
        for rank, outcomes in enumerate(run.values):
            wanted, found = twin.conditions[name], outcomes[name]
            if found != wanted if EQUAL in (wanted, found) else wanted not in found:
                wrong.append(f"{name}, rank {rank} of {n}: {found}")  # it may have "equal", too
    assert not wrong, f"{twin} says that it is equal:\n" + "\n".join(wrong)


@parametrize("twin", TWINS, quick=1, ids=str)
def test_under_each_condition(twin):
    check_outcomes(twin, list(twin.conditions), twin.sizes[0])


@pytest.mark.parametrize("twin", TWINS, ids=str)
def test_on_ordinary_input(twin):
    first = [name for name, wanted in twin.conditions.items() if wanted == EQUAL][:1]
    check_outcomes(twin, first, twin.sizes[0])


@pytest.mark.deep
@pytest.mark.parametrize("twin", TWINS, ids=str)
def test_on_other_numbers_of_ranks(twin):
    for n in twin.sizes[1:]:
        check_outcomes(twin, list(twin.conditions), n)


@pytest.mark.parametrize("twin", TWINS, ids=str)
def test_what_is_excluded_is_said_in_the_docstring(twin):
    told = twin.docstring()
    for wanted in twin.conditions.values():
        assert not isinstance(wanted, Excluded) or wanted.words in told


def test_every_function_that_says_equals_has_a_row():
    named = {
        f"{lab.stem}.{name}" for lab in LABS for name in functions_with_equals(lab.read_text())
    }
    assert named == {twin.name for twin in TWINS}


def functions_with_equals(text) -> list[str]:
    """Return the functions and classes whose docstring has a line `Equals  …`."""
    import ast

    return [
        node.name
        for node in ast.parse(text).body
        if isinstance(node, ast.FunctionDef | ast.ClassDef)
        and re.search(r"^ *Equals ", ast.get_docstring(node, clean=False) or "", re.MULTILINE)
    ]
