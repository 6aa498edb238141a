"""What is tried, and what runs next to the answer."""

import torch
import torch.distributed as dist

from coursekit.kit import measure_answer
from coursekit.kit.observed_calls import AllRequests

# None of them is a float32, and no part of their sum, divided, is a whole number.
NUMBERS = (2.7, -0.6, 6.8, 5.7)


def mean_on_rank(answer, group, case):
    """What a rank gets back for its own number; of a tensor with one element, that."""
    with measure_answer(), AllRequests() as requests:
        got = answer(NUMBERS[dist.get_rank()])
        requests.need_waited()
    is_single = isinstance(got, torch.Tensor) and got.numel() == 1
    return {"got": got.item() if is_single else got}
