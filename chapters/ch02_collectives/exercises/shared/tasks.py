"""The inputs on which collectives are tried: one tensor on every rank, or n chunks."""

import torch

from coursekit.kit.collective_exercise import LARGE, Case, Task, fine_numbers


class OneTensor(Task):
    def inputs(self, place, case):
        return [
            fine_numbers(
                place, case.shape if case.shape is not None else (case.length,), case.dtype
            )
        ]


class RootTask(OneTensor):
    def call(self, answer, tensors, case, group):
        answer(tensors[0], case.root, group)


TREE_CASES = [
    Case(2),
    Case(4),
    Case(3),
    Case(1),
    Case(4, root=2),
    Case(3, dtype=torch.int64, root=1),
    Case(4, shape=()),
    Case(3, shape=(2, 3), dtype=torch.bfloat16),
    Case(2, length=0),
    Case(5, members=(1, 3, 4), root=2),
    Case(5, root=4),
]


class Chunks(Task):
    """A list of tensors into which the answer writes."""

    def inputs(self, place, case):
        lengths = [case.length + (k if case.uneven else 0) for k in range(case.n)]
        return [
            fine_numbers(place, (length,), case.dtype, salt=k) for k, length in enumerate(lengths)
        ]

    def call(self, answer, tensors, case, group):
        chunks = list(tensors)
        answer(chunks, group)
        return chunks

    def name_of(self, index, case):
        return f"chunks[{index}]"


RING_CASES = [  # with 2 ranks, the next and the previous rank are the same
    Case(3),
    Case(2),
    Case(4),
    Case(4, uneven=True),
    Case(3, length=0, uneven=True),
    Case(3, dtype=torch.int32),
    Case(2, dtype=torch.bfloat16, uneven=True),
    Case(1),
    Case(4, members=(1, 2, 3)),
]


LARGE_RINGS = [  # for costs; bytes of small tensors are counted from the calls
    *(Case(n, length=LARGE // n) for n in (4, 2)),
    Case(3, length=LARGE // 3, uneven=True, dtype=torch.float32),
    Case(3, length=4, uneven=True, dtype=torch.float32),
]
LARGE_TREES = [
    Case(8, length=1000),
    Case(5, length=1000),
    Case(8, length=1000, root=3),
    Case(4, length=1000, dtype=torch.bfloat16),
]


class AllReduceTask(OneTensor):
    def call(self, answer, tensors, case, group):
        answer(tensors[0], group)
