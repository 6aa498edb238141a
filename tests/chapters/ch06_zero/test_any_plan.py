"""Every plan trains the same model as one process."""

from functools import partial

import pytest
from selection import parametrize

from coursekit.building import build
from pedagogy_lib import RankError, lab, launch

EXACT = 1e-12
FULL = {"recompute": "full"}
PLANS = [
    {"dp": 2}, {"tp": 2}, {"cp": 2}, {"pp": 2},
    {"dp": 2, "zero": 1, "micro_batch": 2}, {"dp": 2, "zero": 2, "micro_batch": 2},
    {"dp": 2, "zero": 3, "micro_batch": 2}, {"cp": 2, "zero": 3, "micro_batch": 4},
    {"dp": 2, "pp": 2, "zero": 1}, {"dp": 2, "tp": 2, "zero": 3} | FULL,
    {"cp": 2, "tp": 2, "zero": 2} | FULL, {"pp": 2, "cp": 2, "zero": 1} | FULL,
    {"pp": 2, "tp": 2, "cp": 2, "zero": 1}, {"dp": 2, "pp": 2, "tp": 2, "zero": 1} | FULL,
    {"dp": 2, "cp": 2, "tp": 2, "zero": 3}, {"dp": 2, "pp": 4},
]  # fmt: skip


@pytest.fixture(autouse=True)
def enter_solutions(monkeypatch):
    monkeypatch.chdir(build.ROOT / "solutions")


def words(plan) -> str:
    return ", ".join(f"{name} {value}" for name, value in plan.items())


RICHEST_FIRST = sorted(PLANS, key=lambda plan: ("cp" in plan, len(plan)), reverse=True)


@parametrize("plan", RICHEST_FIRST, quick=1, ids=words)
def test_a_plan_trains_as_one_process(plan):
    plan = lab("cost_model").Plan(**plan)
    text = lab("language_model").standard_library(20_000)
    run = launch(
        lab("any_plan").compare_with_one_process, plan, text, world_size=plan.ranks, device="cpu"
    )
    assert max(run.values) < EXACT


@parametrize("is_tied", [True, False], quick=1)
@parametrize("plan", [{"tp": 2}, {"dp": 2, "zero": 3}, {"pp": 2}], quick=2, ids=words)
def test_a_plan_with_another_vocabulary(plan, is_tied):
    plan = lab("cost_model").Plan(**plan)
    make_model = partial(lab("what_fits").small_model, 301, is_tied)
    text = lab("language_model").standard_library(20_000)
    beside = partial(lab("any_plan").compare_with_one_process, make_model=make_model)
    run = launch(beside, plan, text, world_size=2, device="cpu")
    assert max(run.values) < EXACT


def test_zero_2_in_a_pipeline_is_refused():
    plan = lab("cost_model").Plan(pp=2, zero=2)
    with pytest.raises(RankError, match="with a pipeline take ZeRO 1"):
        launch(lab("any_plan").compare_with_one_process, plan, "text", world_size=2, device="cpu")
