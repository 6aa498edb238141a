"""The right results, and the results of known mistakes."""

import torch

from coursekit.kit import complains

from .cases import LARGE, shard_of, without_nan

EMPTY_MISSING = "the rank without numbers makes no call, and the others wait: send padding only"


def shards(trial):
    return [without_nan(shard_of(place, trial.case)) for place in range(trial.n)]


def whole(trial, place):
    return torch.cat(shards(trial))


def own(trial, place):
    return shards(trial)[place]


def padded(trial):
    most = max(trial.case.args[0])
    return [torch.cat([x, x.new_zeros(most - len(x))]) for x in shards(trial)]


def mistakes(trial, place):
    lengths, rows = trial.case.args[0], padded(trial)
    everything, mine, most = torch.cat(rows), own(trial, place), max(lengths)
    return {
        "the padded length is lengths[0], and another shard may be longer: take max(lengths)":
            torch.cat([row[: min(k, lengths[0])] for row, k in zip(rows, lengths)]),
        "a slice that ends at -0 is empty, and that of the longest shard does: count from the "
        "front, row[:length]": torch.cat([row[: k - most] for row, k in zip(rows, lengths)]),
        "the padding is in front of the shard: put it behind the numbers":
            torch.cat([row.roll(most - k)[:k] for row, k in zip(rows, lengths)]),
        "rows and columns have changed places: what was gathered is one row per rank": torch.cat(
            [row[:k] for row, k in zip(everything.view(most, trial.n).T, lengths)]
        ),
        "the numbers were in a float64 on their way, which has few whole ones above 2**53: keep "
        "the dtype of the shard": whole(trial, place).double().to(mine.dtype),
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

MAX_KNOWN = "`lengths` is known on all ranks: max(lengths) needs no call"

AS_A_SUM = (
    "an all-reduce of the whole tensor, with zeros in place of the other shards, sends twice as "
    "much as an all-gather"
)


@complains
def one_call(trial):
    for place, calls in enumerate(trial.calls):
        names = [call.name for call in calls]
        is_clear = trial.n == 1 or not max(trial.case.args[0])  # nothing has to travel
        most = (trial.n - 1) * max(trial.case.args[0]) * own(trial, place).itemsize
        if sum(call.sent_bytes for call in calls) > most and names == ["all_gather"]:
            told = f"{trial.name_of_rank(place)}: the numbers are right, but it sends more"
            yield told, "pad to max(lengths), and keep the dtype"
        if names != ["all_gather"] and not (is_clear and not names):
            made = ", ".join(f"dist.{name}" for name in dict.fromkeys(names))
            what = f"the numbers are right, but it calls {made}"
            what += f", {len(names)} times" * (len(names) > 1)
            why = AS_A_SUM if "all_reduce" in names else ONE_IS_ENOUGH
            yield (
                f"{trial.name_of_rank(place)}: {what}",
                MAX_KNOWN if {*names} > {"all_gather"} else why,
            )


def most_bytes(trial, place):
    lengths = trial.case.args[0]
    return lengths == LARGE and (trial.n - 1) * max(lengths) * 8


WHY_MORE = {
    "": "each rank sends its shard, padded to the longest one, once to each other rank, in its "
    "own dtype",
}
