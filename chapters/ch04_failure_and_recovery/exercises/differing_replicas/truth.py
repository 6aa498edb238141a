"""The right results, and the results of known mistakes."""

from coursekit.kit.message_costs import need_cost

from .cases import model_of

MOST_BYTES = 4_000  # that a rank may send: checksums, even as pickled objects, but no weights

AS_RANK_0 = (
    "the replicas are compared with rank 0's. But rank 0 may be the one that is wrong: then this "
    "accuses all others. What most ranks have is taken to be right"
)

TIE = (
    "if no model is on more than half of the ranks, nobody knows which one is right: then it is "
    "all ranks"
)

NOBODY = f"{TIE}, and not none"

ALL_THE_WORLD = f"{TIE}, which are those of the group, from 0 to n - 1"

THE_MOST = "these are the ranks that have what most have; asked are the others"

WORLD_RANKS = "ranks are numbered within the group, as dist.get_rank(group) does"

MISSED = {
    "bit": "one bit is another: `allclose`, or a sum in floating point, may not see it. "
    "checksum([…]), from the lab, does",
    "buffer": "a model's buffers are part of its state, too: model.buffers()",
    "count": "a buffer of whole numbers is another: buffers count, whatever their dtype",
    "not saved": "a buffer is another that state_dict() leaves out, as it is registered with "
    "persistent=False. model.buffers() has it",
    "same sum": "two weights have changed, and their sum is the same. A checksum changes with each "
    "bit: checksum([…]), from the lab",
    "last": "the last parameter is another one: all of them count",
    "own": "a parameter is another that belongs to the model itself, and to none of its layers: "
    "all that model.parameters() gives count",
    "inner": "a weight is another that lies two levels deep: all that model.parameters() gives "
    "count",
    "frozen": "a frozen parameter is another one. It is not trained, and counts all the same",
}

NANS = (
    "all models are the same, to the last bit, and have a NaN in them. A NaN is not equal to "
    "itself; compare bits, as checksum([…]) of the lab does"
)

LEAVE = "looking at a model changes nothing in it: the training goes on with it"

ONE_KNOWS = (
    "all ranks return the same list. So each has to learn what all others have: that is an "
    "all-gather"
)


def need_few_bytes(trial) -> str:
    most = max(trial.sent_bytes)
    weights = sum(p.nbytes for p in model_of().parameters())
    why = (
        f"the weights themselves have {weights:,} bytes, and are not needed: equal weights have "
        "equal checksums, of 8 bytes each"
    )
    need_cost(trial, most <= MOST_BYTES, f"{most:,} bytes were sent by one rank", why)
    return ""


DTYPE = (
    "a checksum is an int64, and so are the tensors into which it is gathered: "
    "torch.zeros_like(mine)"
)

ERRORS = {
    "Tensors must have same dtype": DTYPE,
    "different dtypes": DTYPE,
    "without overflow": "a checksum has 63 bits: only an int64 has room for it",
    "'detach'": "checksum takes tensors alone. named_parameters() gives pairs of a name and a "
    "tensor, and a dict gives its keys",
    "is not iterable": "checksum takes several tensors: a list of them, or what gives them one "
    "after another, as model.parameters() does",
    "requires grad": "a tensor that requires gradients is sent: of a parameter, parameter.detach()",
}
