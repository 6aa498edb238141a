"""Findings on programs that compute something else on several ranks than on one."""

from collections import Counter, defaultdict

from ..basics.rank_texts import ranks_text
from .findings import NOTE, WRONG, Finding

ENOUGH_STEPS = 3  # in which something must be alike, so that it is no accident
NEAR = 0.02  # relative to what is compared


def find_strided(trace):
    for one in trace:
        for name, line in one.list_facts("strided"):
            yield Finding(
                "strided", WRONG,
                f"{name}() gets a tensor with gaps in memory, such as a column of a matrix. Gloo "
                "takes its memory for one piece, and computes wrong numbers without an error.",
                "Give it x.contiguous(), and copy the result back.",
                one.lines[line],
            )  # fmt: skip


def find_gathers_without_gradient(trace):
    for one in trace:
        lines = {line for _, line in one.list_facts("gathered without gradient")}
        for line in lines:
            calls = [call for call in one.calls if call.line == line]
            if len({call.step for call in calls}) >= min(ENOUGH_STEPS, trace.steps) > 0:
                yield Finding(
                    "gather without gradient", WRONG,
                    f"{calls[0].name}() carries no gradient back to the ranks that its tensors "
                    "came from, so that a loss over gathered tensors has only a part of its "
                    "gradient.",
                    "Use torch.distributed.nn.functional.all_gather, or gather x.detach() where "
                    "no gradient is meant.",
                    one.lines[line],
                )  # fmt: skip


def find_late_no_sync(trace):
    for one in trace:
        for _, line in one.list_facts("no_sync after the forward"):
            yield Finding(
                "no_sync around the backward", WRONG,
                "no_sync() covers the backward alone. DDP decides in the forward whether it "
                "communicates, so that this backward averages gradients as always.",
                "Put the forward into the block, too.",
                one.lines[line],
            )  # fmt: skip


def find_repeated_epochs(trace):
    for one in trace:
        for epoch, line in one.list_facts("epoch repeated"):
            yield Finding(
                "set_epoch is missing", WRONG,
                f"The DistributedSampler shuffles for epoch {epoch} again, so that each epoch has "
                "the same order of samples, and each rank the same part of them.",
                "Call sampler.set_epoch(epoch) before each epoch.",
                one.lines[line],
            )  # fmt: skip


def find_equal_data(trace):
    for ranks in trace.averaging_groups:
        for alike in ranks_with_equal_data(trace, ranks):
            line = line_of_batch(trace.ranks[alike[0]])
            yield Finding(
                "equal data", WRONG,
                f"{ranks_text(alike).capitalize()} get the same batches in all steps, so that "
                "they compute the same gradients: more ranks, but no larger batch.",
                "Give each rank its own samples, with a DistributedSampler or its own seed.",
                line,
            )  # fmt: skip


def ranks_with_equal_data(trace, ranks):
    """Yield the ranks, among those that average gradients, that see the same data."""
    seen = defaultdict(list)
    for one in trace.of(ranks):
        data = data_of(one)
        if len(data) >= ENOUGH_STEPS:
            seen[tuple(data)].append(one.rank)
    for alike in seen.values():
        if len(alike) > 1:
            yield alike


def data_of(one) -> list:
    """Return a number for each training batch of a rank: of its inputs, or else of its losses."""
    trained = {step for step, *_ in one.losses}
    for source in ("input", "batch"):
        numbers = [number for step, _, number, _ in one.batches[source] if step in trained]
        if numbers:
            return numbers if len(set(numbers)) > 1 or source == "batch" else numbers
    return [value for _, value, *_ in one.losses if value is not None]


def line_of_batch(one):
    for source in ("batch", "input"):
        for *_, line in one.batches[source]:
            return one.lines[line]
    return None


def find_uneven_batches(trace):
    for ranks in trace.averaging_groups:
        rows = defaultdict(dict)  # {index of the batch: {rank: rows}}
        for one in trace.of(ranks):
            source = "input" if one.batches["input"] else "batch"
            for index, (step, count, *_) in enumerate(one.batches[source]):
                if step < trace.steps:
                    rows[index][one.rank] = count
        uneven = {index: of for index, of in rows.items() if len(set(of.values())) > 1}
        is_mean = any(mean for one in trace.of(ranks) for *_, mean in one.losses)
        if uneven and is_mean:
            index, of = next(iter(uneven.items()))
            told = ", ".join(f"{count} on rank {rank}" for rank, count in sorted(of.items())[:4])
            yield Finding(
                "uneven batches", WRONG,
                f"Ranks have batches of different sizes ({told} in batch {index}), so that the "
                "mean of their mean losses is not the mean over all samples.",
                "Weight each rank's loss by its share of the samples, or use drop_last=True.",
                line_of_batch(trace.ranks[min(of)]),
            )  # fmt: skip


def find_gradients_apart(trace):
    """Find ranks that train alone: their gradients differ when the optimizer begins."""
    if trace.steps < 2 or len(trace) < 2:
        return
    for ranks, names in comparable_parameters(trace):
        apart = steps_apart(trace, ranks, names, "gradients")
        if not apart["steps"] or not apart["names"]:
            continue
        everywhere = len(apart["steps"]) == apart["noted"]
        one = trace.ranks[ranks[0]]
        step_line = one.lines[one.steps[0][3]]
        forwards = [span for span in one.spans_of("forward") if span.step < trace.steps]
        if everywhere and len(apart["names"]) == len(names) and one.list_facts("ddp"):
            if len({span.step for span in forwards}) < trace.steps / 2:
                (_, line), *_ = one.list_facts("ddp")
                yield Finding(
                    "DDP is bypassed", WRONG,
                    "The module that DDP wraps is trained, but not called through DDP, so that "
                    "gradients are not averaged, and each rank trains its own model.",
                    "Call the DDP module itself in the forward, not its .module or the model "
                    "that it was made from.",
                    one.lines[line],
                )  # fmt: skip
                continue
        if everywhere and len(apart["names"]) == len(names):
            yield Finding(
                "gradients are not averaged", WRONG,
                f"{ranks_text(ranks).capitalize()} step with different gradients: nothing averages "
                "them, so that each rank trains its own model.",
                "Wrap the model in DistributedDataParallel, or average each gradient before the "
                "optimizer's step.",
                step_line,
            )  # fmt: skip
        elif len(apart["names"]) < len(names):
            shown = ", ".join(apart["names"][:3]) + ", …" * (len(apart["names"]) > 3)
            yield Finding(
                "some gradients are not averaged", WRONG,
                f"The gradients of {shown} differ between {ranks_text(ranks)} when the optimizer "
                "begins, while those of the other parameters are equal.",
                "Average the gradients of these parameters, too.",
                step_line,
            )  # fmt: skip
        else:
            steps = ", ".join(map(str, apart["steps"][:4]))
            yield Finding(
                "gradients are not averaged in some steps", WRONG,
                f"In steps {steps}{', …' * (len(apart['steps']) > 4)} of {trace.steps}, "
                f"{ranks_text(ranks)} step with gradients that were not averaged.",
                "The last backward before a step has to average: look at no_sync() and at the "
                "condition around it.",
                step_line,
            )  # fmt: skip


def comparable_parameters(trace):
    """Yield ranks, and the names of parameters of which these ranks should hold equal copies."""
    one = trace.first
    names = [
        name for name, _, _, is_trained, is_sharded in one.names if is_trained and not is_sharded
    ]
    if any(other.names != one.names for other in trace) or not names:
        return
    if one.replicas:
        ranks = next(iter(one.replicas.values()))
        known = [name for name in names if one.replicas.get(name) == ranks]
        if len(ranks) > 1 and known:
            yield ranks, known
        return
    groups = trace.averaging_groups
    if groups:
        if len(groups) == 1:
            yield groups[0], names
    elif starts_alike(trace, names) and not communicates_while_training(trace):
        yield tuple(trace.ranks), names


def starts_alike(trace, names) -> bool:
    return not steps_apart(trace, tuple(trace.ranks), names, "first parameters")["names"]


def communicates_while_training(trace) -> bool:
    """Return whether ranks exchange something large in forward or backward, as parts of a model."""
    return any(
        call.nbytes > 0.01 * one.gradient_bytes and call.name != "broadcast"
        for one in trace for call in one.calls if call.step < len(one.steps)
    )  # fmt: skip


def steps_apart(trace, ranks, names, kind) -> dict:
    """Return the steps and names in which a digest differs between ranks, and the steps noted."""
    index = {name: i for i, (name, *_) in enumerate(trace.first.names)}
    of_ranks = [one.digests[kind] for one in trace.of(ranks)]
    noted = set.intersection(*map(set, of_ranks)) if of_ranks else set()
    steps, different = [], {}
    for step in sorted(noted):
        here = [
            name for name in names
            if len({digests[step][index[name]] for digests in of_ranks
                    if index[name] < len(digests[step])}) > 1
        ]  # fmt: skip
        different |= dict.fromkeys(here)
        steps += [step] * bool(here)
    return {"steps": steps, "names": list(different), "noted": len(noted)}


def find_different_starts(trace):
    for ranks, names in comparable_parameters(trace):
        apart = steps_apart(trace, ranks, names, "first parameters")
        alone = steps_apart(trace, ranks, names, "gradients")
        if apart["names"] and not alone["names"]:
            one = trace.ranks[ranks[0]]
            yield Finding(
                "different parameters at the start", WRONG,
                f"{ranks_text(ranks).capitalize()} begin with different parameters, such as "
                f"{apart['names'][0]}, although they average their gradients.",
                "Seed all ranks alike before the model is made, or broadcast the parameters from "
                "rank 0.",
                one.lines[one.steps[0][3]],
            )  # fmt: skip


def find_divergence(trace):
    """Find replicas that began alike, have equal gradients, and become different nevertheless."""
    for ranks, names in comparable_parameters(trace):
        apart = steps_apart(trace, ranks, names, "parameters")
        before = steps_apart(trace, ranks, names, "first parameters")
        gradients = steps_apart(trace, ranks, names, "gradients")
        if not apart["names"] or before["names"]:
            continue
        first = apart["steps"][0]
        if gradients["steps"] and gradients["steps"][0] <= first:
            continue  # told as gradients that differ
        rates = {tuple(one.steps[first][2]) for one in trace.of(ranks) if first < len(one.steps)}
        why = " Their learning rates differ: " + " and ".join(
            f"{rate[0]:.4g}" for rate in sorted(rates)[:2] if rate) + "." if len(rates) > 1 else ""  # fmt: skip
        one = trace.ranks[ranks[0]]
        yield Finding(
            "replicas diverge", WRONG,
            f"From step {first} on, {apart['names'][0]} differs between {ranks_text(ranks)}, "
            f"although their gradients are equal.{why}",
            "Every rank has to take the same step: the same learning rate, the same state of the "
            "optimizer, the same decision to skip a step.",
            one.lines[one.steps[first][3]],
        )  # fmt: skip


def find_wrong_means(trace):
    """Compare the numbers of some gradients after the backward with those that the step uses."""
    for ranks in trace.averaging_groups:
        ratios = Counter()
        n = len(ranks)
        ranked = trace.of(ranks)
        is_ddp = bool(ranked[0].list_facts("ddp"))
        is_mean = all(mean for one in ranked for *_, mean in one.losses)
        for step in range(1, min(5, trace.steps)):
            raw = [one.values["raw"].get(step) for one in ranked]
            final = ranked[0].values["final"].get(step)
            if final and all(raw) and not any(span.kind == "clip" and span.step == step
                                              for span in ranked[0].spans):  # fmt: skip
                ratios[ratio_of(raw, final, is_ddp, n)] += 1
        told, count = next(iter(ratios.most_common(1)), ("", 0))
        if count < 2 or told not in MEANS or (told == "sum" and not is_mean):
            continue
        calls = [call for call in ranked[0].calls
                 if call.name in ("all_reduce", "reduce_scatter") and 0 < call.step < trace.steps]  # fmt: skip
        line = ranked[0].lines[max(calls, key=lambda call: call.nbytes).line] if calls else None
        what, remedy = MEANS[told]
        yield Finding(f"gradients: {told}", WRONG, what.format(n=n), remedy, line)


MEANS = {
    "sum": (
        "The optimizer steps with the sum of the ranks' gradients, {n} times their mean, although "
        "each loss is a mean over the rank's own samples.",
        "Divide by the world size, or all_reduce with op=dist.ReduceOp.AVG where the backend "
        "has it.",
    ),
    "divided twice": (
        "The gradients are divided by the number of ranks twice, so that each step is {n} times "
        "too short.",
        "DDP already averages: leave the second division out.",
    ),
}


def ratio_of(raw, final, is_ddp, n) -> str:
    """Return how the final gradient came from the ranks' own: "mean", "sum", or another word."""
    totals = [sum(values) for tensors in zip(*raw) for values in zip(*tensors)]
    finals = [value for tensor in final for value in tensor]
    weight = sum(abs(value) for value in totals)
    if not weight or len(totals) != len(finals):
        return ""
    # Fitted to all numbers at once, because single ones may be zero.
    ratio = sum(t * f for t, f in zip(totals, finals)) / sum(t * t for t in totals)
    gap = sum(abs(f - ratio * t) for t, f in zip(totals, finals)) / weight
    if gap > NEAR * abs(ratio):
        return ""
    expected = {"mean": 1 / n, "divided twice": 1 / n**2} | ({} if is_ddp else {"sum": 1.0})
    return next((name for name, one in expected.items() if abs(ratio - one) < NEAR * one), "")


def find_early_clipping(trace):
    for one in trace:
        steps = set()
        for clip in one.spans_of("clip"):
            later = sum(call.nbytes for call in one.calls
                        if call.step == clip.step and call.begin > clip.end
                        and call.name in ("all_reduce", "reduce_scatter"))  # fmt: skip
            if later >= 0.5 * one.gradient_bytes > 0:
                steps.add((clip.step, clip.line))
        if len(steps) >= min(ENOUGH_STEPS, max(1, trace.steps)):
            yield Finding(
                "clipped before the mean", WRONG,
                "Each rank clips its own gradients before they are averaged, so that ranks clip "
                "by different factors, and the mean is not the clipped mean.",
                "Clip after the gradients have been averaged.",
                one.lines[next(iter(steps))[1]],
            )  # fmt: skip
            return


def find_checkpoint_race(trace):
    paths = defaultdict(dict)
    for one in trace:
        for path, line in one.list_facts("saved"):
            paths[path][one.rank] = one.lines[line]
    for path, ranks in paths.items():
        if len(ranks) > 1 and not path.startswith("/dev/"):
            yield Finding(
                "all ranks write one checkpoint", WRONG,
                f"{ranks_text(sorted(ranks)).capitalize()} write the same file, {path}, so that "
                "it may end as a mixture of them.",
                "Let rank 0 alone save what all ranks hold, or use torch.distributed.checkpoint.",
                next(iter(ranks.values())),
            )  # fmt: skip


def find_idle_optimizer(trace):
    for one in trace:
        noted = [numbers for step, numbers in one.digests["gradients"].items()]
        trained = [is_trained for _, _, _, is_trained, _ in one.names]
        if trace.steps >= 2 and noted and any(trained) and not any(map(any, noted)) and one.losses:
            sharded = any(is_sharded for *_, is_sharded in one.names)
            if not sharded:
                yield Finding(
                    "the optimizer has other parameters", WRONG,
                    "None of the optimizer's parameters gets a gradient in any step: it holds "
                    "other parameters than the model that is trained.",
                    "Make the optimizer from the model's parameters after the model has been "
                    "wrapped, moved or sharded.",
                    one.lines[one.steps[0][3]],
                )  # fmt: skip
                return


def find_equal_draws(trace):
    for ranks in trace.averaging_groups:
        states = [one.random for one in trace.of(ranks)]
        if any(len(state["forward"]) < ENOUGH_STEPS for state in states):
            continue
        draws = all(
            dict(state["forward"]) .get(step) != number
            for state in states for step, number in state["backward"] if step < trace.steps
        )  # fmt: skip
        alike = len({tuple(state["forward"]) for state in states}) == 1
        if draws and alike and not list(ranks_with_equal_data(trace, ranks)):
            one = trace.ranks[ranks[0]]
            line = one.lines[one.batches["input"][0][3]] if one.batches["input"] else None
            yield Finding(
                "equal random draws", NOTE,
                f"{ranks_text(ranks).capitalize()} draw the same random numbers in the forward, "
                "such as dropout masks, for different samples.",
                "Seed each rank differently once the model is made: torch.manual_seed(seed + rank).",
                line,
            )  # fmt: skip


def find_parameters_without_gradient(trace):
    one = trace.first
    noted = list(one.digests["gradients"].values())
    if trace.steps < ENOUGH_STEPS or not noted:
        return
    idle = [
        name for i, (name, _, _, is_trained, is_sharded) in enumerate(one.names)
        if is_trained and not is_sharded
        and not any(i < len(numbers) and numbers[i] for numbers in noted)
    ]  # fmt: skip
    if idle and len(idle) < len(one.names):
        shown = ", ".join(idle[:3]) + ", …" * (len(idle) > 3)
        yield Finding(
            "parameters without gradient", NOTE,
            f"{len(idle)} of {len(one.names)} parameters get no gradient in any step: {shown}.",
            "Set requires_grad = False if that is meant; else look where the forward leaves "
            "them out.",
            one.lines[one.steps[0][3]],
        )  # fmt: skip


ALL = [
    find_strided,
    find_idle_optimizer,
    find_gradients_apart,
    find_different_starts,
    find_divergence,
    find_gathers_without_gradient,
    find_equal_data,
    find_wrong_means,
    find_early_clipping,
    find_late_no_sync,
    find_repeated_epochs,
    find_checkpoint_race,
    find_uneven_batches,
    find_equal_draws,
    find_parameters_without_gradient,
]
