"""The small Alpa: both levels beside trying all there is, and its plans on ranks."""

import time
from functools import partial
from itertools import combinations_with_replacement, pairwise

import numpy as np
import pytest
import torch
from helpers import load_solved_lab
from selection import parametrize

from coursekit.building import build
from coursekit.labs import find_lab
from pedagogy_lib import RankError, lab, launch

EXACT = 1e-12
HIDDENS = [16, 32, 64, 16]
SAMPLES = ("samples", "samples", "samples")
MATRICES = ("columns", "rows", "samples")
KEPT_WHOLE = ("columns", "rows", "whole")
TO_FEATURES = ("samples", "columns", "features")
FROM_FEATURES = ("rows", "samples", "samples")
REPLICATED = ("replicated", "rows", "features")
PLANS = {  # (first, end, devices, shardings)
    "matrices and samples on 4": [(0, 4, 4, (MATRICES, SAMPLES, SAMPLES, MATRICES))],
    "all layouts on 4": [(0, 4, 4, (KEPT_WHOLE, TO_FEATURES, REPLICATED, FROM_FEATURES))],
    "1, 2, 1": [(0, 1, 1, (SAMPLES,)), (1, 3, 2, (KEPT_WHOLE, SAMPLES)), (3, 4, 1, (SAMPLES,))],
    "2, 2": [(0, 3, 2, (REPLICATED, FROM_FEATURES, MATRICES)), (3, 4, 2, (SAMPLES,))],
    "1, 1, 1, 1": [(k, k + 1, 1, (SAMPLES,)) for k in range(4)],
    "2, 1, 1": [(0, 1, 2, (MATRICES,)), (1, 2, 1, (SAMPLES,)), (2, 4, 1, (SAMPLES, SAMPLES))],
    "1, 1, 2": [(0, 2, 1, (SAMPLES, SAMPLES)), (2, 3, 1, (SAMPLES,)), (3, 4, 2, (MATRICES,))],
}


@pytest.fixture(autouse=True)
def enter_solutions(monkeypatch):
    monkeypatch.chdir(build.ROOT / "solutions")


@pytest.fixture(scope="module")
def shardings_lab():
    return find_lab("operator_shardings")


@pytest.fixture(scope="module")
def alpa():
    return find_lab("small_alpa")


@pytest.fixture(scope="module")
def space():
    return find_lab("plan_space")


def cluster_of(shardings_lab, machines=2, per_machine=2, memory=float("inf")):
    inside, across = shardings_lab.Link(2e-4, 2e8), shardings_lab.Link(1e-3, 2e7)
    return shardings_lab.Cluster(machines, per_machine, 1e9, inside, across, memory)


def random_job(shardings_lab, chance, cluster):
    return shardings_lab.Job(
        cluster, int(2 ** chance.integers(4, 9)), int(chance.choice([1, 2, 8]))
    )


# ---- The lower level ------------------------------------------------------------------------


@pytest.mark.parametrize("n", [2, 4])
def test_the_integer_program_finds_the_cheapest_shardings(n, shardings_lab, space):
    chance, cluster = np.random.default_rng(n), cluster_of(shardings_lab)
    kinds = set()
    for _ in range(15):
        layers = space.random_layers(2, chance)
        job = random_job(shardings_lab, chance, cluster)
        seconds, _, names = shardings_lab.solve(layers, n, job)
        assert seconds == pytest.approx(space.cheapest_by_trying(layers, n, job), rel=1e-9)
        kinds |= set(names)
    assert {"samples", "columns", "rows"} <= kinds


def test_a_transformer_block_is_two_residual_parts(shardings_lab):
    shape = find_lab("model_shapes").model_named("llama-3-8b")
    block, *_, scores = shardings_lab.transformer_layers(shape)
    weights = sum(p.inputs * p.outputs for part in block.parts for p in part)
    assert weights == shape.layer_parameters
    assert scores.outputs == shape.vocabulary
    job = shardings_lab.Job(cluster_of(shardings_lab), 64, 4)
    operators, edges = shardings_lab.graph_of((block,), 4, job, "samples", "samples")
    assert len(operators) == 7
    assert {(0, 3), (3, 6)} <= set(edges), "what is added to what came in"


def test_layers_joined_are_the_program_of_all_of_them(shardings_lab, alpa, space):
    """A stage's table through layouts equals one integer program of the whole stage."""
    chance, cluster = np.random.default_rng(3), cluster_of(shardings_lab)
    for _ in range(5):
        layers = space.random_layers(3, chance)
        job = random_job(shardings_lab, chance, cluster)
        seconds, nbytes = alpa.stage_tables(layers, 4, job)
        for first, end in combinations_with_replacement(range(4), 2):
            if first < end:
                whole = shardings_lab.solve(layers[first:end], 4, job)[0]
                assert seconds[first, end] == pytest.approx(whole, rel=1e-9)
                stage = alpa.stage_of(layers, job, first, end, 4)
                assert stage.seconds == pytest.approx(whole, rel=1e-9)
                assert stage.nbytes == pytest.approx(nbytes[first, end])


# ---- The upper level ------------------------------------------------------------------------


def test_the_search_finds_the_shortest_step_of_all(shardings_lab, alpa, space):
    chance, cluster = np.random.default_rng(5), cluster_of(shardings_lab)
    for _ in range(8):
        layers = space.random_layers(3, chance)
        job = random_job(shardings_lab, chance, cluster)
        found = alpa.plan_seconds(alpa.search(layers, job), job)
        assert found == pytest.approx(space.search_exhaustively(layers, job)[0], rel=1e-9)


@pytest.mark.parametrize("gap", [0.0, 0.05])
def test_stages_of_random_seconds(gap, alpa, space, shardings_lab):
    """Beside all cuts and tilings; a gap costs its share at most."""
    chance, cluster = np.random.default_rng(7), cluster_of(shardings_lab, 2, 4)
    for _ in range(25):
        seconds = chance.uniform(1, 30, (len(cluster.sizes), 5, 6))
        seconds[chance.uniform(size=seconds.shape) < 0.1] = np.inf
        microbatches = int(chance.choice([1, 4, 16]))

        finite = np.nan_to_num(seconds, posinf=1e9)  # a sum with them is never the least

        def step(stages, seconds=finite, microbatches=microbatches):
            times = [seconds[cluster.sizes.index(n), first, end] for first, end, n in stages]
            return alpa.step_seconds(times, microbatches)

        best = min(map(step, space.all_stages(5, cluster)))
        stages = alpa.slice_layers(seconds, cluster.sizes, cluster.devices, microbatches, gap)
        assert best <= step(stages) <= best * (1 + gap) + 1e-9
        assert sum(n for *_, n in stages) == cluster.devices
        assert [0, *(end for _, end, _ in stages)][:-1] == [first for first, *_ in stages]


def test_a_layer_that_is_there_four_times_is_as_cheap_as_four_equal_layers(shardings_lab, space):
    job = shardings_lab.Job(cluster_of(shardings_lab, 1, 4), 128, 6)
    once, equal = shardings_lab.mlp(64, 2048), [shardings_lab.mlp(64, 2048) for _ in range(4)]
    assert shardings_lab.solve([once] * 4, 4, job)[0] == shardings_lab.solve(equal, 4, job)[0]
    assert space.cheapest_by_trying([once] * 2, 4, job) == space.cheapest_by_trying(
        equal[:2], 4, job
    )


def test_48_layers_on_64_devices_take_seconds(shardings_lab, alpa):
    """The promise is 5 s; here a machine may be busy. It takes about one."""
    inside, across = shardings_lab.Link(5e-6, 200e9), shardings_lab.Link(2e-5, 25e9)
    job = shardings_lab.Job(shardings_lab.Cluster(8, 8, 4e14, inside, across, 8e10), 8192, 64, 2)
    began = time.process_time()
    plan = alpa.search([shardings_lab.mlp(4096, 16384)] * 48, job)
    assert time.process_time() - began < 30
    assert sum(stage.devices for stage in plan) == 64
    assert {stage.end - stage.first for stage in plan} == {6}


def test_less_memory_forces_sharding(shardings_lab, alpa):
    """Without room for whole matrices they are cut; without any room there is one sentence."""
    layers = [shardings_lab.mlp(64, 512)] * 4
    states = 4 * 2 * 64 * 512 * 16
    roomy = shardings_lab.Job(cluster_of(shardings_lab), 512, 4)
    free = alpa.search(layers, roomy)
    assert max(stage.nbytes for stage in free) > states / 4
    tight = shardings_lab.Job(cluster_of(shardings_lab, memory=states / 4), 512, 4)
    plan = alpa.search(layers, tight)
    assert max(stage.nbytes for stage in plan) <= states / 4
    assert alpa.plan_seconds(plan, tight) > alpa.plan_seconds(free, roomy)
    none = shardings_lab.Job(cluster_of(shardings_lab, memory=states / 8), 512, 4)
    with pytest.raises(ValueError, match="no plan fits: take more devices"):
        alpa.search(layers, none)


def test_machines_have_a_power_of_two_of_devices(shardings_lab):
    with pytest.raises(ValueError, match="a machine has 1, 2, 4, 8"):
        cluster_of(shardings_lab, 2, 3)


# ---- The space of plans ---------------------------------------------------------------------


def test_counted_tilings_are_those_that_are_made(space):
    sizes = [1, 2, 4, 8]
    counts = space.count_tilings(8, sizes, 6)
    assert counts == [len(list(space.tilings_of(8, sizes, stages))) for stages in range(7)]


def test_places_fill_machines(shardings_lab, space):
    """A submesh lies in one machine, or has all devices of some: whatever the order."""
    cluster = cluster_of(shardings_lab, 2, 4)
    for stages in range(1, 9):
        for sizes in space.tilings_of(8, cluster.sizes, stages):
            places = space.places_of(sizes, cluster)
            assert sorted(rank for ranks in places for rank in ranks) == list(range(8))
            for ranks in places:
                machines = {rank // 4 for rank in ranks}
                assert len(machines) == max(1, len(ranks) // 4)


def test_pieces_cover_each_row_once(space):
    for senders, receivers in ((1, 4), (2, 4), (4, 2), (4, 4), (8, 1)):
        pieces = space.pieces(16, senders, receivers)
        rows = sorted((first, last) for _, _, first, last in pieces)
        assert [a for a, _ in rows] == [0, *(b for _, b in rows[:-1])]
        assert rows[-1][1] == 16


def test_sends_across_machines_cost_more(shardings_lab, alpa, space):
    layers = [shardings_lab.mlp(64, 64)] * 3
    job = shardings_lab.Job(cluster_of(shardings_lab), 64, 4)
    plan = [alpa.Stage(0, 1, 2), alpa.Stage(1, 2, 1), alpa.Stage(2, 3, 1)]
    inside = 2 * (2e-4 + 64 * 64 * 4 / 2e8)  # devices 2 and 3
    across = 2 * (1e-3 + 64 * 64 * 4 / 2e7)  # devices 0 and 1 to device 2
    assert space.send_seconds(layers, plan, job) == pytest.approx(inside + across)


def test_freedom_wins_nothing_where_all_is_equal(shardings_lab, alpa, space):
    job = shardings_lab.Job(cluster_of(shardings_lab, 2, 4), 64, 8)
    layers = [shardings_lab.mlp(256, 1024)] * 8
    _, uniform = space.best_uniform(layers, job)
    free = alpa.search(layers, job)
    assert alpa.plan_seconds(free, job) == pytest.approx(alpa.plan_seconds(uniform, job))
    uneven = [shardings_lab.mlp(256, 64 * 4**k) for k in (0, 0, 0, 0, 3)]
    _, uniform = space.best_uniform(uneven, job)
    free = alpa.search(uneven, job)
    assert alpa.plan_seconds(free, job) < 0.95 * alpa.plan_seconds(uniform, job)


@pytest.mark.deep
def test_free_cuts_are_the_best_of_equal_submeshes(shardings_lab, alpa, space):
    """Beside all plans whose stages have as many devices; and between both other searches."""
    chance, cluster = np.random.default_rng(11), cluster_of(shardings_lab, 2, 4)
    for _ in range(4):
        layers = space.random_layers(5, chance)
        job = random_job(shardings_lab, chance, cluster)
        found = alpa.plan_seconds(space.best_free_cuts(layers, job), job)
        ranked = space.best_plans(layers, job)
        alike = [seconds for seconds, plan in ranked if len({s.devices for s in plan}) == 1]
        assert found == pytest.approx(min(alike), rel=1e-9)
        uniform = alpa.plan_seconds(space.best_uniform(layers, job)[1], job)
        assert ranked[0][0] <= found * (1 + 1e-9) <= uniform * (1 + 2e-9)
    none = shardings_lab.Job(cluster_of(shardings_lab, memory=1.0), 64, 4)
    assert space.best_free_cuts(layers, none) is None


# ---- On ranks -------------------------------------------------------------------------------


QUICK = ("all layouts on 4",)  # the others in `make test-deep`


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.deep] * (name not in QUICK)) for name in PLANS],
)
def test_a_plan_trains_as_one_process(name, shardings_lab, alpa):
    plan = [alpa.Stage(*of) for of in PLANS[name]]
    assert [0, *(stage.end for stage in plan)][:-1] == [stage.first for stage in plan]
    gaps = launch(
        lab("uneven_runs").compare_with_one_process,
        plan,
        HIDDENS,
        cluster_of(shardings_lab),
        world_size=4,
        device="cpu",
    ).values
    assert max(gaps) < EXACT


@pytest.mark.deep
def test_plans_of_the_search_train_as_one_process(shardings_lab, alpa, space):
    cluster = cluster_of(shardings_lab)
    job = shardings_lab.Job(cluster, 16, 3)
    ranked = space.best_plans([shardings_lab.mlp(64, hidden) for hidden in HIDDENS], job)
    for _, plan in space.best_of_tilings(ranked)[:3]:
        gaps = launch(lab("uneven_runs").compare_with_one_process, plan, HIDDENS, cluster, 16, 3,
                      world_size=4, device="cpu").values  # fmt: skip
        assert max(gaps) < EXACT


@pytest.mark.parametrize(
    ("devices", "rows", "sentence"),
    [((2, 2), 15, "15 rows or columns do not go up in 2 ranks"),
     ((1, 1), 16, r"the plan is for 1 \+ 1 ranks, and there are 4")],
)  # fmt: skip
def test_what_cannot_run_gets_one_sentence(devices, rows, sentence, shardings_lab, alpa):
    ends = (0, 2, 4)
    plan = [alpa.Stage(a, b, n, (SAMPLES,) * 2) for (a, b), n in zip(pairwise(ends), devices)]
    with pytest.raises(RankError, match=sentence):
        launch(
            lab("uneven_runs").compare_with_one_process,
            plan,
            HIDDENS,
            cluster_of(shardings_lab),
            rows,
            world_size=4,
            device="cpu",
        )


def step_with_a_batch(uneven, plan, cluster, samples, target):
    model, sgd = uneven.whole_model(HIDDENS), partial(torch.optim.SGD, lr=0.1)
    engine = uneven.UnevenStages(model, plan, cluster, 16, 3, sgd)
    inputs, targets = uneven.draw_digits(samples)
    targets[0] = target
    engine.step(inputs, targets)


@parametrize(
    "samples, target, sentence",
    [(64, 0, "64 samples, not 16 × 3"), (48, -100, "some targets are -100")],
    quick=1,
)
def test_a_batch_that_would_be_weighed_wrongly_is_refused(
    samples, target, sentence, shardings_lab, alpa
):
    plan = [alpa.Stage(a, b, 2, (SAMPLES,) * 2) for a, b in ((0, 2), (2, 4))]
    with pytest.raises(RankError, match=sentence):
        launch(step_with_a_batch, lab("uneven_stages"), plan, cluster_of(shardings_lab), samples,
               target, world_size=4, device="cpu")  # fmt: skip


def step_under_autocast(uneven, rows, dtype=None) -> list[float]:
    """Run 4 rows in stages of one and of two ranks, equal linear layers; return the loss, twice."""
    torch.manual_seed(0)
    layer, places = torch.nn.Linear(4, 4), [[0], [1, 2]]
    pipeline = uneven.UnevenPipeline(
        uneven.Stage(layer), lambda y, _: y.float().sum(), 4, places, rows, dtype=dtype
    )
    x = torch.ones(4, 4)[: len(pipeline.own_rows())]
    actions = list(uneven.one_f_one_b(pipeline.rank, 2, 1))
    with torch.autocast("cpu", torch.bfloat16):
        found = pipeline.step(actions, [x], [x])
        wanted = layer(layer(x)).float().sum().item() * pipeline.rank
    return [found, wanted]


@pytest.mark.deep
def test_uneven_stages_refuse_a_message_of_another_dtype_or_shape():
    work, options = (step_under_autocast, lab("uneven_stages")), {"world_size": 3, "device": "cpu"}
    said = r"F0 has computed torch.bfloat16, \(4, 4\), but messages are torch.float32, \(4, 4\)"
    with pytest.raises(RankError, match=said):
        launch(*work, 4, **options)
    with pytest.raises(RankError, match=r"\(4, 4\), but messages are torch.bfloat16, \(6, 4\)"):
        launch(*work, 6, torch.bfloat16, **options)
    for found, wanted in launch(*work, 4, torch.bfloat16, **options).values:
        assert found == pytest.approx(wanted)


def test_plans_change_places_only_if_most_rounds_say_so():
    rounds = [1.0, 1.2, 0.9]
    times = {name: [factor * seconds for seconds in rounds]
             for name, factor in {"a": 1.0, "b": 1.05, "c": 1.5}.items()}  # fmt: skip
    rows_of_pairs = load_solved_lab("uneven_runs").rows_of_pairs
    every, far = rows_of_pairs({"a": 1.0, "b": 1.05, "c": 0.5}, times)
    assert every[1:] == [3, 0, 2, 1]  # c is predicted to be the fastest, and is the slowest
    assert far[1:] == [2, 0, 2, 0]
    every, far = rows_of_pairs({"a": 1.0, "b": 1.05, "c": 2.0}, times)
    assert every[1:] == [3, 2, 0, 1]
    assert far[1:] == [2, 2, 0, 0]
