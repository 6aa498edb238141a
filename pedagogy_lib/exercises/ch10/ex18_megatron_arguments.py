"""The parallel part of Megatron-LM's command line. The truth is a table of when each is there."""

from difflib import get_close_matches
from types import SimpleNamespace

from ...course.checking import Exercise, Wrong
from ...course.trying import there
from ..kit.outcomes import outcome_of
from ..kit.tables import tabled
from ..kit.values import NO_RETURN, NOT_ITS_OWN, plain

PLAIN = {"dp": 1, "tp": 1, "pp": 1, "cp": 1, "zero": 0, "micro_batch": 1, "recompute": "none",
         "chunks": 1, "sequence": True}  # fmt: skip
CASES = {  # what differs from PLAIN, samples of a step, layers
    "one rank": ({}, 8, 4),
    "dp 2 × tp 2 × pp 2, ZeRO 1": ({"dp": 2, "tp": 2, "pp": 2, "zero": 1}, 16, 4),
    "tp 4, no sequence parallelism": ({"tp": 4, "sequence": False}, 8, 6),
    "dp 4 × cp 2, micro-batch 4": ({"dp": 4, "cp": 2, "micro_batch": 4}, 64, 12),
    "one copy on cp 2, ZeRO 1": ({"cp": 2, "zero": 1}, 8, 4),
    "pp 4, 120 layers in 5 chunks a stage": (
        {"dp": 2, "tp": 8, "pp": 4, "chunks": 5, "zero": 1}, 512, 120),
    "pp 8, 32 layers in 2 chunks a stage": ({"pp": 8, "chunks": 2, "micro_batch": 2}, 96, 32),
    "everything recomputed": ({"dp": 8, "tp": 2, "recompute": "full", "zero": 1}, 32, 40),
    "attention recomputed": ({"tp": 2, "pp": 2, "recompute": "selective"}, 12, 24),
}  # fmt: skip
SIZES = {f"--{name}-parallel-size": axis for name, axis in
         (("tensor-model", "tp"), ("pipeline-model", "pp"), ("context", "cp"))}  # fmt: skip
MICRO, BATCH = "--micro-batch-size", "--global-batch-size"
SEQUENCE, ZERO = "--sequence-parallel", "--use-distributed-optimizer"
VIRTUAL = "--num-layers-per-virtual-pipeline-stage"
GRANULARITY, METHOD, LAYERS = (
    f"--recompute-{what}" for what in ("granularity", "method", "num-layers")
)


OPTIONS = (*SIZES, MICRO, BATCH, SEQUENCE, ZERO, VIRTUAL, GRANULARITY, METHOD, LAYERS)


def layers_of_chunk(plan, layers) -> int:
    """Dealt out one by one, to all chunks of all stages."""
    chunks = [0] * (plan.pp * plan.chunks)
    for layer in range(layers):
        chunks[layer % len(chunks)] += 1
    return max(chunks)


TABLE = {  # option: (whether it is there, its value)
    **{option: (lambda p: True, lambda p, b, n, axis=axis: getattr(p, axis))
       for option, axis in SIZES.items()},
    MICRO: (lambda p: True, lambda p, b, n: p.micro_batch),
    BATCH: (lambda p: True, lambda p, b, n: b),
    SEQUENCE: (lambda p: p.sequence and p.tp != 1, lambda p, b, n: True),
    ZERO: (lambda p: p.zero == 1, lambda p, b, n: True),
    VIRTUAL: (lambda p: p.chunks != 1, lambda p, b, n: layers_of_chunk(p, n)),
    GRANULARITY: (lambda p: p.recompute in ("full", "selective"), lambda p, b, n: p.recompute),
    METHOD: (lambda p: p.recompute == "full", lambda p, b, n: "uniform"),
    LAYERS: (lambda p: p.recompute == "full", lambda p, b, n: 1),
}  # fmt: skip


def arguments_of(case) -> tuple:
    changed, batch, layers = CASES[case]
    return SimpleNamespace(**PLAIN | changed), batch, layers


@tabled(lambda: [(case,) for case in CASES])
def truth(case) -> dict:
    plan, batch, layers = arguments_of(case)
    return {option: value(plan, batch, layers)
            for option, (is_there, value) in TABLE.items() if is_there(plan)}  # fmt: skip


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
VALUES = {
    BATCH: [
        (lambda p, b, n: b // p.micro_batch, "the global batch counts samples, and not "
         "micro-batches"),
        (lambda p, b, n: b // p.dp, "the global batch has the samples of all copies"),
        (lambda p, b, n: b // p.cp, "the ranks of cp share the tokens of a sample: the number of "
         "samples stays"),
        (lambda p, b, n: b * p.dp, "batch are the samples of all copies already"),
        (lambda p, b, n: p.micro_batch * p.dp, "a copy may go through several micro-batches in a "
         "step: the samples of a step are given"),
        (lambda p, b, n: b // (p.dp * p.micro_batch), "this is how many micro-batches a copy goes "
         "through; the global batch counts the samples of all copies"),
    ],
    MICRO: [
        (lambda p, b, n: b // p.dp, "this is what a copy gets in a step; a micro-batch is what "
         "goes through the model at a time"),
        (lambda p, b, n: p.micro_batch * p.dp, "a micro-batch belongs to one copy"),
    ],
    VIRTUAL: [
        (lambda p, b, n: n // p.pp * p.chunks, "a division comes before the product that stands "
         "behind it: the layers are divided by stages and by chunks"),
        (lambda p, b, n: p.chunks, "this is the number of chunks; the option counts the layers of "
         "a chunk"),
        (lambda p, b, n: n // p.chunks, "the stages share out the layers first, and then each "
         "stage its chunks"),
        (lambda p, b, n: n // p.pp, "these are the layers of a whole stage; it has several chunks"),
        (lambda p, b, n: p.pp * p.chunks, "this is how many chunks there are in all; the option "
         "counts the layers of one"),
    ],
    METHOD: [(lambda p, b, n: "block", "with block only some layers of a stage are recomputed; "
              "asked is uniform")],
    **{option: [(lambda p, b, n, axis=axis: getattr(p, axis), f"this is {axis}: tensor belongs to "
                 "tp, pipeline to pp, context to cp") for axis in SIZES.values()]
       for option in SIZES},
    LAYERS: [(lambda p, b, n: n, "then one input is kept for all layers together; asked is one for "
              "each")],
}  # fmt: skip


@tabled(lambda: [(case,) for case in CASES])
def wrong_values(case) -> dict[str, list[tuple]]:
    arguments = arguments_of(case)
    return {option: [(f(*arguments), why) for f, why in known] for option, known in VALUES.items()}


def examine(answer):
    before = None
    for case, (changed, batch, layers) in CASES.items():
        call = PLAIN | changed, batch, layers
        outcome, fields, is_kept = there(options_after, answer, before, call)
        before = call
        if fields != call[0]:
            raise Wrong(case, "the plan has changed", NOT_ITS_OWN)
        if is_kept:
            why = "options of earlier plans are still in it: each call makes a new dict"
            raise Wrong(case, "it returned the same dict as for the plan before", why)
        judge(case, outcome)
        yield f"{case}: {len(truth(case))} options"


def options_after(answer, before, call) -> tuple:
    """Beside the answer: what came of a call, the plan's fields then, and whether it gave a dict
    that it had given for the call before."""
    first, outcome = None, None
    for fields, *more in filter(None, (before, call)):
        plan, first = SimpleNamespace(**fields), outcome
        outcome = outcome_of(answer, plan, *more)
    is_kept = isinstance(outcome.value, dict) and first is not None and outcome.value is first.value
    return outcome, vars(plan), is_kept


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
        raise Wrong(case, what, why or of_another_kind(value, wanted[option]))
    if type(value) is not type(wanted[option]):
        what = f"{option} is {value!r:.40}, expected {wanted[option]!r}"
        raise Wrong(case, what, of_another_kind(value, wanted[option]))


def of_another_kind(value, wanted) -> str:
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
    "10.18",
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
