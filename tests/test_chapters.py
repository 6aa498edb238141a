"""Chapters under papermill: other parameters, and nobody there to answer."""

import nbformat
import papermill
import pytest

from pedagogy_lib.course import build

PARAMETERS = {
    "00_start_here": {"world_size": 3},
    "00b_what_to_split": {"world_size": 2},
    "00c_what_to_believe": {"world_size": 3, "megabytes": 1.5},
    "02_collectives": {"world_size": 3},
    "02b_trees_and_chains": {"pieces": 10, "latency": 0.002},
    "02c_the_ring": {"world_size": 3, "megabytes": 2.0},
    "02d_bytes_of_all": {"world_size": 3, "megabytes": 2.0, "card_megabytes_per_second": 80.0},
    "01_gradient_accumulation": {"passes": 3, "learning_rate": 0.03},
    "01b_batches_in_parts": {"part_size": 7},
    "01c_what_it_saves": {"batch_size": 48, "micro_batch": 6, "learning_rate": 0.3},
    "02e_what_a_message_costs": {"link_milliseconds": 5.0, "link_megabytes_per_second": 40.0},
    "02f_what_a_call_costs": {"megabytes": 4.0},
    "02g_across_machines": {"megabytes": 2.0, "card_megabytes_per_second": 40.0},
    "03_data_parallel": {"world_size": 3},
    "03b_samples_of_its_own": {"world_size": 3},
    "03c_inside_ddp": {"world_size": 3, "train_steps": 12},
    "03d_not_each_time": {"world_size": 3},
    "03e_ddp_at_work": {"world_size": 3, "drift_steps": 200},
    "03f_counted_over_all_ranks": {"more_ranks": 3},
    "03g_one_whole_program": {"epochs_on_machines": 2, "epochs": 4},
    "03h_a_server_in_the_middle": {"world_size": 3, "race_seconds": 0.7},
    "03i_one_process_for_all": {"world_size": 3},
    "03j_fewer_bytes": {"steps": 60, "card_megabytes_per_second": 10.0},
    "03k_how_far_it_scales": {"samples": 32},
    "03l_large_batches": {"passes": 6, "goal": 0.25},
    "03m_when_it_hangs": {"world_size": 3, "seed": 5},
    "04_failure_and_recovery": {"world_size": 3, "die_at": 34, "steps_after": 25},
    "04b_sharded_checkpoints": {"world_size": 3, "fewer": 2, "state_megabytes": 20},
    "04c_finding_out": {"world_size": 3, "guilty": 1, "patience": 0.8, "timeout": 1.0},
    "04d_restart": {"die_at": 21, "every": 4, "world_size": 3},
    "04e_keep_training": {"world_size": 3, "guilty": 1, "die_at": 12, "steps": 30},
    "04f_copies_and_local_steps": {"steps": 50, "die_at": 20, "rounds": 12},
    "04g_chaos": {"seed": 5},
    "05_memory": {"width": 32, "layers": 3, "samples": 8},
    "05b_half_precision": {"width": 32, "layers": 3, "samples": 8},
    "05c_smaller_optimizer_states": {"steps": 60, "rate": 4e-3},
    "06_zero": {"world_size": 3, "layers": 3, "steps": 2},
    "06h_sharding_engines": {"world_size": 2, "steps": 4, "state_megabytes": 8},
    "07_tensor_parallel": {"world_size": 3, "width": 48, "steps": 4},
    "07g_how_wide": {"world_size": 2, "width": 32, "train_steps": 20},
    "08_pipeline_parallel": {"world_size": 3, "width": 48, "steps": 4},
    "08i_pipelines_at_work": {"world_size": 3, "microbatches": 40},
    "09_three_dimensions": {"sizes": {"dp": 4, "pp": 1, "tp": 2}, "rank_shown": 3},
    "09b_one_step_three_axes": {"sizes": {"dp": 4, "pp": 1, "tp": 2}},
    "09c_which_axis_where": {"context": 32, "card_megabytes_per_second": 20.0},
    "09d_experts": {"n_experts": 4, "steps": 60},
    "09e_experts_on_ranks": {"busiest_share": 0.5},
    "09f_long_contexts": {"ranks": 2, "budget_megabytes": 40.0},
    "09g_sixty_four_ranks": {"length": 2, "machine_count": 2},
    "10_choosing_a_strategy": {"model_name": "llama-3-8b", "gpus": "16xA100", "batch": 64},
    "10b_predict_then_run": {"drawn": 2, "width": 64, "card_megabytes_per_second": 40.0},
    "10c_published_runs": {"slow": 1.6, "folds": 5},
    "10d_small_alpa": {"microbatches": 4, "card_megabytes_per_second": 10.0},
    "10e_from_plan_to_configuration": {"gpus": "32xH100", "batch": 256, "looked_at": 12},
    "10f_advice_judged": {"error": 0.5, "factor": 1.3, "engines": 5},
    "10g_practices_and_pitfalls": {"link": 4e9, "host": 50e9, "storage": 1e12},
}
SHOWN = {
    "00_start_here": [
        "rank 2: 60.0 after one",
        "theory 180 right answers; measured 180 right answers",
    ],
    "00b_what_to_split": ["rank 1: parameters 8.00 MB; a complete copy", "but for rounding: True"],
    "00c_what_to_believe": ["3 ranks · Gloo on the CPU", "theory 2 MB; measured 2.00"],
    "02_collectives": ["rank 1 got chunk 1", "theory 111 cents; counted 111 cents"],
    "02b_trees_and_chains": ["7 × 5 s"],
    "02c_the_ring": ["all 3 together sent 4.00 X", "1.33 1.33 1.33 X", "theory 4 MB"],
    "01_gradient_accumulation": ["one by one: 24 steps", "theory 0.9631 w1"],
    "02d_bytes_of_all": ["0 to 1; 1 to 2; 2 to 0", "0 to 2; 1 to 0; 2 to 1", "theory 0.75 X"],
    "01b_batches_in_parts": ["[7, 7, 7, 7, 2]"],
    "01c_what_it_saves": ["a step for each 6", "equals one go, but for rounding: True"],
    "02e_what_a_message_costs": ["links throttled to 40 MB/s + 5 ms", "theory 376"],
    "02f_what_a_call_costs": [
        "An all-reduce of 4 MB on two ranks",
        "theory 2 messages; counted 4",
    ],
    "02g_across_machines": ["theory 3 MB", "measured 3.0"],
    "03_data_parallel": [
        "3 ranks equal one process, but for rounding: True",
        "as with the mean",
    ],
    "03b_samples_of_its_own": ["theory 1 trainings; measured 1 trainings"],
    "03c_inside_ddp": ["two layers in a bucket: 22"],
    "03d_not_each_time": ["no_sync 1.3 times the model", "theory 1.33"],
    "03e_ddp_at_work": [
        "the same gradients, but for rounding: True",
        "with this hook, gradients are 3.00 times as large",
        "theory 3 models; measured 3",
    ],
    "03f_counted_over_all_ranks": [
        "3 ranks: gradients off by",
        "4 ranks: gradients and running statistics of one process to 1e-12: True",
        "divide_by_initial_world_size=False: as one process: True",
        "tokens counted over all ranks: as one process, but for rounding: True",
    ],
    "03g_one_whole_program": [
        "theory 0.25 units; measured 0.25",
        "theory 12 images; counted 12",
        "rank 3: local rank 1",
        "weights after 4 epochs, as one process to 1e-10: True",
    ],
    "03h_a_server_in_the_middle": [
        "ring with 4 workers: ranks 0 to 4 send 1.6 1.6 1.6 1.6 1.6",
        "staleness 1: 1 0 -1 -1 0 1 1 0 -1 -1 0 1 1 0 -1",
    ],
    "03i_one_process_for_all": ["3 ranks equal one process, but for rounding: True"],
    "03j_fewer_bytes": ["0.50 times the bytes of DDP", "theory 1.906 %; measured 3."],
    "03k_how_far_it_scales": [
        "one rank computes for 50 ms",
        "at best 2.0 times as fast, on 2 ranks",
    ],
    "03l_large_batches": ["After the samples of 6 passes", "noise scale 0.67 samples"],
    "03m_when_it_hangs": [
        "found (1, 8, 'another shape'); drawn: rank 1",
        "another shape: the errors lead to [1]; right: True",
    ],
    "04_failure_and_recovery": [
        "newest checkpoint: step-000030",
        "it took steps 31 to 40: 4 of them a second time",
        "with everything, weights differ by 0.0",
    ],
    "04b_sharded_checkpoints": [
        "theory 33",
        "read by 2: weights differ by 0.0",
        "FSDP2 on 2: 212 tensors, they differ by 0.0",
    ],
    "04c_finding_out": [
        "rank 1 stopped; all others found: rank 1: no sign of life",
        "rank 1 waits; all others found: rank 1: alive, but does not come",
        "found after step 13, on all ranks: [1]; undisturbed: {}",
    ],
    "04d_restart": [
        "41 steps in 2 lives; the second begins with step 21",
        "weights differ by 0.0",
        "same batch: losses equal those of one process, but for rounding: True",
    ],
    "04e_keep_training": [
        "rank dies: 3 ranks go on after step 0; 2 ranks go on after step 12",
        "rank dies: as one process, but for rounding: True",
        "ranks after each meeting: [3, 2, 3]",
        "stopped: as one process, but for rounding: True",
    ],
    "04f_copies_and_local_steps": [
        "processes lost: 2 · as one process, but for rounding: True",
        "one dies, one comes: equal weights at the end: True",
    ],
    "04g_chaos": [
        "power cut: processes lost 4, undisturbed weights: True",
        "undisturbed weights on all ranks: True",
    ],
    "05_memory": ["theory 4 times; measured 4"],
    "05b_half_precision": ["together 1120 GB", "theory 16 bytes; measured 16"],
    "05c_smaller_optimizer_states": [
        "after 3000 steps: float32 0.181, bfloat16 0.250",
        "46,800 bytes; measured 46,800",
    ],
    "06_zero": ["stage 1 sends 1.3", "stage 3: 3 ranks equal one process"],
    "06h_sharding_engines": ["2 ranks wrote 2 files", "1.00 of the tensor's bytes sent"],
    "07_tensor_parallel": ["3 ranks True True"],
    "07g_how_wide": ["4 ranks: the same 44 letters as one process: True"],
    "08_pipeline_parallel": ["'1F1B': [3, 2, 1]"],
    "08i_pipelines_at_work": ["stashing | late by [2, 1, 0] updates | versions kept [3, 2, 1]"],
    "09_three_dimensions": [
        "theory 2 ranks; measured 2",
        "same coordinates and groups on all ranks: True",
        "refused by: ours, DeviceMesh",
    ],
    "09b_one_step_three_axes": [
        "theory 50 %",
        "pp 4 × tp 2: equal to one process to 1e-12: True",
        "HSDP, stage 1: equal to one process to 1e-12: True",
        "PyTorch's: equal to one process to 1e-12: True",
        "theory 3.5 times; measured 3.",
    ],
    "09c_which_axis_where": ["theory 9 times; measured 9.", "right for tp; else it depends"],
    "09d_experts": [
        "theory 46.7 billion; measured 46.7",
        "theory 25 %",
        "k = 1, softmax over the chosen ones: largest gradient of a score 0.000",
    ],
    "09e_experts_on_ranks": [
        "theory 2 times",
        "edp 2 × ep 4, 8 experts, 2 for each token: equal to one process to 1e-12: True",
        "measured bytes are 1.0",
    ],
    "09f_long_contexts": [
        "theory 32.77 GB; measured 32.77",
        "theory 1.5 times; counted 1.4",
        "ring, zigzag: equal to one process to 1e-12: True",
        "ring: measured bytes equal the formula's, for each length: True",
    ],
    "09g_sixty_four_ranks": [
        "8 ranks equal one process to 1e-12: True",
        "theory 48.39 %; simulated 48.39",
        "dp 4, pp 4, tp 4 and dp 2 × tp 2 agree to 1e-12 in float64: True",
    ],
    "10_choosing_a_strategy": [
        "theory 1.322 times; counted 1.322",
        "964,689,920",
        "keys and values of one text: 131,072 bytes; by formula 131,072",
    ],
    "10b_predict_then_run": ["430 plans can be run", "the plan that was predicted to be best"],
    "10c_published_runs": [
        "theory 142.8 PFLOP/s; counted 131.9 PFLOP/s",
        "GPUs: 64.0 % by the counts, 58.7 % by the printed shares",
        "whatever the number of stages: True",
        "more stages than layers: 28 runs, failed: 28",
    ],
    "10d_small_alpa": [
        "theory 28 digits; counted 28",
        "as cheap as the cheapest of all choices: 40 of 40",
        "theory 30 models; counted 30",
        "losses, weights and gradients equal one process to 1e-12: True",
    ],
    "10e_from_plan_to_configuration": [
        "Megatron-LM: as one process to 1e-12: True",
        "dp 2 × tp 2, ZeRO 3: as one process to 1e-12: True",
        "1 of 8 options reach python, which is given",
    ],
    "10f_advice_judged": [
        "cannot be told: 51 of 72",
        "of 5 engines",
        "2; ZeRO 3 sends 3 times as much as DDP",
    ],
    "10g_practices_and_pitfalls": [
        "6 of 60 jobs fit only with everything recomputed",
        "the GPUs wait: gradients 0.00 s, update 3.77 s, parameters 0.42 s",
        "storage of 1 TB/s",
    ],
}


@pytest.mark.slow
@pytest.mark.parametrize("chapter", [source.stem for source in build.sources()])
def test_a_chapter_with_holes_runs_with_other_parameters(chapter, tmp_path):
    notebook = build.ROOT / "notebooks" / f"{chapter}.ipynb"
    parameters = PARAMETERS[chapter]
    names = papermill.inspect_notebook(str(notebook))
    assert set(parameters) <= set(names), "papermill only warns of unknown names"
    done = tmp_path / notebook.name
    papermill.execute_notebook(
        notebook, done, parameters, cwd=notebook.parent, progress_bar=False, kernel_name="python3"
    )
    shown = " ".join(nbformat.writes(nbformat.read(done, as_version=4)).split())
    for phrase in SHOWN[chapter]:
        assert phrase in shown
