"""The cases, and the code that runs next to the answer."""

import torch
import torch.distributed as dist

from coursekit.kit import measure_answer
from coursekit.kit.observed_calls import AllRequests

# None of them is exact in float32, and no partial sum becomes a whole number when it is divided.
NUMBERS = (2.7, -0.6, 6.8, 5.7)


def mean_on_rank(answer, group, case):
    """Return the result for this rank's number; a tensor of one element is turned into a number."""
    with measure_answer(), AllRequests() as requests:
        got = answer(NUMBERS[dist.get_rank()])
        requests.need_waited()
    is_single = isinstance(got, torch.Tensor) and got.numel() == 1
    return {"got": got.item() if is_single else got}
