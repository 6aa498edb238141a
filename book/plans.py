"""The planner's page: the fastest plans for some models and clusters, computed for this page."""

from html import escape

from coursekit.plan_command import quietly

SHOWN = [("llama-3-8b", "8xH100", 256), ("llama-3-8b", "64xA100", 512),
         ("llama-3-70b", "64xH100", 512), ("llama-3-70b", "512xH100", 1024),
         ("llama-3-405b", "1024xH100", 2048)]  # fmt: skip
MOST = 5


def page() -> str:
    planner = quietly("planner")
    tables = "\n\n".join(table_of(planner, *one) for one in SHOWN)
    return (
        "# Which parallelism?\n\nThe fastest plans that the course's planner finds, for some "
        "models and clusters. Nothing was run: a model of cost predicts them. Of published runs "
        "of software that it had not seen, 80 % took between the seconds of the second column. "
        "Part "
        "[10](parts/10_choosing_a_strategy.ipynb) explains the model, part "
        "[10b](parts/10b_predict_then_run.ipynb) runs what it predicts, and part "
        "[10c](parts/10c_published_runs.ipynb) holds it against published runs.\n\nFor your own "
        "model and GPUs:\n\n"
        "```\npython -m pedagogy_lib plan --model llama-70b --gpus 64xH100 --batch 512\n```\n\n"
        f"{tables}\n"
    )


def table_of(planner, model, gpus, batch) -> str:
    """Return the section on one model and one cluster."""
    planned = planner.plan(model, gpus, batch, None)
    shape = planned.job.shape
    heads = "".join(f"<th>{escape(str(head))}</th>" for head in planner.HEADS)
    rows = "".join(
        "<tr>" + "".join(f"<td>{escape(str(cell))}</td>" for cell in planner.row_of(choice))
        + "</tr>" for choice in planned.best(MOST)
    )  # fmt: skip
    fits = int(planned.fits.sum())
    every = fits + planned.count_rejections().total()
    kind = gpus.partition("x")[2]
    return (
        f"## {model} on {planned.gpus} {kind}\n\n{float(shape.parameters) / 1e9:.1f} billion "
        f"parameters; a step has {planned.job.batch:,} samples of {shape.context:,} tokens. "
        f"{fits:,} of {every:,} plans fit.\n\n"
        f'<div class="course-table course-plans" role="group" aria-label="Plans for {model}" '
        'tabindex="0">'
        f"<table><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table></div>"
    )
