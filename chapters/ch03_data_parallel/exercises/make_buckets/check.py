"""The buckets in which gradients travel together; the truth is PyTorch's own."""

from coursekit.answers.remote_answer import call_next_to_answer
from coursekit.kit import Formula, Wrong, first_true

from .cases import ANOTHER, BYTES, changes_by, number_buckets
from .truth import ALL_MISTAKES, buckets_of_torch


def format_buckets(buckets, sizes) -> str:
    return str([[k if isinstance(k, str) else BYTES * sizes[k] for k in bucket]
                for bucket in buckets])  # fmt: skip


def why_no_bucket(found, case) -> str:
    buckets = found[case][0] if isinstance(found[case][0], list) else []
    return first_true({
        "these are parameters of another model: what an earlier call has left is still in it. Each "
        "call begins anew": any(item == ANOTHER for bucket in buckets for item in bucket),
        "a bucket holds the parameters themselves, because their `.grad` comes later: no copies, "
        "parts, names or gradients":
            any(isinstance(item, str) for bucket in buckets for item in bucket),
        "there is a bucket without parameters: at the start, at the end where the last one was "
        "just full, or where there is nothing to put in. Begin one only when a parameter needs "
        "it": [] in buckets,
    })  # fmt: skip


class Buckets(Formula):
    """A formula whose arguments and values are numbers, for an answer that gets parameters."""

    def examine(self, answer):
        if answer in [self.truth, *(function for _, function in self.mistakes)]:
            yield from super().examine(answer)
            return
        yield from super().examine(number_buckets(answer))
        calls = (call for case in self.cases.values() for call in case)
        changed = next(
            filter(None, (call_next_to_answer(changes_by, answer, *call) for call in calls)), None
        )
        if changed:
            raise Wrong(
                "afterwards", f"the buckets are right, but {changed[0]}", "asked are lists of the "
                "parameters alone: leave the parameters themselves as they are",
            )  # fmt: skip


EXERCISE = Buckets(
    "make_buckets",
    lab="gradient_sync_visualizer",
    cases={  # (elements of each parameter, the frozen ones, bucket_bytes)
        "six parameters, buckets of 16 bytes": [([3, 2, 70, 5, 9, 4], (), 16)],
        "a bucket that is exactly full": [([2, 4, 4, 3, 5], (), 16)],
        "a parameter larger than a bucket": [([2, 3, 40, 1, 4, 4], (), 16)],
        "some are frozen": [([3, 6, 2, 9, 7, 4], (1, 5), 16)],
        "each alone in its bucket": [([3, 1, 2], (), 1)],
        "all in one": [([3, 1, 2], (), 2_500)],
        "a single parameter": [([5], (), 16)],
        "all are frozen": [([3, 4], (0, 1), 16)],
    },
    truth=buckets_of_torch,
    mistakes=ALL_MISTAKES,
    right=lambda calls, found: format_buckets(found[0], calls[0][0]),
    differs=lambda call, wanted, got: (
        f"it gave {format_buckets(got, call[0])}, expected "
        f"{format_buckets(wanted, call[0])}; bytes of each parameter "
        f"{format_buckets([range(len(call[0]))], call[0])}"
    ),
    asked="a list of lists of parameters",
    shape="return a list of lists of parameters: DDP wants to go through the buckets many times",
    errors={
        "'NoneType' object has no attribute": "there are no gradients yet, `.grad` is None. A "
        "gradient is as large as its parameter: parameter.nbytes",
        "'generator'": "model.parameters() is a generator: it has no length, no order to turn "
        "round, and can be gone through once. Make a list of it first",
    },
    explain=why_no_bucket,
    hints=(
        "First make a list of those that have a gradient, and turn it round.",
        "Then go through it with a list of buckets. A parameter goes into the last bucket, unless "
        "that one is closed, or there is none yet: then it begins a new one.",
        "A bucket is closed if sum(p.nbytes for p in bucket) >= bucket_bytes. Look at it after the "
        "parameter has gone in.",
    ),
)
