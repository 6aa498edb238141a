"""The capstone: recipes equal one process, a budget is kept or not, and a bad day is survived."""

import contextlib
import os
from datetime import timedelta

import pytest
import torch
import torch.distributed as dist
from coursekit.content.ch11_capstone.exercises.my_recipe.truth import too_slow
from helpers import launch_on_cpu, need_close
from machines_here import needs_machines
from selection import parametrize

from coursekit.labs import find_lab
from pedagogy_lib import LaunchError, Machines

CAPSTONE = find_lab("capstone")
JUDGED, STATE, CHAOS = map(find_lab, ("capstone_scores", "capstone_state", "capstone_chaos"))
SMALL = CAPSTONE.Setting(4, 32, 4, 16, 8, 1e13, 1e9)
TEXT = CAPSTONE.standard_library(20_000)
Recipe = CAPSTONE.Recipe
KINDS = {
    "copies": Recipe(dp=4),
    "ZeRO 3": Recipe(dp=4, zero=3),
    "stages": Recipe(pp=4),
    "cut": Recipe(tp=4, micro_batch=4),
    "context": Recipe(cp=2, dp=2, zero=1, recompute="full"),
    "three axes": Recipe(pp=2, tp=2, micro_batch=2),
    "stages and ZeRO": Recipe(pp=2, dp=2, zero=1, recompute="full"),
}
PAIRS = [("three axes", "stages and ZeRO"), ("copies", "ZeRO 3"), ("ZeRO 3", "three axes"),
         ("stages and ZeRO", "cut"), ("cut", "context"), ("context", "copies")]  # fmt: skip


def batches(setting=SMALL, count=6):
    return [CAPSTONE.draw_batch(TEXT, setting.samples, k, setting.context) for k in range(count)]


def losses_of(lab, recipes, setting, parts):
    """Of each recipe, some steps."""
    found = {}
    for name, recipe in recipes.items():
        engine = lab.Engine(lab.whole_model(setting), recipe)
        found[name] = [engine.step(*batch) for batch in parts]
        lab.forget(engine)
    return found


def test_every_recipe_has_the_losses_of_one_process():
    run = launch_on_cpu(losses_of, CAPSTONE, KINDS, SMALL, batches(count=2), world_size=4,
                        timeout=60)  # fmt: skip
    alone = CAPSTONE.losses_alone(SMALL, batches(count=2))
    for of_rank in run.values:
        for name, losses in of_rank.items():
            assert losses == pytest.approx(alone, abs=1e-5), name


@pytest.mark.deep
def test_in_half_losses_are_those_of_one_process_but_for_rounding():
    recipes = {name: Recipe(**vars(of) | {"half": True}) for name, of in KINDS.items()}
    run = launch_on_cpu(losses_of, CAPSTONE, recipes, SMALL, batches(count=3), world_size=4,
                        timeout=60)  # fmt: skip
    alone = CAPSTONE.losses_alone(SMALL, batches(count=3))
    for name, losses in run.values[0].items():
        assert losses == pytest.approx(alone, abs=0.05), name
        assert losses != pytest.approx(alone, abs=1e-6), name  # it is another precision


# ---- Checkpoints ---


def resume(lab, first, second, folder):
    torch.set_default_dtype(torch.float64)
    return lab.train_and_resume(first, second, SMALL, TEXT, folder)


@pytest.mark.deep
@parametrize("first, second", PAIRS, quick=1)
def test_a_recipe_reads_what_another_one_has_saved(tmp_path, first, second):
    run = launch_on_cpu(resume, STATE, KINDS[first], KINDS[second], tmp_path, world_size=4,
                        timeout=60)  # fmt: skip
    torch.set_default_dtype(torch.float64)
    try:
        alone = CAPSTONE.losses_alone(SMALL, batches())
    finally:
        torch.set_default_dtype(torch.float32)
    need_close(map(torch.tensor, run.values), torch.tensor(alone))


def addresses(lab, recipes):
    return {name: torch.cat(lab.addresses_of(SMALL, recipe)) for name, recipe in recipes.items()}


def test_every_number_is_on_some_rank():
    found = launch_on_cpu(addresses, STATE, KINDS, world_size=4).values
    count = sum(p.numel() for p in CAPSTONE.whole_model(SMALL).parameters())
    for name in KINDS:
        numbers = torch.cat([of_rank[name] for of_rank in found])
        assert set(numbers.tolist()) - {0} == set(range(1, count + 1)), name


def test_addresses_have_to_be_exact():
    with pytest.raises(ValueError, match="bfloat16 has no whole numbers up to"):
        STATE.fill_with_addresses(CAPSTONE.whole_model(SMALL).bfloat16())


@pytest.mark.deep
def test_a_recipe_in_bfloat16_resumes_as_if_it_had_not_stopped(tmp_path):
    recipe = Recipe(**vars(KINDS["stages and ZeRO"]) | {"half": True})
    resumed = launch_on_cpu(STATE.train_and_resume, recipe, recipe, SMALL, TEXT, tmp_path,
                            world_size=4, timeout=60)  # fmt: skip
    straight = launch_on_cpu(losses_of, CAPSTONE, {"": recipe}, SMALL, batches(), world_size=4,
                             timeout=60)  # fmt: skip
    assert resumed.values[0] == pytest.approx(straight.values[0][""], rel=1e-12)


def save_on_a_bad_disk(lab, chaos, folder):
    recipe = Recipe(dp=2)
    campaign = chaos.Campaign({2: recipe}, SMALL, TEXT, folder / "file" / "checkpoints", folder)
    campaign.build(recipe)
    campaign.engine.step(*batches(count=1)[0])
    try:
        campaign.save()
    except OSError as error:
        return str(error)


def test_a_checkpoint_that_was_not_written_ends_training_and_is_not_noted_as_saved(tmp_path):
    (tmp_path / "file").write_text("where a folder should be")
    run = launch_on_cpu(save_on_a_bad_disk, STATE, CHAOS, tmp_path, world_size=2)
    for error in run.values:
        assert error == "the checkpoint of step 0 was not written: rank 0: Not a directory"
    assert not list(tmp_path.glob("noted-*"))


def test_numbers_without_files():
    nothing, zero = torch.zeros(0, dtype=torch.int64), torch.tensor([0])
    assert STATE.find_numbers([], zero).tolist() == [0]
    assert STATE.find_numbers([(nothing, torch.zeros(0))], nothing).tolist() == []
    with pytest.raises(ValueError, match="no file has the number at address 3"):
        STATE.find_numbers([], torch.tensor([3]))


# ---- The budget ---


def test_what_leaves_a_machine():
    traffic = [[0, 1, 2, 4], [8, 0, 16, 32], [64, 128, 0, 256], [512, 1024, 2048, 0]]
    assert JUDGED.max_outgoing_bytes(traffic) == 64 + 128 + 512 + 1024
    assert JUDGED.max_outgoing_bytes(traffic, machines=1) == 0
    assert JUDGED.max_outgoing_bytes(traffic, machines=4) == 512 + 1024 + 2048


@pytest.mark.parametrize(
    ("seconds", "memory", "card", "broken"),
    [(1.0, 4e6, 5e5, []), (2.0, 4e6, 5e5, ["speed"]), (1.0, 5e6, 7e5, ["memory", "card"])],
)
def test_limits_that_are_not_kept(seconds, memory, card, broken):
    plain = JUDGED.Result(2.0, 20e6, 6e6, {}, [])
    mine = JUDGED.Result(seconds, memory, card, {}, [])
    assert list(JUDGED.excess(mine, plain)) == broken


def race_on_ranks(lab, entrants, parts, setting, on_machines):
    return lab.race(entrants, setting, parts, on_machines)


@needs_machines
@pytest.mark.deep
def test_plain_copies_break_the_budget_and_stages_keep_it():
    """Memory and bytes: exact, whatever the machine is busy with."""
    setting = CAPSTONE.SETTING
    quick = CAPSTONE.Setting(**vars(setting) | {"flops": 1e13, "card": 1e9})
    entrants = {
        "plain": CAPSTONE.PLAIN,
        "copies, all saved": Recipe(dp=8, zero=1, half=True, recompute="full"),
        "stages": Recipe(pp=2, dp=4, zero=1, half=True),
    }
    run = launch_on_cpu(
        race_on_ranks, CAPSTONE, entrants, batches(setting, 2), quick, True, world_size=8,
        machines=Machines(2, bytes_per_second=1e9), timeout=100,
    )  # fmt: skip
    found = JUDGED.results_of(run, quick)
    plain = found["plain"]
    count = sum(p.numel() for p in CAPSTONE.whole_model(setting).parameters())
    assert plain.card_bytes == pytest.approx(2 * 7 / 8 * 4 * count, rel=0.01)
    numbers = setting.samples * setting.context * setting.width
    assert found["stages"].card_bytes == pytest.approx(2 * numbers, rel=0.05)
    for name in ("plain", "copies, all saved"):
        assert "card" in JUDGED.excess(found[name], plain)
    assert not {"card", "memory"} & set(JUDGED.excess(found["stages"], plain))
    for name, recipe in entrants.items():
        _, told = JUDGED.predict_recipe(setting, recipe)
        assert told == pytest.approx(found[name].memory_bytes, rel=0.1), name


@pytest.mark.deep
def test_without_machines_messages_are_slow():
    slow = CAPSTONE.Setting(**vars(SMALL) | {"card": 2e5})
    run = launch_on_cpu(race_on_ranks, CAPSTONE, {"plain": Recipe(dp=4)}, batches(count=3), slow,
                        False, world_size=4, timeout=60)  # fmt: skip
    times, losses = run.values[0]["plain"]
    count = sum(p.numel() for p in CAPSTONE.whole_model(SMALL).parameters())
    assert min(times) > 2 * 3 / 4 * 4 * count / slow.card  # a ring over its slowest link
    assert losses == pytest.approx(CAPSTONE.losses_alone(SMALL, batches(count=3)), abs=1e-5)


@pytest.mark.parametrize(
    ("recipe", "words"),
    [
        (Recipe(pp=4, dp=2, micro_batch=8), "so few micro-batches"),
        (Recipe(pp=2, cp=4), "wait for each other many times"),
        (Recipe(pp=2, dp=4, recompute="full"), "a second time in the backward"),
        (Recipe(dp=8), "what do ranks wait for"),
    ],
)
def test_why_a_recipe_may_be_too_slow(recipe, words):
    assert words in too_slow(recipe)


def test_all_recipes_come_in_the_order_of_their_seconds():
    found = JUDGED.all_recipes(SMALL)
    seconds = [JUDGED.predict_recipe(SMALL, recipe)[0] for recipe in found]
    assert seconds == sorted(seconds)
    assert {recipe.ranks for recipe in found} == {4}
    assert {recipe.half for recipe in found} == {False, True}
    assert not any(JUDGED.why_not(SMALL, recipe) for recipe in found)


def test_why_a_recipe_cannot_be_run_is_told_in_one_sentence():
    assert JUDGED.why_not(SMALL, Recipe(pp=8)) == "it makes 8 ranks, and there are 4"
    assert "does not divide the batch" in JUDGED.why_not(SMALL, Recipe(dp=2, tp=2, micro_batch=8))
    odd = {"dp": 4.0}, {"dp": 4, "half": "yes"}, {"dp": 2, "tp": 2, "sequence": True}, {"dp": True}
    for settings in odd:
        assert JUDGED.why_not(SMALL, Recipe(**settings)) == JUDGED.VALUES


def test_recipes_in_words():
    recipe = Recipe(pp=2, dp=4, zero=1, half=True)
    assert CAPSTONE.describe_recipe(recipe) == "dp 4 pp 2, ZeRO 1, micro-batch 1, bfloat16"


def test_what_it_writes_is_drawn_from_a_seed():
    model = CAPSTONE.whole_model(SMALL)
    texts = [CAPSTONE.write(model, "def ", 40, seed=seed) for seed in (0, 0, 1)]
    assert texts[0] == texts[1] != texts[2]
    assert len(texts[0]) == 44
    assert CAPSTONE.entropy_of_letters(torch.tensor([1, 2, 1, 2])) == pytest.approx(
        0.6931, abs=1e-4
    )


# ---- The bad day ---


def live(lab, *args):
    with contextlib.suppress(KeyError):
        scope = lab.carry_on.__globals__
        scope |= {"PATIENCE": 2.0, "TIMEOUT": 3.0, "CABLE_SECONDS": 0.5}
    return lab.live_through(lab.carry_on, *args)


def survive(tmp_path, plan, recipes, steps, machines=None):
    """{step: (loss, ranks)}, and what has happened."""
    (tmp_path / "day").mkdir()
    run = launch_on_cpu(
        live, CHAOS, plan, recipes, SMALL, TEXT, tmp_path / "checkpoints", tmp_path / "day", steps,
        machines is not None, world_size=4, machines=machines, replacements=12, timeout=110,
    )  # fmt: skip
    assert run.values == [steps] * 4
    events, _, counts = CHAOS.read_events(tmp_path / "day")
    alone = CAPSTONE.losses_alone(SMALL, batches(count=steps))
    assert list(counts) == list(range(1, steps + 1))
    for step, (loss, _) in counts.items():
        assert loss == pytest.approx(alone[step - 1], abs=1e-5), step
    assert [what for what, *_ in events] == [event.what for event in plan]
    return counts


RECIPES = {4: Recipe(pp=2, dp=2, zero=1), 2: Recipe(dp=2, zero=3)}
Event = CHAOS.Event


@pytest.mark.deep
def test_it_comes_through_a_kill_and_a_hang(tmp_path):
    survive(tmp_path, [Event("kill", 6, 1), Event("hang", 12, 2)], RECIPES, 15)


@needs_machines
@pytest.mark.deep
def test_it_comes_through_a_bad_day_on_machines(tmp_path):
    plan = [Event("cable out", 3), Event("power out", 7), Event("power back", 11)]
    counts = survive(tmp_path, plan, RECIPES, 18, Machines(2))
    assert {ranks for _, ranks in counts.values()} == {2, 4}
    assert counts[18][1] == 4


@pytest.mark.deep
def test_it_comes_through_a_bad_day_without_machines(tmp_path):
    plan = [Event("cable out", 3), Event("power out", 7), Event("power back", 11)]
    counts = survive(tmp_path, plan, RECIPES, 18)
    assert counts[10][1] == 2
    assert counts[18][1] == 4


def wait_for_who_sleeps(lab, seconds):
    """Rank 1 stands still; in the group, rank 0 waits for it."""
    with lab.groups_that_time_out(seconds) if seconds else contextlib.nullcontext():
        group = dist.new_group([0, 1])
    if os.environ["RANK"] == "1":
        dist.barrier()
        return ""
    try:
        group.recv([torch.ones(1)], 1, 0).wait()
    except RuntimeError as error:
        dist.barrier()
        return str(error)


@pytest.mark.deep
def test_groups_time_out():
    run = launch_on_cpu(wait_for_who_sleeps, CHAOS, 0.5, world_size=2)
    assert "Timed out" in run.values[0] or "timeout" in run.values[0].lower()
    with pytest.raises(LaunchError):
        launch_on_cpu(wait_for_who_sleeps, CHAOS, None, world_size=2, timeout=3)


def test_the_world_s_timeout_is_not_that_of_its_groups():
    """The pitfall that the part tells of."""

    def timeout_of_group():
        dist.destroy_process_group()
        store = dist.HashStore()
        dist.init_process_group("gloo", store=store, rank=0, world_size=1,
                                timeout=timedelta(seconds=7))  # fmt: skip
        of = [dist.group.WORLD, dist.new_group([0])]
        cpu = torch.device("cpu")
        return [group._get_backend(cpu).options._timeout.total_seconds() for group in of]

    assert launch_on_cpu(timeout_of_group, world_size=1).values[0] == [7.0, 1800.0]
