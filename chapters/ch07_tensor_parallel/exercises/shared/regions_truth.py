"""The right results for regions.py, and the results of known mistakes."""

from coursekit.kit import Holds, RankCase, RankExercise, World, never
from coursekit.kit.forward_backward import right, ring_bytes
from coursekit.kit.message_costs import SendLimit
from pedagogy_lib.basics.closeness import close

from .regions import BYTES, go_through, make_inputs

STILL_A_FUNCTION = "it is to stay a torch.autograd.Function: that has `apply`"

ONE_ALONE = "the first rank alone has the sum. All ranks go on with it: an all-reduce is needed"

KEPT_IN_CTX = "backward knows what forward has kept in ctx, and none of forward's arguments"


def region(name, sums, y, gradient, when_right, touched, memory, sent, hints) -> RankExercise:
    """Return the exercise to write Copy or AllReduce.

    sums             phase that sums: "forward" or "backward"
    y, gradient      take the inputs of all ranks and a place; return the right value and mistakes
    when_right       report on what is right, forward and backward
    touched, memory  why x must not change; why y shares its memory, or does not
    sent             why nothing is sent in the other phase
    """
    shares = sums == "backward"
    quiet = "forward" if shares else "backward"

    def tabulate_ranks(table):
        return lambda trial, place: table(
            [make_inputs(name, rank) for rank in trial.case.ranks], place
        )

    def expect_input_gradient(trial, place):
        wanted, mistakes = tabulate_ranks(gradient)(trial, place)
        return {"x": wanted}, {why: {"x": wrong} for why, wrong in mistakes.items()}

    def one_alone(value, table):
        """Return the function that gives a diagnosis if only the first rank is right."""

        def why(trial):
            right = [
                close(got, table(trial, k)[0]) for k, got in enumerate(trial.collect_values(value))
            ]
            return ONE_ALONE if right[0] and not any(right[1:]) else ""

        return why

    return RankExercise(
        name,
        lab="tensor_parallel",
        cases=[
            RankCase(World(3)),
            RankCase(World(3), ("no_grad",), ", under no_grad"),
            RankCase(World(3), ("total",), ", a `total` of its own"),
            RankCase(World(1)),
            RankCase(World(3, (1, 2))),
        ],
        work=go_through,
        found=lambda case: ("y",) if case.args == ("no_grad",) else ("y", "gradients"),
        facts=[
            never("touched", "x has changed in place", touched),
            right(
                "y",
                tabulate_ranks(y),
                called="the output",
                otherwise=one_alone("y", tabulate_ranks(y)),
            ),
            Holds(
                "shares",
                lambda found: found == shares,
                f"the output {'does not share' if shares else 'shares'} memory with x",
                memory,
            ),
            never(
                "kept",
                "ctx keeps a tensor for the backward",
                "its memory would be taken until the backward, in every layer, and backward "
                "needs none: the gradient is all it works with",
            ),
            never(
                "constant",
                "the output does not require a gradient",
                "the output has lost its history: forward gets and returns plain tensors, and "
                f"apply does the rest; {STILL_A_FUNCTION}",
            ),
            never(
                "slope_changed",
                "the gradient that comes in has changed",
                "what comes into a backward belongs to others as well: a residual connection "
                "hands the same tensor to both its branches. Add up in a new one, as `summed` "
                "does",
            ),
            right(
                "gradients",
                expect_input_gradient,
                called="the gradient",
                otherwise=one_alone("gradients", expect_input_gradient),
            ),
            Holds(
                "totals",
                lambda calls: calls == [sums],
                lambda calls: (
                    f"total was called {len(calls)} times, expected one call in the {sums}"
                ),
                "the caller may bring another way to add up: call total(…, group), in place of "
                "all_reduce",
            ),
            SendLimit(
                lambda trial: ring_bytes(BYTES, trial.n),
                f"a {sums} sends",
                "one all-reduce is enough",
                sums,
            ),
            SendLimit(lambda trial: 0, f"a {quiet} sends", sent, quiet),
        ],
        right=lambda trial: "; ".join(
            when_right[:1] if "no_grad" in trial.case.args else when_right
        ),
        errors={
            "incorrect number of gradients": "backward returns one gradient for each argument of "
            "forward behind ctx, and these are x, group, total. The last two have none: None",
            **dict.fromkeys(
                (
                    "Backward' object has no attribute",
                    "name 'group' is not defined",
                    "name 'total' is not defined",
                ),
                KEPT_IN_CTX,
            ),
            "can only save variables": "save_for_backward is for tensors. Anything else is an "
            "attribute of ctx",
            "modified by an inplace operation": "what came before has kept x for its backward, and "
            "mark_dirty tells autograd that it has changed, so it refuses: give dist.all_reduce a "
            "copy",
            "invalid gradient at index 0": "the gradient of x has the shape of x",
            "has no attribute 'apply'": STILL_A_FUNCTION,
            "NoneType' object is not callable": "`total` has a value if nobody gives one: summed",
        },
        on_hang="every rank of the group makes the same calls, with tensors of the same size",
        hints=hints,
    )
