"""The right results for pieces.py, and the results of known mistakes."""

from functools import partial
from math import prod

import torch

from coursekit.kit import GROUP, Equals, RankCase, RankExercise, World, never
from coursekit.kit.message_costs import SendLimit
from coursekit.kit.rank_trials import IN_A_GROUP

from .pieces import run_forward_backward, shape_of_whole, x_and_slope

CONTEXT = 1  # the dim of (samples, context, …) that is cut

SAME_CALLS = "every rank of a group has to make the same calls, in the same order"

MIXED = (
    "tokens of several samples are mixed up: a reshape goes through memory in order, and swaps no "
    "axes. (ranks, samples, …) is not (samples, ranks, …)"
)

TOLD = {True: "all ranks' pieces, joined", False: "this rank's piece of the sum"}


def right_shape(gathers, trial, place):
    return shape_of_whole(trial.case.args, trial.n) if gathers else trial.case.args


def wrong_shapes(gathers, trial, place):
    piece, n = trial.case.args, trial.n
    samples, context, *rest = piece
    if gathers:
        return {
            "the pieces are joined along dim 0, the samples. They are pieces of the context, which "
            "is dim 1": (n * samples, context, *rest),
            "one piece is not the whole context: the others' are to come, too": piece,
            "forward and backward are mixed up: AllGather joins pieces in its forward":
                (samples, context // n, *rest),
            "stack makes a new dim: the pieces are to be one after another along the context, dim "
            "1": (n, *piece),
        }  # fmt: skip
    return {
        "this is the whole context. Each rank goes on with its piece alone: rank k with the k-th":
            shape_of_whole(piece, n),
        "forward and backward are mixed up: ReduceScatter adds up in its forward, and each rank "
        "keeps its piece of the sum": shape_of_whole(piece, n * n),
        "cut are the samples, dim 0. The context is dim 1": (samples // n, n * context, *rest),
    }  # fmt: skip


def join_pieces(tensors, place):
    return torch.cat(tensors, CONTEXT)


def piece_of_sum(tensors, place):
    return sum(tensors).tensor_split(len(tensors), CONTEXT)[place]


def wrong_joined(tensors, place, forward):
    n, own, right = len(tensors), tensors[place], join_pieces(tensors, place)
    others = "" if forward else (
        ". Each rank's x went into all pieces of the sum: so its gradient is everybody's, joined"
    )  # fmt: skip
    return {
        f"there are zeros where the others' pieces belong{others}":
            torch.cat([own * (k == place) for k in range(n)], CONTEXT),
        "the rank's own piece stands there for all pieces: everybody's are to be joined":
            torch.cat([own] * n, CONTEXT),
        mean(forward): right / n,
        f"this is {n} times too much: joined already has everybody's pieces, nothing is left to "
        "add up": n * right,
        "the pieces are there, in a wrong order: piece k is rank k's":
            torch.cat(tensors[::-1], CONTEXT),
        MIXED: torch.stack(tensors).reshape(right.shape),
        "the ranks' tokens take turns. A piece is a run of tokens: all of rank 0's come first":
            torch.stack(tensors, CONTEXT + 1).flatten(CONTEXT, CONTEXT + 1),
    }  # fmt: skip


def wrong_pieces(tensors, place, forward):
    n, right = len(tensors), piece_of_sum(tensors, place)
    own = tensors[place].tensor_split(n, CONTEXT)[place]
    own_alone = "this is a piece of the rank's own x: nothing is added up" if forward else (
        "this is a piece of the rank's own gradient, as if all had the same. Behind AllGather each "
        "rank computes with its own part of A, and the gradients that come back differ: their sum "
        "is x's"
    )  # fmt: skip
    return {
        own_alone: own,
        f"{own_alone}. (This is it, {n} times)": n * own,
        mean(forward): right / n,
        "every rank has the first piece of the sum: rank k is to have the k-th":
            piece_of_sum(tensors, 0),
        "these are rank 0's numbers: everybody's are to be added up":
            tensors[0].tensor_split(n, CONTEXT)[place],
        MIXED: sum(tensors).reshape(n, *right.shape)[place],
    }  # fmt: skip


def mean(forward) -> str:
    if forward:
        return "this is the mean: nobody asked to divide by n"
    return "nothing is to be divided by n: this is no mean over ranks, they share one loss"


def values(name, gathers) -> Equals:
    """Return the fact about the output ("y") or the gradient of x, given all ranks' x or slopes."""
    forward = name == "y"
    joins = gathers == forward
    right, wrong = (join_pieces, wrong_joined) if joins else (piece_of_sum, wrong_pieces)
    nothing = {} if forward else {"backward has returned None for x: its gradient comes first":
                                  None}  # fmt: skip

    def list_inputs(trial):
        pairs = [x_and_slope(gathers, trial.case, k, trial.n) for k in range(trial.n)]
        return [x if forward else slope for x, slope in pairs]

    return Equals(
        name,
        lambda trial, place: right(list_inputs(trial), place),
        lambda trial, place: wrong(list_inputs(trial), place, forward) | nothing,
        "forward, the output" if forward else "backward, the gradient of x",
    )


def bytes_of_half(trial):
    return (trial.n - 1) * 8 * prod(trial.case.args)


def why_so_many(trial, sent):
    return {
        2: "an all-reduce sends twice what is needed: it is a reduce-scatter and an all-gather, "
        "and one of them is enough",
        trial.n: "everybody sends all it has to everybody",
    }.get(sent / bytes_of_half(trial), "more is sent than joined and summed_piece send")


def region(name, gathers, hints) -> RankExercise:
    """Return the exercise to write AllGather, which gathers in its forward, or ReduceScatter."""
    static = "it keeps two methods, forward and backward, each under @staticmethod"
    x, shape = ("the piece", "a piece of the context") if gathers else (
        "x", "all of the context, joined along dim 1, whatever dims follow it"
    )  # fmt: skip
    return RankExercise(
        name,
        lab="sequence_parallel",
        needs=("reduce_scatter_ring",),
        # At least as many samples as ranks, or one sample, whose pieces are contiguous
        cases=[
            RankCase(World(3), (3, 3, 2)),
            RankCase(World(2), (1, 8)),
            RankCase(GROUP, (4, 3, 2)),
        ],
        work=partial(run_forward_backward, gathers),
        facts=[
            Equals(
                "shape",
                partial(right_shape, gathers),
                partial(wrong_shapes, gathers),
                "the output's shape",
            ),
            values("y", gathers),
            values("gradient", gathers),
            never(
                "changed",
                lambda names: f"the numbers are right, but {names[0]} has changed",
                "somebody else may still need what was handed in: a relu its output, for its "
                "backward, a residual the gradient. joined and summed_piece leave it alone; "
                "contiguous() copies only what is not contiguous already",
            ),
            SendLimit(bytes_of_half, "forward it needs", why_so_many),
            SendLimit(bytes_of_half, "backward it needs", why_so_many, "backward"),
        ],
        right=f"forward {TOLD[gathers]}, backward {TOLD[not gathers]}",
        explain=lambda case, error: IN_A_GROUP if case.is_group else "",
        errors={
            "incorrect number of gradients": "backward returns one gradient for each argument of "
            f"forward after ctx: that of {x}, and None for group",
            "invalid gradient at index 0": f"what backward returns first is the gradient of {x}, "
            f"and so of the same shape: {shape}. What comes in has the shape of the output",
            "has no attribute 'group'": "backward gets nothing but ctx and the gradient. What else "
            "it needs forward has to keep in ctx",
            "save_for_backward can only save": "save_for_backward is for tensors, and a group is "
            "none. Anything else is an attribute of ctx",
            "name 'group' is not defined": "backward does not see forward's arguments: forward has "
            "to keep in ctx what backward needs",
            "non-static forward": static,
            "must implement either the backward": static,
        },
        on_hang=SAME_CALLS,
        hints=hints,
    )
