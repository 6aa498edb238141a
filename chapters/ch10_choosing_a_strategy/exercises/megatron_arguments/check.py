"""The parallel part of Megatron-LM's command line. The truth is a table of when options apply."""

from difflib import get_close_matches

from coursekit.answers.remote_answer import call_next_to_answer
from coursekit.kit.results import NO_RETURN, NOT_ITS_OWN, plain
from coursekit.protocol import Exercise, Wrong

from .cases import (
    CASES,
    GRANULARITY,
    LAYERS,
    METHOD,
    OPTIONS,
    PLAIN,
    SEQUENCE,
    VIRTUAL,
    ZERO,
    options_after,
)
from .truth import truth, wrong_values

MISSING = {
    ZERO: "the plan shards the optimizer's states, ZeRO 1, and the line does not say so: each rank "
    "would keep all of them",
    SEQUENCE: "sequence parallelism is a switch of its own: tp alone leaves norms and residuals "
    "whole",
    VIRTUAL: "a stage of several chunks has to be told; without it the pipeline is not interleaved",
    METHOD: "with everything recomputed, Megatron-LM also wants to know how: the method, and the "
    "layers in a part",
    LAYERS: "with everything recomputed, Megatron-LM also wants to know how: the method, and the "
    "layers in a part",
    GRANULARITY: "the plan recomputes, and the line does not say so",
}

EXTRA = {
    ZERO: "the plan has ZeRO 0: nothing is sharded",
    SEQUENCE: "sequence parallelism is not wanted here, or there is no tp that it could go with",
    VIRTUAL: "with one chunk on each stage the pipeline is not interleaved: leave the option out",
    METHOD: "the method belongs to recomputing everything, and not to the inside of attention",
    LAYERS: "the layers of a part belong to recomputing everything",
    GRANULARITY: "nothing is recomputed: the option has no value for that, leave it out",
}

UNKNOWN = {
    "--data-parallel-size": "Megatron-LM has no option for dp: it divides the number of ranks by "
    "tp × pp × cp",
    "--num-virtual-stages-per-pipeline-rank": "this option exists, and counts chunks; asked is the "
    "one that counts the layers of a chunk",
    "--recompute-activations": "this option exists, for the inside of attention alone; asked is "
    "the granularity",
}


def examine(answer):
    before = None
    for case, (changed, batch, layers) in CASES.items():
        call = PLAIN | changed, batch, layers
        outcome, fields, is_kept = call_next_to_answer(options_after, answer, before, call)
        before = call
        if fields != call[0]:
            raise Wrong(case, "the plan has changed", NOT_ITS_OWN)
        if is_kept:
            why = "options of earlier plans are still in it: each call makes a new dict"
            raise Wrong(case, "it returned the same dict as for the plan before", why)
        judge(case, outcome)
        yield f"{case}: {len(truth(case))} options"


def judge(case, outcome):
    if outcome.error:
        raise Wrong(case, str(outcome), why_raised(outcome))
    got, wanted = plain(outcome.value), truth(case)
    if got is None:
        raise Wrong(case, "it returned None", NO_RETURN)
    if not isinstance(got, dict):
        raise Wrong(case, f"it returned {got!r:.90}", "asked is a dict of options and values")
    unknown = next((option for option in got if option not in OPTIONS), None)
    if unknown is not None:
        why = UNKNOWN.get(unknown) or why_unknown(unknown)
        why = NO_DASHES if f"--{unknown}" in OPTIONS else why
        raise Wrong(case, f"it has {unknown!r:.60}", why)
    for option in OPTIONS:
        judge_option(case, option, got, wanted)


def why_unknown(option) -> str:
    told = "it is none of the options of the exercise's table"
    near = get_close_matches(str(option), OPTIONS, 1)
    return f"{told}. Is it {near[0]}?" if near else told


NO_DASHES = "an option's name begins with two dashes"


def judge_option(case, option, got, wanted):
    if option in wanted and option not in got:
        why = MISSING.get(option, "the sizes and both batches are always there, also if they are 1")
        raise Wrong(case, f"{option} is missing", why)
    if option not in got:
        return
    value = got[option]
    if option not in wanted:
        why = "a switch that is not wanted is left out" if value in (False, None) else EXTRA[option]
        raise Wrong(case, f"{option} is there, with {value!r:.40}", why)
    if value != wanted[option]:
        why = next((why for one, why in wrong_values(case).get(option, ()) if one == value), "")
        what = f"{option} is {value!r:.40}, expected {wanted[option]!r}"
        raise Wrong(case, what, why or explain_value_type(value, wanted[option]))
    if type(value) is not type(wanted[option]):
        what = f"{option} is {value!r:.40}, expected {wanted[option]!r}"
        raise Wrong(case, what, explain_value_type(value, wanted[option]))


def explain_value_type(value, wanted) -> str:
    if wanted is True:
        return "it is a switch: its value is True"
    if isinstance(wanted, int) and (isinstance(value, bool) or not isinstance(value, int)):
        return "the value is a whole number, such as 8"
    return ""


def why_raised(outcome) -> str:
    if "TypeError" in outcome.kinds and "subscriptable" in outcome.message:
        return "a plan has attributes: plan.tp"
    if "AttributeError" in outcome.kinds:
        return "a plan has dp, tp, pp, cp, zero, micro_batch, recompute, chunks and sequence"
    if "ZeroDivisionError" in outcome.kinds:
        return "chunks is at least 1: what was divided by?"
    return ""


EXERCISE = Exercise(
    "megatron_arguments",
    examine,
    hints=(
        "Begin with the five that are always there. Each of the others has an `if`.",
        "Sequence parallelism needs two things: that it is wanted, and a tp of more than 1.",
        "A pipeline of pp stages with `chunks` chunks each has pp × chunks pieces. How many "
        "layers has one?",
    ),
    lab="configurations",
)
