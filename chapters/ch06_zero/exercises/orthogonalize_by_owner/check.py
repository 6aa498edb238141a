"""Muon's step with one owner for each matrix, of which every rank has some rows."""

from coursekit.kit import Equals, RankExercise, Sends, never

from .cases import CASES, try_owners
from .truth import (
    WHY_SENT,
    mistakes,
    most_bytes,
    need_a_list,
    need_owners_alone,
    need_three_phases,
    right_rows,
)

NO_LIST = (
    "gather fills a list on the owner and scatter reads one there: on the owner it has one tensor "
    "for each rank of the group, and on all other ranks it is None"
)

WORLD = (
    "owners are counted within the group. dst= and src= are ranks of the world: give gather the "
    "owner as group_dst=, and scatter as group_src="
)
NO_MATRIX = "`shards` may be empty: there is nothing to do then, and an empty list is returned"

EXERCISE = RankExercise(
    "orthogonalize_by_owner",
    lab="muon_on_shards",
    cases=CASES,
    work=try_owners,
    facts=[
        need_a_list,
        Equals("rows", right_rows, mistakes, "what is returned"),
        never(
            "changed",
            "the shards or the owners that it was given have changed",
            "they belong to the caller: write results into new tensors, such as "
            "torch.empty_like(shard)",
        ),
        never(
            "pickled",
            "the rows are right, but they travel as pickled objects",
            "all ranks know shapes and dtypes: dist.gather and dist.scatter send tensors as they "
            "are. An object is pickled, copied, and its size has to travel first",
        ),
        need_owners_alone,
        need_three_phases,
        Sends(most_bytes, "to the owners and back it is", WHY_SENT),
        never(
            "kept",
            "the rows that it returns keep {:,} bytes more alive than they need",
            "a view of the whole matrix keeps it all in memory: return the rows that scatter fills",
        ),
    ],
    right="each rank has its rows of all orthogonal matrices",
    errors={
        "different dtypes": "torch.empty(shape) has the default dtype: torch.empty_like(shard)",
        "gather_list": NO_LIST,
        "scatter_list": NO_LIST,
        "must be specified on dst": NO_LIST,
        "must be specified on src": NO_LIST,
        "Incorrect input list size": NO_LIST,
        "Incorrect output list size": NO_LIST,
        "KeyError": "only the owner has the whole matrix: who is it, on this rank?",
        "not part of group": WORLD,
        "list index out of range": NO_MATRIX,
        "expected a non-empty list": NO_MATRIX,
        "invalid tensor size": "all pieces of a matrix have the shape of the shard",
    },
    on_hang="every rank takes part in the gather and in the scatter of every matrix, in the same "
    "order, also of matrices that it does not own",
    hints=(
        "Three loops, one after another: gather each matrix on its owner, orthogonalize the "
        "matrices that this rank owns, send each matrix's rows back.",
        "dist.gather(shard, pieces, group=group, group_dst=owner) needs a list of n empty tensors "
        "in `pieces` on the owner, and None elsewhere. torch.cat(pieces) is the matrix.",
        "dist.scatter(mine, pieces, group=group, group_src=owner) fills `mine` on every rank. On "
        "the owner `pieces` is list(matrix.chunk(n)), and None elsewhere.",
    ),
)
