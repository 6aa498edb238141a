"""The right results, and the results of known mistakes."""


def truth(layer, layers, stages, microbatches, all_reduce, hidden):
    """Return when the last micro-batch leaves the last stage, plus the exposed all-reduce."""
    done = [[0.0] * stages for _ in range(microbatches)]
    for i in range(microbatches):
        for stage in range(stages):
            before = done[i][stage - 1] if stage else 0.0
            busy = done[i - 1][stage] if i else 0.0
            done[i][stage] = max(before, busy) + layers / stages * layer
    return done[-1][-1] + all_reduce - hidden * all_reduce


def replace_terms(fill=1.0, per_stage=True, exposed=lambda hidden: 1 - hidden):
    def mistaken(layer, layers, stages, microbatches, all_reduce, hidden):
        stage = layer * (layers / stages if per_stage else layers)
        late = (fill(layers, stages) if callable(fill) else fill) * (stages - 1)
        return stage * (microbatches + late) + all_reduce * exposed(hidden)

    return mistaken


MISTAKES = [
    (
        "the pipeline has to fill: the last stage begins stages - 1 turns late. That is the "
        "bubble.",
        replace_terms(fill=0),
    ),
    (
        "this counts the filling twice. While the last stages empty, the step has no further "
        "turns: forward and backward of a layer are in its seconds together.",
        replace_terms(fill=2),
    ),
    (
        "this fills with one turn too many: the first stage begins at once.",
        lambda layer, layers, stages, m, a, h: layers / stages * layer * (m + stages) + a * (1 - h),
    ),
    (
        "each stage has its share of the layers, not all of them.",
        replace_terms(per_stage=False),
    ),
    (
        "the all-reduce counts whole: the share that is hidden takes no time of its own.",
        replace_terms(exposed=lambda hidden: 1),
    ),
    (
        "this adds the hidden share. What is left of the all-reduce counts.",
        replace_terms(exposed=lambda hidden: hidden),
    ),
    (
        "`hidden` is a share, from 0 to 1, and not a number of seconds.",
        lambda layer, layers, stages, m, a, h: (
            replace_terms()(layer, layers, stages, m, 0, 0) + a - h
        ),
    ),
    (
        "`hidden` is a share, from 0 to 1, and not a number of seconds.",
        lambda layer, layers, stages, m, a, h: (
            replace_terms()(layer, layers, stages, m, 0, 0) + max(0, a - h)
        ),
    ),
    (
        "this takes the hidden share off the rest of the step. It costs nothing, and "
        "saves nothing.",
        replace_terms(exposed=lambda hidden: -hidden),
    ),
    (
        "this counts the hidden share once more. It costs nothing.",
        replace_terms(exposed=lambda hidden: 1 + hidden),
    ),
    (
        "`hidden` is a share of the all-reduce. The turns of the pipeline count whole.",
        lambda layer, layers, stages, m, a, h: (
            replace_terms()(layer, layers, stages, m, a, 0) * (1 - h)
        ),
    ),
    (
        "this waits for an all-reduce in each turn. Gradients are summed once, at the end.",
        lambda layer, layers, stages, m, a, h: replace_terms()(
            layer, layers, stages, m, (m + stages - 1) * a, h
        ),
    ),
    (
        "the last stage begins stages - 1 turns late, and a turn need not be 1 second.",
        lambda layer, layers, stages, *rest: (
            replace_terms(fill=0)(layer, layers, stages, *rest) + stages - 1
        ),
    ),
    (
        "a stage has `layers` / `stages` layers, and this counts one.",
        lambda layer, layers, stages, *rest: replace_terms()(layer, stages, stages, *rest),
    ),
    (
        "what is not hidden comes after the turns: add the two times. This takes the longer one.",
        lambda layer, layers, stages, m, a, h: max(
            replace_terms()(layer, layers, stages, m, 0, 0), a * (1 - h)
        ),
    ),
    (
        "this fills with one turn too few: the first stage has a turn for each micro-batch, "
        "and the last one begins stages - 1 turns later.",
        lambda layer, layers, stages, m, a, h: replace_terms()(layer, layers, stages, m - 1, a, h),
    ),
    (
        "a turn is one stage's time, and a stage may have several layers. This fills with the "
        "time of one layer.",
        replace_terms(fill=lambda layers, stages: stages / layers),
    ),
    (
        "the all-reduce takes `all_reduce` seconds in all, not for each stage.",
        lambda layer, layers, stages, m, a, h: replace_terms()(
            layer, layers, stages, m, stages * a, h
        ),
    ),
    (
        "the layer's seconds are those of forward and backward together. This counts them twice.",
        lambda layer, *rest: replace_terms()(2 * layer, *rest),
    ),
    ("the all-reduce is missing.", replace_terms(exposed=lambda hidden: 0)),
    (
        "this waits for an all-reduce in each micro-batch. Gradients are summed once, at the end.",
        lambda layer, layers, stages, m, a, h: replace_terms()(layer, layers, stages, m, m * a, h),
    ),
    (
        "this is one stage after the other, without a pipeline.",
        lambda layer, layers, stages, m, a, h: layer * layers * m + a * (1 - h),
    ),
]
