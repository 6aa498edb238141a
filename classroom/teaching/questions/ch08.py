"""Chapter 08: pipelines, run by the course's own simulator."""

from itertools import pairwise

import torch

from pedagogy_lib import simulate

from ..collective_simulation import bytes_of, empty
from ..question import Question


def all_forwards_first(stages, microbatches):
    return [[(kind, i) for kind in "FB" for i in range(microbatches)] for _ in range(stages)]


def turn_by_turn(stages, microbatches):
    """Build 1F1B: each rank does a backward as soon as it may keep no more micro-batches."""
    rows = []
    for rank in range(stages):
        room, row, forth, back = min(microbatches, stages - rank), [], 0, 0
        while back < microbatches:
            if forth < microbatches and forth - back < room:
                row.append(("F", forth))
                forth += 1
            else:
                row.append(("B", back))
                back += 1
        rows.append(row)
    return rows


def halves_apart(stages, microbatches):
    """Build 1F1B with backwards in two halves; rank r delays the weights' half by r."""
    rows = []
    for rank, row in enumerate(turn_by_turn(stages, microbatches)):
        halves, owed = [], []
        for kind, i in row:
            halves.append((kind.replace("B", "I"), i))
            if kind == "B":
                owed.append(i)
                if len(owed) > rank:
                    halves.append(("W", owed.pop(0)))
        rows.append(halves + [("W", i) for i in owed])
    return rows


def schedule_interleaved(stages, microbatches, chunks):
    """Build interleaved 1F1B, in the order of Megatron-LM."""
    rows = []
    groups = range(0, microbatches, stages)
    forth = [("F", g + i, c) for g in groups for c in range(chunks) for i in range(stages)]
    back = [("B", i, chunks - 1 - c) for _, i, c in forth]
    for rank in range(stages):
        warm = min((stages - rank - 1) * 2 + (chunks - 1) * stages, len(forth))
        pairs = [x for pair in zip(forth[warm:], back) for x in pair]
        rows.append(forth[:warm] + pairs + back[len(forth) - warm :])
    return rows


def bubble_simulated(stages, microbatches):
    timeline = simulate(all_forwards_first(stages, microbatches))
    return {"whole": 100 * timeline.idle_share, "ideal": 100 * timeline.overhead}


def step_simulated(stages, microbatches, forward):
    times = {"F": forward, "B": 2 * forward}
    alone = [[x for i in range(microbatches) for x in (("F", i), ("B", i))] for _ in range(stages)]
    return {"step": simulate(all_forwards_first(stages, microbatches), times).seconds,
            "alone": simulate(alone, times).seconds}  # fmt: skip


def simulate_kept_activations(stages, microbatches, each):
    one = simulate(turn_by_turn(stages, microbatches)).most_kept
    return {"gpipe": each * simulate(all_forwards_first(stages, microbatches)).most_kept[0],
            "first": each * one[0], "last": each * one[-1]}  # fmt: skip


def fewest(stages, percent):
    microbatches = 1
    while 100 * simulate(all_forwards_first(stages, microbatches)).idle_share > percent + 1e-9:
        microbatches += 1
    return {"microbatches": microbatches}


def passes(stages, chunks):
    """Count how often a forward goes on from one rank to another one."""
    visited = [rank for _ in range(chunks) for rank in range(stages)]
    return sum(a != b for a, b in pairwise(visited))


def simulate_interleaved_1f1b(stages, microbatches, chunks):
    rows = schedule_interleaved(stages, microbatches, chunks)
    times = {"F": 1 / chunks, "B": 2 / chunks}
    plain = simulate(turn_by_turn(stages, microbatches))
    return {"one": 100 * plain.overhead, "many": 100 * simulate(rows, times).overhead,
            "few": passes(stages, 1), "often": passes(stages, chunks)}  # fmt: skip


def unequal_simulated(microbatches, slow):
    even = simulate(all_forwards_first(4, microbatches))
    times = [1.0, 1.0, slow, 1.0]
    found = simulate(all_forwards_first(4, microbatches), {"F": times, "B": [2 * t for t in times]})
    return {"even": even.seconds, "uneven": found.seconds}


def boundary(samples, context, width, microbatches):
    once = bytes_of([empty(samples, context, width, dtype=torch.bfloat16)]) / 1e6
    return {"each": once, "all": sum(once for _ in range(microbatches) for _ in "FB") / 1e3}


def versions_counted(stages, stage):
    """Count the updates during a flight: without a flush, each backward is followed by one."""
    row = turn_by_turn(stages, 4 * stages)[stage]
    probe = 2 * stages  # a micro-batch of the steady state
    between = row[row.index(("F", probe)) : row.index(("B", probe))]
    updates = sum(kind == "B" for kind, _ in between)
    return {"versions": updates + 1, "late": updates}


def zero_bubble_simulated(stages, microbatches):
    equal = {"F": 1.0, "B": 2.0, "I": 1.0, "W": 1.0}
    plain = simulate(turn_by_turn(stages, microbatches), equal)
    halves = simulate(halves_apart(stages, microbatches), equal)
    return {"plain": plain.seconds - 3 * microbatches, "halves": halves.seconds - 3 * microbatches}


QUESTIONS = [
    Question(
        "8.1", "08", 1, 4,
        "GPipe runs {microbatches} micro-batches on {stages} stages of equal times; messages take "
        "none. How large is the bubble, as a share of the whole time, and over the ideal time?",
        "{whole:.3g} % of the whole, which is {ideal:.3g} % over the ideal.",
        "Each rank is idle for {stages} − 1 turns and works for {microbatches}. The whole is both "
        "together; the ideal is the work alone.",
        given={"stages": (4, 8), "microbatches": (12, 16, 28)},
        solve=lambda stages, microbatches: {
            "whole": 100 * (stages - 1) / (microbatches + stages - 1),
            "ideal": 100 * (stages - 1) / microbatches},
        again=bubble_simulated,
        stated={"whole": 20, "ideal": 25},
    ),
    Question(
        "8.2", "08", 2, 5,
        "A forward of one micro-batch takes {forward} ms on each of {stages} stages, a backward "
        "twice as long. How long does a step of {microbatches} micro-batches take under GPipe? How "
        "long without a pipeline, if each micro-batch goes through all stages and back before the "
        "next one begins?",
        "{step:g} ms under GPipe, {alone:g} ms without.",
        "GPipe takes {microbatches} + {stages} − 1 turns of 3 × {forward} ms. Without a pipeline "
        "one stage works at a time: {microbatches} × {stages} turns.",
        given={"stages": (4, 8), "microbatches": (8, 16), "forward": (10, 15)},
        solve=lambda stages, microbatches, forward: {
            "step": (microbatches + stages - 1) * 3 * forward,
            "alone": microbatches * stages * 3 * forward},
        again=step_simulated,
        stated={"step": 330, "alone": 960},
    ),
    Question(
        "8.3", "08b", 2, 5,
        "{stages} stages train with {microbatches} micro-batches, and a stage keeps {each} GB of "
        "activations for each micro-batch in flight. How many GB does the first stage keep at most "
        "under GPipe? How many GB do the first and the last stage keep under 1F1B? Does 1F1B have "
        "a smaller bubble?",
        "GPipe: {gpipe:g} GB. 1F1B: {first:g} GB on the first stage, {last:g} GB on the last one. "
        "The bubble is the same.",
        "GPipe keeps all micro-batches. Under 1F1B stage s (from 0) keeps at most {stages} − s of "
        "them. Both orders wait for the same forwards and backwards.",
        given={"stages": (4, 8), "microbatches": (16, 32), "each": (0.5, 1.5)},
        solve=lambda stages, microbatches, each: {
            "gpipe": microbatches * each, "first": stages * each, "last": each},
        again=simulate_kept_activations,
        stated={"gpipe": 8, "first": 2, "last": 0.5},
    ),
    Question(
        "8.4", "08", 2, 5,
        "A pipeline has {stages} equal stages and a flush at the end of each step. With how many "
        "micro-batches, at least, is its bubble at most {percent} % of the whole time?",
        "With {microbatches:g}.",
        "(p − 1)/(m + p − 1) ≤ b means m ≥ (p − 1)(1 − b)/b, with p = {stages} and b = "
        "{percent}/100.",
        given={"stages": (8, 4, 6), "percent": (5, 10)},
        solve=lambda stages, percent: {
            "microbatches": -(-(stages - 1) * (100 - percent) // percent)},
        again=fewest,
        stated={"microbatches": 133},
    ),
    Question(
        "8.5", "08e", 2, 6,
        "{stages} ranks train with {microbatches} micro-batches under 1F1B. How large is the "
        "bubble over the ideal? How large is it if each rank has {chunks} chunks of the model, "
        "interleaved? How many messages from rank to rank does the forward of a micro-batch take "
        "before, and how many then?",
        "{one:.4g} % with one chunk, {many:.4g} % with {chunks}. {few:g} messages before, "
        "{often:g} then.",
        "(p − 1)/m becomes (p − 1)/(v m): a rank waits for chunks that take 1/v of the time. Each "
        "micro-batch passes through all ranks v times, and is handed on p v − 1 times.",
        given={"stages": (4, 8), "microbatches": (16, 32), "chunks": (2, 4)},
        solve=lambda stages, microbatches, chunks: {
            "one": 100 * (stages - 1) / microbatches,
            "many": 100 * (stages - 1) / (chunks * microbatches),
            "few": stages - 1, "often": stages * chunks - 1},
        again=simulate_interleaved_1f1b,
        stated={"one": 18.75, "many": 9.375, "few": 3, "often": 7},
    ),
    Question(
        "8.6", "08g", 3, 7,
        "Three of four stages take 1 for the forward of a micro-batch, the third one takes {slow}. "
        "A backward takes twice as long as its forward. How long is a step of {microbatches} "
        "micro-batches under GPipe if all four took 1? How long with the slow stage?",
        "{even:g} with equal stages, {uneven:g} with the slow one.",
        "The slowest stage works without a break: all forwards take the sum of the four times, "
        "plus {microbatches} − 1 times the largest one; all backwards take twice that.",
        given={"microbatches": (8, 16), "slow": (2, 1.5)},
        solve=lambda microbatches, slow: {
            "even": 3 * (microbatches + 3), "uneven": 3 * (3 + slow + (microbatches - 1) * slow)},
        again=unequal_simulated,
        stated={"even": 33, "uneven": 57},
    ),
    Question(
        "8.7", "08g", 1, 4,
        "A micro-batch has {samples} sample(s) of {context:,} tokens, the width is {width:,}, and "
        "activations have 16 bits. How many MB does a stage send to the next one for a "
        "micro-batch? How many GB cross this boundary in both directions in a step of "
        "{microbatches} micro-batches?",
        "{each:.4g} MB; {all:.4g} GB.",
        "One activation tensor goes forward and a gradient of the same size comes back, for each "
        "micro-batch. The number of the stage's layers does not matter.",
        given={"samples": (1, 2), "context": (4096, 2048), "width": (8192, 4096),
               "microbatches": (32, 64)},
        solve=lambda samples, context, width, microbatches: {
            "each": 2 * samples * context * width / 1e6,
            "all": 2 * microbatches * 2 * samples * context * width / 1e9},
        again=boundary,
        stated={"each": 67.1089, "all": 4.29497},
    ),
    Question(
        "8.8", "08h", 3, 6,
        "PipeDream runs 1F1B without a flush on {stages} stages, and updates weights after each "
        "backward. A backward uses the weights of its own forward. In the steady state, how many "
        "versions of its weights does stage {stage} keep (stages count from 0), and by how many "
        "updates is a gradient late there?",
        "{versions:g} versions; late by {late:g} updates.",
        "Between a micro-batch's forward and its backward on stage s there are "
        "{stages} − 1 − s backwards of others, each with an update.",
        given={"stages": (4, 6, 8), "stage": (1, 0, 2)},
        solve=lambda stages, stage: {"versions": stages - stage, "late": stages - 1 - stage},
        again=versions_counted,
        stated={"versions": 3, "late": 2},
    ),
    Question(
        "8.9", "08f", 3, 6,
        "A forward, a backward for the inputs and one for the weights take 1 each, on each of "
        "{stages} stages with {microbatches} micro-batches. How much longer than the ideal is a "
        "step under 1F1B? How much longer under ZB-H1, which puts weights' gradients off to fill "
        "gaps, and keeps no more in flight than 1F1B's first stage?",
        "{plain:g} under 1F1B, {halves:g} under ZB-H1.",
        "1F1B waits for {stages} − 1 whole turns of 1 + 2. Nobody waits for gradients of weights, "
        "so that they fill two thirds of it; {stages} − 1 remain.",
        given={"stages": (4, 6, 8), "microbatches": (16, 24)},
        solve=lambda stages, microbatches: {"plain": 3 * (stages - 1), "halves": stages - 1},
        again=zero_bubble_simulated,
        stated={"plain": 9, "halves": 3},
    ),
    Question(
        "8.10", "08i", 2, 4,
        "A pipeline can take the tokens of one sample in slices, one slice after another, as if "
        "they were micro-batches. Why does that work for a causal language model, and not for a "
        "model in which each token looks at all others?",
        "In a causal model a token depends on itself and earlier tokens. So a slice can go through "
        "all layers before later slices have begun, if keys and values of earlier slices are kept. "
        "If a token looks at later ones, its first attention layer has to wait for all slices.",
        "In the backward the order is reversed: the gradients of a slice's keys and values come "
        "from all later slices, too.",
    ),
]  # fmt: skip
