"""The inputs on which the collective is tried."""

import torch

from coursekit.kit.collective_exercise import Task, fine_numbers


class AllToAll(Task):
    """A list of n outputs, followed by n inputs."""

    def inputs(self, place, case):
        def length(sender, receiver):
            return case.length + (sender + 2 * receiver if case.uneven else 0)

        n = case.n
        outputs = [torch.full((length(k, place),), 9 + k, dtype=case.dtype) for k in range(n)]
        return outputs + [
            fine_numbers(place, (length(place, k),), case.dtype, salt=k) for k in range(n)
        ]

    def call(self, answer, tensors, case, group):
        outputs, inputs = tensors[: case.n], tensors[case.n :]
        answer(outputs, inputs, group)
        return outputs + inputs

    def name_of(self, index, case):
        return f"outputs[{index}]" if index < case.n else f"inputs[{index - case.n}]"
