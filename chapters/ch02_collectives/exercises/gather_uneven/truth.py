"""The right results, and the results of known mistakes."""

import torch

from coursekit.kit import complains

from .cases import LARGE, shard_of


def shards(trial):
    return [shard_of(place, trial.case) for place in range(trial.n)]


def whole(trial, place):
    return torch.cat(shards(trial))


def own(trial, place):
    return shard_of(place, trial.case)


def padded(trial):
    most = max(trial.case.args[0])
    return [torch.cat([x, x.new_zeros(most - len(x))]) for x in shards(trial)]


def mistakes(trial, place):
    lengths, rows = trial.case.args[0], padded(trial)
    everything, mine = torch.cat(rows), own(trial, place)
    return {
        "the padding is still in it: of each rank's part, only the first lengths[k] numbers "
        "count": everything,
        "this reads what was gathered as if there were no padding between the shards: every part "
        "is as long as the longest shard, and of part k the first lengths[k] numbers count":
            everything[: sum(lengths)],
        "each part is cut to the length of this rank's shard: part k has lengths[k] numbers":
            torch.cat([row[: len(mine)] for row in rows]),
        "this is the rank's own shard: it has gathered nothing": mine,
        "the shards are in the opposite order": torch.cat(shards(trial)[::-1]),
        "zeros have been left out wherever they are: some may be numbers of a shard":
            everything[everything != 0],
        "nothing was returned: return the tensor": None,
    }  # fmt: skip


def mistakes_of_shard(trial, place):
    return {"the shard itself has been padded: it belongs to the caller": padded(trial)[place]}


ONE_IS_ENOUGH = (
    "one all-gather of padded shards is enough: all ranks know `lengths`, so that neither sizes "
    "nor pickles need travel"
)

AS_A_SUM = (
    "an all-reduce of the whole tensor, with zeros in place of the other shards, sends twice as "
    "much as an all-gather"
)


@complains
def one_call(trial):
    for place, calls in enumerate(trial.calls):
        names = [call.name for call in calls]
        if names != ["all_gather"]:
            made = ", ".join(f"dist.{name}" for name in dict.fromkeys(names))
            what = f"the numbers are right, but it calls {made}"
            what += f", {len(names)} times" * (len(names) > 1)
            is_sum = "all_reduce" in names
            yield f"{trial.name_of_rank(place)}: {what}", AS_A_SUM if is_sum else ONE_IS_ENOUGH


def most_bytes(trial, place):
    lengths = trial.case.args[0]
    return lengths == LARGE and (trial.n - 1) * max(lengths) * 8


WHY_MORE = {
    "": "each rank sends its shard, padded to the longest one, once to each other rank, in its "
    "own dtype",
}
