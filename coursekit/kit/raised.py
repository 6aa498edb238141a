"""What an error that an answer raises on a rank means, where its own words do not say it."""

import re

import torch

NO_DIMENSION = "a tensor without dimensions cannot be split: x.view(-1) has one."
RAISED = {  # words of an error: what they mean here
    "Group rank": "send and receive name a peer by its number within the group, from 0 to n - 1. "
    "This is none of these: is it a rank in the world? And are rank and n those of the group, "
    "get_rank(group) and get_world_size(group)?",
    "Global rank": "`dst` and `src` are ranks in the world, even with a group; `group_dst` and "
    "`group_src` are numbers within the group",
    "offset < this->size. 0 vs 0": "over Gloo, an empty tensor cannot be received from just "
    "anybody: name the rank that it comes from",
    "EnforceNotMet": "the two sides of a message differ in length. What is received into has to be "
    "as long as what comes: chunks may differ by an element.",
    "must match the size of": "what comes in is as long as the tensor that it is for: pieces may "
    "differ in length.",
    "SIGSEGV": "the numbers of the ranks go from 0 to n - 1. Does a message name another one as "
    "its peer? (rank ^ k makes pairs only where n is a power of two.)",
    "Pair is not connected": "a rank sends to itself, or receives from itself. What stays on a "
    "rank is copied, and needs no message.",
    "out of range": "a number is too large: of a chunk, if there are fewer than n (x.chunk(n) may "
    "make fewer; tensor_split makes n); of a rank, if % n is missing, or if rank ^ k makes pairs, "
    "which it does only where n is a power of two.",
    "does not support item assignment": "`chunks[i] += …` also puts the result into the list, and "
    "a tuple takes nothing: tensor_split, chunk and split give tuples. "
    "list(x.view(-1).tensor_split(n)) is a list.",
    "expected a non-empty list": "an empty bucket is reduced. There is nothing in it if there are "
    "no tensors, or if the first one alone is larger than bucket_bytes.",
    "0-dim": NO_DIMENSION,
    "of a 0-d tensor": NO_DIMENSION,
    "zero-dimensional": NO_DIMENSION,
    "expected at least a 1-dimensional tensor": NO_DIMENSION,
    "expects at least a 1-dimensional tensor": NO_DIMENSION,
}


ALONE = (
    "with several ranks the numbers are right. One rank alone has nobody to send to: n - 1 steps "
    "are none then, and what it has is the result. (n steps are always one too many.)"
)
LENGTHS = re.compile(r"op.preamble.length <= op.nbytes. (\d+) vs (\d+)")  # in an error of Gloo
OTHER_DTYPE = (
    "as many numbers as come have no room here: a tensor of your own, such as "
    "torch.empty(x.shape), is of float32 unless told otherwise. torch.empty_like(x) has the dtype "
    "of x"
)


def is_float32_for(dtype, text) -> bool:
    """Whether a message did not fit because the other side's numbers are float32."""
    lengths = LENGTHS.search(text)
    coming, room = map(int, lengths.groups()) if lengths else (0, 0)
    return bool(room) and dtype != torch.float32 and coming * 4 == room * dtype.itemsize
