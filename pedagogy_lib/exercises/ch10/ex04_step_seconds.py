"""Seconds of a step in a pipeline. The truth lets a schedule run, cell by cell."""

from ..kit import Formula


def truth(layer, layers, stages, microbatches, all_reduce, hidden):
    """The last micro-batch leaves the last stage; then what is left of the all-reduce."""
    done = [[0.0] * stages for _ in range(microbatches)]
    for i in range(microbatches):
        for stage in range(stages):
            before = done[i][stage - 1] if stage else 0.0
            busy = done[i - 1][stage] if i else 0.0
            done[i][stage] = max(before, busy) + layers / stages * layer
    return done[-1][-1] + all_reduce - hidden * all_reduce


def changed(fill=1.0, per_stage=True, exposed=lambda hidden: 1 - hidden):
    def mistaken(layer, layers, stages, microbatches, all_reduce, hidden):
        stage = layer * (layers / stages if per_stage else layers)
        return stage * (microbatches + fill * (stages - 1)) + all_reduce * exposed(hidden)

    return mistaken


EXERCISE = Formula(
    "10.4",
    "step_seconds",
    cases={
        "4 layers of 1 s, 2 stages, 3 micro-batches": [(1.0, 4, 2, 3, 2.0, 0.5)],
        "one stage": [(0.5, 6, 1, 4, 3.0, 0.0)],
        "one micro-batch": [(0.5, 8, 4, 1, 0.0, 0.0)],
        "all of it hidden": [(0.25, 8, 2, 8, 5.0, 1.0)],
        "none of it hidden": [(0.25, 8, 4, 8, 5.0, 0.0), (0.25, 8, 4, 8, 5.0, 0.75)],
        "80 layers, 16 stages": [(0.02, 80, 16, 128, 0.4, 0.7)],
    },
    truth=truth,
    unit=" s",
    mistakes=[
        (
            "the pipeline has to fill: the last stage begins stages - 1 turns late. That is the "
            "bubble.",
            changed(fill=0),
        ),
        (
            "this counts the filling twice. While the last stages empty, the step has no further "
            "turns: forward and backward of a layer are in its seconds together.",
            changed(fill=2),
        ),
        (
            "this fills with one turn too many: the first stage begins at once.",
            lambda layer, layers, stages, m, a, h: (
                layers / stages * layer * (m + stages) + a * (1 - h)
            ),
        ),
        (
            "each stage has its share of the layers, not all of them.",
            changed(per_stage=False),
        ),
        (
            "the all-reduce counts whole: the share that is hidden takes no time of its own.",
            changed(exposed=lambda hidden: 1),
        ),
        (
            "this adds the hidden share. What is left of the all-reduce counts.",
            changed(exposed=lambda hidden: hidden),
        ),
        ("the all-reduce is missing.", changed(exposed=lambda hidden: 0)),
        (
            "this waits for an all-reduce in each micro-batch. Gradients are summed once, at the "
            "end.",
            lambda layer, layers, stages, m, a, h: changed()(layer, layers, stages, m, m * a, h),
        ),
        (
            "this is one stage after the other, without a pipeline.",
            lambda layer, layers, stages, m, a, h: layer * layers * m + a * (1 - h),
        ),
    ],
    hints=(
        "How long does one stage take for one micro-batch?",
        "How many such turns pass until the last stage is done with the last micro-batch?",
    ),
)
