"""Sentences that tell what a calculator, the planner or a file of published runs gives."""

import re

import pytest
import torch
from helpers import ROOT, load_solved_lab

from coursekit.building import build
from pedagogy_lib import lab


def prose_of(stem: str) -> str:
    """Return the text of a part's Markdown cells, in one line."""
    cells = build.make_solved_notebook(build.source_of(stem)).cells
    return " ".join(" ".join(c.source for c in cells if c.cell_type == "markdown").split())


def test_what_the_calculators_choices_show_is_told_right():
    fits = load_solved_lab("what_fits")

    def gigabytes(layers, hidden, context=4096, vocabulary=32_000, recomputed="none", **plan):
        shape = fits.shape_of(layers, hidden, context, vocabulary)
        precision, optimizer = next(iter(fits.PRECISIONS)), next(iter(fits.OPTIMIZERS))
        return fits.predict_gpu_memory(shape, 1, precision, optimizer, recomputed, **plan)

    long = [gigabytes(32, 4096, 32_768, recomputed=r, dp=8, zero=3) for r in ("none", "full")]
    small = [sum(gigabytes(12, 768, vocabulary=v).values()) for v in (128_256, 32_000)]
    large = [sum(gigabytes(96, 12_288, recomputed=r, tp=8, pp=8).values())
             for r in ("none", "full")]  # fmt: skip
    told = {
        "the activations take {:.0f} GB": long[0]["activations"],
        "With it they take {:.0f} GB": long[1]["activations"],
        "each of the 8 GPUs needs {:.0f} GB": sum(long[1].values()),
        "{:.0f} GB in place of": small[0],
        "in place of {:.0f} GB": small[1],
        "{:.0f} GB on each of the 64 GPUs": large[0],
        "and {:.0f} GB with recomputation": large[1],
    }
    prose = prose_of("05g_what_fits")
    for sentence, its_bytes in told.items():
        assert sentence.format(its_bytes / 1e9) in prose
    room = {name for name, limit in fits.LIMITS.items() if sum(long[0].values()) <= limit}
    assert "except {} has room".format(*room) in prose


def test_an_expert_layer_keeps_hardly_more_than_05d_says(capsys, monkeypatch):
    """The rest is scores, weights and indices."""
    monkeypatch.chdir(build.ROOT / "solutions")
    cells = build.make_solved_notebook(build.source_of("05d_activations")).cells
    (source,) = [c.source for c in cells if c.cell_type == "code" and "of 8 experts" in c.source]
    width = 64
    x = torch.randn(2, 64, width, requires_grad=True)
    names = {"lab": lab, "kept_tensors": lab("kept_tensors"), "width": width, "x": x}
    exec(source, names)
    printed = re.findall(r"keeps ([\d.]+) times its input; at least ([\d.]+)",
                         capsys.readouterr().out)  # fmt: skip
    assert len(printed) == 4
    for kept, least in printed:
        assert float(least) <= float(kept) < 1.1 * float(least)


def test_what_the_planner_finds_for_other_gpus_is_told_right():
    planner = load_solved_lab("planner")

    def best(model, gpus):
        return planner.plan(model, gpus, 512).best(1)[0].plan

    assert best("llama-3-8b", "8xH100").pp == 2
    for gpus in ("16xH100", "64xH100", "256xH100"):
        plan = best("llama-3-8b", gpus)
        assert plan.tp == plan.pp == plan.cp == 1 and plan.zero == 2
    with pytest.raises(ValueError, match="no plan fits"):
        best("llama-3-70b", "16xH100")
    for gpus in ("32xH100", "64xA100-40GB"):
        plan = best("llama-3-70b", gpus)
        assert plan.zero == 3 and (plan.recompute, plan.recomputed) == ("full", 1)
    for dp, gpus in ((2, "64xH100"), (4, "128xH100"), (8, "256xH100")):
        plan = best("llama-3-70b", gpus)
        assert (plan.dp, plan.tp, plan.pp, plan.cp, plan.recompute) == (dp, 4, 8, 1, "none")
    for gpus in ("8xA100-40GB", "64xA100-40GB", "256xA100-40GB"):
        assert best("llama-3-8b", gpus).tp in (2, 4)


def test_how_many_published_runs_there_are_is_told_right():
    runs = load_solved_lab("published_runs")
    rows = len((ROOT / "labs" / "published" / "runs.csv").read_text().splitlines()) - 1
    prose = prose_of("10c_published_runs")
    assert f"has {rows:,} rows of four sources" in prose
    count = sum(len(runs.runs_with(engine)) for engine in runs.STARTS)
    assert f"predicts {count:,} of these runs" in prose
