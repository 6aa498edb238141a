"""The cost model and the planner: formulas, published runs, and what cannot be planned."""

import re
import shlex
import subprocess
import sys
from dataclasses import fields, replace

import numpy as np
import pytest

from coursekit.labs import find_lab
from pedagogy_lib.__main__ import main


@pytest.fixture(scope="module")
def cost():
    return find_lab("cost_model")


@pytest.fixture(scope="module")
def shapes():
    return find_lab("model_shapes")


@pytest.fixture(scope="module")
def planner():
    return find_lab("planner")


@pytest.fixture(scope="module")
def runs_lab():
    return find_lab("published_runs")


# ---- Shapes and formulas --------------------------------------------------------------------

BILLIONS = {  # as their papers state them
    "gpt2-xl": 1.56, "gpt3-175b": 175, "mt-nlg-530b": 530, "bloom-176b": 176.2,
    "llama-1-65b": 65.2, "llama-2-7b": 6.74, "llama-2-13b": 13.02, "llama-2-70b": 68.98,
    "llama-3-8b": 8.03, "llama-3-70b": 70.6, "llama-3-405b": 405.9, "mistral-7b": 7.24,
    "qwen-2.5-72b": 72.7,
}  # fmt: skip


@pytest.mark.parametrize("name", BILLIONS)
def test_shapes_have_as_many_parameters_as_their_papers_say(name, shapes):
    counted = float(shapes.model_named(name).parameters) / 1e9
    assert counted == pytest.approx(BILLIONS[name], rel=0.004)


def test_states_of_the_zero_paper(cost, shapes):
    """Rajbhandari et al. 2020, table 1: 7.5 billion parameters, GB on each of so many GPUs."""
    engine = cost.Engine(parameter_bytes=2, gradient_bytes=2, optimizer_bytes=12)
    job = cost.Job(shapes.model_named("llama-2-7b"), shapes.gpu_named("A100"), 1024, engine)
    stated = {1: (120, 120, 120), 4: (52.5, 41.3, 30), 64: (31.4, 16.6, 1.88)}
    for ranks, of_stages in stated.items():
        for stage, gigabytes in enumerate(of_stages, 1):
            plan = cost.Plan(dp=ranks, zero=stage)
            nbytes = sum(cost.states(job, plan).values()) / cost.rank_parameters(job, plan)
            assert 7.5 * float(nbytes) == pytest.approx(gigabytes, rel=0.005)


def test_activations_of_a_layer(cost, shapes):
    """Korthikanti et al. 2022: s b h (34 + 5 a s / h) bytes; with sequence parallel 1/t of it."""
    job = cost.Job(shapes.model_named("gpt3-175b"), shapes.gpu_named("A100"), 64,
                   cost.Engine(is_fused=False))  # fmt: skip
    s, h, a = 2048, 12288, 96
    whole = s * 4 * h * (34 + 5 * a * s / h)
    plan = cost.Plan(micro_batch=4)
    assert float(cost.layer_activation_bytes(job, plan)) == pytest.approx(whole)
    assert float(cost.layer_activation_bytes(job, replace(plan, tp=8))) == pytest.approx(whole / 8)
    by_tp_alone = s * 4 * h * (10 + 24 / 8 + 5 * a * s / h / 8)
    alone = replace(plan, tp=8, sequence=False)
    assert float(cost.layer_activation_bytes(job, alone)) == pytest.approx(by_tp_alone)
    inputs = replace(plan, recompute="full")
    assert float(cost.layer_activation_bytes(job, inputs)) == pytest.approx(2 * s * 4 * h)


def test_flops_of_a_step(cost, shapes):
    """Narayanan et al. 2021: 96 B s l h² (1 + s / 6h + V / 16 l h) with full recomputation."""
    shape = shapes.gpt(48, 8192, 64, 51200, 2048)
    B, s, layers, h, V = 1536, 2048, 48, 8192, 51200
    stated = 96 * B * s * layers * h**2 * (1 + s / (6 * h) + V / (16 * layers * h))
    assert float(cost.hardware_flops(shape, B * s)) == pytest.approx(stated, rel=1e-9)
    needed = float(cost.model_flops(shape, B * s))
    assert needed == pytest.approx(6 * B * s * float(shape.parameters), rel=0.05)


def test_arrays_of_plans_are_as_one_plan_after_the_other(planner, cost, shapes):
    job = cost.Job(shapes.model_named("llama-3-8b"), shapes.gpu_named("H100"), 128)
    plans, _ = planner.all_plans(job, 16)
    some = planner.select_plans(plans, np.random.default_rng(0).choice(len(plans.dp), 100))
    for compute in (find_lab("cost_seconds").seconds, cost.memory):
        together = compute(job, some)
        for number, plan in enumerate(some.each()):
            for kind, value in compute(job, plan).items():
                at = np.broadcast_to(together[kind], (100,))[number]
                assert float(value) == pytest.approx(float(at), rel=1e-12)


# ---- Against published runs -----------------------------------------------------------------


@pytest.fixture(scope="module")
def prediction_errors(runs_lab):
    """Of each engine: relative errors of seconds and bytes, and who failed, all left out."""
    found = {}
    for engine, start in runs_lab.STARTS.items():
        runs = runs_lab.runs_with(engine)
        seconds, nbytes = runs_lab.cross_validated_predictions(runs, start)
        fails = nbytes > runs_lab.FULL_AT * runs.job.gpu.memory
        found[engine] = (
            abs(seconds / runs.seconds - 1)[~runs.is_oom],
            abs(nbytes / runs.memory - 1)[~runs.is_oom],
            fails == runs.is_oom,
            runs.is_oom,
        )
    return found


def together(prediction_errors, number):
    values = np.concatenate([each[number] for each in prediction_errors.values()])
    return values[~np.isnan(values)] if values.dtype == float else values


@pytest.mark.deep
def test_seconds_of_runs_that_calibrated_nothing(prediction_errors):
    errors = together(prediction_errors, 0)
    assert len(errors) > 1500
    assert np.median(errors) < 0.08
    assert np.percentile(errors, 87) < 0.3  # a tenth is slow for reasons that no plan states


@pytest.mark.deep
def test_bytes_of_runs_that_calibrated_nothing(prediction_errors):
    assert np.median(together(prediction_errors, 1)) < 0.12


@pytest.mark.deep
def test_out_of_memory_is_told_and_both_kinds_of_mistakes_are_as_frequent(prediction_errors):
    is_right, failed = (together(prediction_errors, number) for number in (2, 3))
    assert np.mean(is_right) > 0.93
    missed, alarms = np.sum(~is_right & failed), np.sum(~is_right & ~failed)
    assert 0.5 < missed / alarms < 2


@pytest.mark.deep
@pytest.mark.parametrize("left_out", ["GPUs", "model"])
def test_whole_sizes_and_models_are_predicted_without_them(left_out, runs_lab):
    errors, large = [], []
    for engine, start in runs_lab.STARTS.items():
        runs = runs_lab.runs_with(engine)
        names = np.array([group.split(", ")[1] for group in runs.group])
        groups = runs.plan.ranks.astype(str) if left_out == "GPUs" else names
        seconds, _ = runs_lab.cross_validated_predictions(replace(runs, group=groups), start)
        of = abs(seconds / runs.seconds - 1)[~runs.is_oom]
        errors.append(of)
        large.append(of[runs.plan.ranks[~runs.is_oom] > 256])
    assert np.nanmedian(np.concatenate(errors)) < 0.085
    assert np.nanmedian(np.concatenate(large)) < 0.15


def test_rows_that_contradict_themselves(runs_lab):
    """The corrections are those that arithmetic asks for."""
    runs = runs_lab.runs_of(("BLOOM",))
    laid_out = runs.plan.dp * runs.plan.tp * runs.plan.pp
    assert (laid_out == runs.plan.ranks).all()
    rows = {row["id"]: row for row in runs_lab.csv.DictReader(runs_lab.RUNS.open())}
    for number, changed in runs_lab.CORRECTED.items():
        assert not [
            (column, value) for column, value in changed.items() if rows[number][column] == value
        ]
    twin, swapped = rows["BLOOM-0041"], runs_lab.CORRECTED["BLOOM-0055"]
    assert not [(column, value) for column, value in swapped.items() if twin[column] != value]


def test_published_rates_have_their_documented_unit(runs_lab):
    """Model FLOPs per second are the stated share of the peak, in TFLOP/s of a GPU."""
    rows = [row for row in runs_lab.csv.DictReader(runs_lab.RUNS.open())
            if row["tflops_gpu"] and row["mfu_pct"]]  # fmt: skip
    assert len(rows) > 100
    for row in rows:
        stated = float(row["mfu_pct"]) / 100 * runs_lab.gpu_of(row).flops / 1e12
        assert float(row["tflops_gpu"]) == pytest.approx(stated, rel=0.01), row["id"]


def test_a_software_whose_runs_all_fitted_is_counted_for_its_false_alarms(
    runs_lab, monkeypatch, capsys
):
    for other in set(runs_lab.STARTS) - {"FSDP"}:
        monkeypatch.delitem(runs_lab.STARTS, other)
    runs_lab.main()
    told = re.findall(r"out of memory or not: right for ([\d.]+)%", capsys.readouterr().out)
    assert len(told) == 2  # and of all
    assert 70 < float(told[0]) < 95  # with bytes that no run has stated


def test_errors_of_an_engine_are_of_every_software(runs_lab, cost):
    told = runs_lab.describe_errors(cost.Engine())
    assert all(f"% with {name}" in told for name in runs_lab.STARTS)
    runs = runs_lab.timed_runs("FSDP")
    off = abs(runs_lab.predict_seconds(runs, cost.Engine()) / runs.seconds - 1)
    assert f"{np.median(off):.0%} with FSDP" in told


# ---- The planner ----------------------------------------------------------------------------


def test_the_best_plan_is_the_fastest_that_fits(planner):
    planned = planner.plan("llama-3-8b", "16xH100", batch=128)
    best = planned.best(5)
    times = [choice.seconds["total"] for choice in best]
    assert times == sorted(times)
    fitting = np.broadcast_to(planned.seconds["total"], planned.fits.shape)[planned.fits]
    assert times[0] == pytest.approx(fitting.min())
    for choice in best:
        assert choice.memory["total"] <= planned.room
        assert choice.plan.ranks == 16
        assert 0.1 < choice.mfu < 0.7
    assert planned.count_rejections().total() == planned.rejected.total() + (~planned.fits).sum()


def test_no_plan_breaks_a_rule(planner):
    planned = planner.plan("llama-3-70b", "64xH100", batch=96)
    plan, shape = planned.possible, planned.job.shape
    assert (shape.heads % plan.tp == 0).all()
    assert (plan.pp * plan.chunks <= shape.layers + 2).all()
    assert (planned.job.batch % (plan.dp * plan.micro_batch) == 0).all()
    assert (plan.ranks == 64).all()


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("llama-9b", "8xH100"), "no model is called 'llama-9b'; known are"),
        (("llama-3-8b", "8xH900"), "no GPU is called 'H900'; known are"),
        (("llama-3-8b", "0xH100"), "a number of 1 or more, not '0xH100'"),
        (("llama-3-8b", "many"), "GPUs are given as in 64xH100"),
        (("gpt2-xl", "53xA100", 12), "no plan is possible on 53 GPUs"),
        (("llama-3-8b", "8xH100", -3), "batch is a number of 1 or more, not -3"),
        (("llama-3-405b", "2xH100"), "no plan fits: the smallest one needs"),
    ],
)
def test_what_cannot_be_planned_gets_one_sentence(arguments, sentence, planner):
    with pytest.raises(ValueError, match=re.escape(sentence)) as caught:
        planner.plan(*arguments)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("count", [12, 24, 80, 96])
def test_a_default_batch_is_one_that_the_gpus_can_share(count, planner):
    planned = planner.plan("llama-3-8b", f"{count}xH100")
    assert planned.fits.any()
    assert 2e6 < planned.job.batch * planned.job.shape.context < 8e6


def test_a_batch_that_the_gpus_cannot_share_is_named_with_a_remedy(planner):
    with pytest.raises(ValueError, match=r"37 GPUs with 512 samples .* with \d+ samples") as caught:
        planner.plan("llama-3-8b", "37xH100", batch=512)
    batch = int(re.findall(r"(\d+) samples", str(caught.value))[-1])
    assert planner.plan("llama-3-8b", "37xH100", batch=batch).fits.any()


def test_groups_that_lie_on_two_machines_have_the_speed_between_them(cost, shapes):
    link = find_lab("cost_seconds").link
    job = cost.Job(shapes.model_named("gpt3-175b"), shapes.gpu_named("H100"), 1536)
    inside, card = link(job, 8, 1, 8), link(job, 16, 8, 2)
    assert inside > 4 * card
    assert link(job, 192, 1, 3) == card  # ranks 6, 7 and 8: one card on either side
    assert link(job, 192, 1, 12) == 4 * card  # of each 12 ranks, 4 or 8 lie on a machine
    assert link(job, 6, 1, 3) == link(job, 192, 1, 4) == inside


@pytest.mark.parametrize(
    ("model", "context", "plan", "reason"),
    [
        ("llama-2-13b", 4096, {"tp": 5, "dp": 8}, "tp does not divide the MLP's width"),
        ("gpt3-175b", 2048, {"tp": 3, "cp": 2, "dp": 4, "pp": 8},
         "tp does not divide the tokens of a sequence, or of its part along cp"),
        ("llama-3-8b", 8192, {"tp": 16, "dp": 4}, "tp does not divide the heads of keys"),
    ],
)  # fmt: skip
def test_what_engines_cannot_divide_is_no_plan(model, context, plan, reason, planner, cost, shapes):
    shape = replace(shapes.model_named(model), context=context)
    job = cost.Job(shape, shapes.gpu_named("H100"), 1920)
    assert str(planner.why_impossible(job, cost.Plan(**plan))) == reason


def test_a_table_of_positions_grows_with_the_context(planner):
    shape = planner.plan("gpt2-xl", "8xH100", batch=64, context=4096).job.shape
    assert shape.positions == shape.context == 4096
    assert planner.plan("llama-3-8b", "8xH100", batch=64, context=4096).job.shape.positions == 0


def test_the_ends_of_a_model_count_as_layers_where_stages_are_uneven(planner, cost, shapes):
    """Llama 3 405B: 126 layers and two ends on 16 stages of 8 chunks, so 8 layers at most."""
    job = cost.Job(shapes.model_named("llama-3-405b"), shapes.gpu_named("H100"), 2048)
    plan = cost.Plan(64, 8, 16, zero=1, chunks=8)
    assert str(planner.why_impossible(job, plan)) == ""
    assert job.layers(plan) == 8 and not job.is_even(plan)
    assert job.layers(replace(plan, pp=14, chunks=3)) == 9  # 126 = 14 × 9
    assert "than layers" in str(planner.why_impossible(job, replace(plan, chunks=10)))


def test_a_plan_in_words_has_its_chunks(planner, cost):
    plan = cost.Plan(dp=2, tp=4, pp=4, chunks=5, zero=1)
    assert planner.describe_plan(plan) == "dp 2 tp 4 pp 4, 5 chunks, ZeRO 1"


def test_what_would_be_needed(planner):
    with pytest.raises(ValueError, match=r"(\d+) such GPUs would do") as caught:
        planner.plan("llama-3-405b", "8xH100", batch=256)
    count = int(str(caught.value).split(" such GPUs")[0].split()[-1].replace(",", ""))
    assert planner.plan("llama-3-405b", f"{count}xH100", batch=256).fits.any()


def test_on_the_command_line(capsys):
    line = ["plan", "--model", "llama-70b", "--gpus", "64xH100", "--batch", "512"]
    assert main([*line, "--top", "3", "--tokens", "15e12"]) == 0
    told = capsys.readouterr().out
    assert "llama-70b with 70.6 billion parameters, on 64 GPUs" in told
    assert "GPU-hours" in told
    assert "too large for the memory" in told
    in_words = " ".join(told.split())
    assert "Nothing was run." in in_words
    assert "80 % took between the seconds in the second column" in in_words
    assert "None of them had anything like" not in in_words
    assert main(["plan", "--model", "llama-70b", "--gpus", "64xH999"]) == 2
    assert capsys.readouterr().err.startswith("no GPU is called 'H999'")


def test_what_no_published_run_has_tested_is_told(capsys):
    assert main(["plan", "--model", "qwen-3-30b-a3b", "--gpus", "16xH100", "--top", "1"]) == 0
    in_words = " ".join(capsys.readouterr().out.split())
    assert "None of them had anything like the first plan's ep 8" in in_words


def test_a_reader_that_has_enough_ends_it_without_a_traceback():
    line = [sys.executable, "-m", "pedagogy_lib", "plan", "--model", "llama-8b", "--gpus", "8xH100"]
    done = subprocess.run(f"{shlex.join(line)} | true", shell=True, capture_output=True, text=True)
    assert done.stderr == ""


@pytest.mark.parametrize("engine", ["megatron-lm", "DeepSpeed", "torchtitan", "nanotron"])
def test_a_configuration_on_the_command_line(engine, capsys):
    line = ["plan", "--model", "llama-70b", "--gpus", "64xH100", "--batch", "512", "--top", "1"]
    assert main([*line, "--write", engine]) == 0
    told = capsys.readouterr().out
    assert f", for {engine.lower()}:" in told.lower()
    assert "of the plans" in told
    assert main([*line, "--write", "horovod"]) == 2
    assert "no engine is called 'horovod'; known are Megatron-LM" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("model", "gpus", "batch", "words", "program"),
    [
        ("llama-3-8b", "8xH100", "512", "dp 4 pp 2", "num_stages=2"),
        ("llama-3-70b", "64xH100", "512", "recomputed", "recompute each layer="),
    ],
)
def test_what_a_file_cannot_say_is_printed_below_it(model, gpus, batch, words, program, capsys):
    line = ["plan", "--model", model, "--gpus", gpus, "--batch", batch, "--top", "1"]
    assert main([*line, "--write", "deepspeed"]) == 0
    told = capsys.readouterr().out
    assert words in re.search(r"Number \d+ of the plans, for DeepSpeed: (.*)", told)[1]
    assert program in told.rsplit("}", 1)[1]


@pytest.mark.parametrize(("option", "number"), [("--top", "0"), ("--tokens", "-5")])
def test_numbers_on_the_command_line_are_above_0(option, number, capsys):
    assert main(["plan", "--model", "llama-3-8b", "--gpus", "8xH100", option, number]) == 2
    assert capsys.readouterr().err == f"{option} is a number above 0, not {number}\n"


def test_answering_on_the_command_line(capsys):
    line = ["plan", "--model", "llama-70b", "--gpus", "64xH100", "--batch", "512", "--top", "1"]
    assert main([*line, "--answering"]) == 0
    assert "users  keys, values" in capsys.readouterr().out


# ---- Answering ------------------------------------------------------------------------------


def test_what_a_server_needs(shapes):
    serving = find_lab("serving")
    shape = shapes.model_named("llama-3-70b")
    # 80 layers × 8 heads × 128 numbers, keys and values, of 2 bytes each
    assert float(serving.kv_cache_bytes_per_token(shape)) == 80 * 8 * 128 * 2 * 2
    server = serving.make_server("llama-3-70b", "H100", 8)
    used = float(serving.parameter_bytes(shape)) / 8
    used += server.users * 2560 * 80 * 1 * 128 * 2 * 2
    assert used <= 0.9 * 80e9 < used + 2560 * 80 * 128 * 2 * 2
    one = serving.make_server("llama-3-70b", "H100", 8, 1)
    assert serving.decode_seconds(one) < serving.decode_seconds(server)
    assert serving.tokens_per_second(one) < serving.tokens_per_second(server)
    assert serving.decode_seconds(one) > float(serving.parameter_bytes(shape)) / 8 / 3.35e12


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("llama-3-70b", "H100", 1), "Take a larger tp"),
        (("llama-3-70b", "H100", 3), "tp divides them"),
        (("llama-3-70b", "H100", 16), "at most 8"),
        (("llama-3-70b", "H100", 8, 10**6), "there is room for 1 to 518 users"),
        (("llama-9", "H100"), "no model is called"),
    ],
)
def test_what_cannot_be_served(arguments, sentence):
    with pytest.raises(ValueError, match=sentence):
        find_lab("serving").make_server(*arguments)


def test_the_fullest_gpu_decides_for_how_many_users_there_is_room():
    most = find_lab("serving").most_users
    assert most(80e9, 0, 3, 32, 8, 128, 2560) == most(80e9, 0, 1, 32, 3, 128, 2560)


def test_every_number_of_an_engine_counts(cost, shapes):
    """None of them is forgotten in the formulas: each changes seconds or bytes of some plan."""
    seconds = find_lab("cost_seconds").seconds
    plans = [
        cost.Plan(dp=16, tp=2, zero=3, micro_batch=2),
        cost.Plan(dp=8, tp=16, pp=5, zero=1, sequence=False),
        cost.Plan(dp=2, tp=16, sequence=False),
        cost.Plan(dp=2, pp=4, cp=2, micro_batch=256, sequence=False),
        cost.Plan(dp=16, micro_batch=1),
        cost.Plan(dp=2, pp=32, zero=1, sequence=False),
        cost.Plan(dp=16, ep=16, precision="fp8"),
        cost.Plan(dp=16, ep=16, precision="nvfp4"),
    ]
    shape = shapes.gpt(24, 2000, 16, 50257, 1024, experts=16, chosen=2, expert_mlp=4000)
    gpu = replace(shapes.gpu_named("A100"), flops_8bit=600e12, flops_4bit=1200e12)

    def costs(engine):
        job = cost.Job(shape, gpu, 512, engine)
        return [float(of(job, plan)["total"]) for plan in plans for of in (seconds, cost.memory)]

    start = cost.Engine(is_fused=False, launch=0.1, launch_pp=0.1, hop=1e-2, hop_pp=1e-2,
                        crossing=1e-2, crossing_pp=1e-3, cores=8, traffic_whole=10, around=1e-2,
                        unit=1e-3, averaging=8, working=8, block_scores=8, stall=1.0,
                        crowd=64)  # fmt: skip
    for of in fields(cost.Engine):
        if of.name in ("found", "sequence"):  # the planner asks for this one
            continue
        value = getattr(start, of.name)
        changed = replace(start, **{of.name: not value if isinstance(value, bool) else 2 * value})
        assert costs(changed) != costs(start), of.name
