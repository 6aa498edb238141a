# %% right · a sum, then divided
def mean_over_ranks(number):
    total = torch.tensor([number], dtype=torch.double)
    dist.all_reduce(total, op=dist.ReduceOp.SUM)
    return total.item() / dist.get_world_size()

# %% right · divided before
def mean_over_ranks(number):
    share = torch.tensor(number / dist.get_world_size(), dtype=torch.float64)
    dist.all_reduce(share)
    return float(share)

# %% right · everybody's numbers
def mean_over_ranks(number):
    numbers = [None] * dist.get_world_size()
    dist.all_gather_object(numbers, number)
    return sum(numbers) / len(numbers)

# %% right · the backend averages, and a tensor comes back
def mean_over_ranks(number):
    x = torch.tensor(number, dtype=torch.float64)
    dist.all_reduce(x, dist.ReduceOp.AVG)
    return x

# %% right · numbers and their count in one tensor
def mean_over_ranks(number):
    x = torch.tensor([number, 1.0], dtype=torch.float64)
    dist.all_reduce(x)
    return (x[0] / x[1]).item()

# %% right · to rank 0 and back
def mean_over_ranks(number):
    x = torch.tensor(number, dtype=torch.float64)
    dist.reduce(x, 0)
    x /= dist.get_world_size()
    dist.broadcast(x, 0)
    return x.item()

# %% wrong · this is the sum
def mean_over_ranks(number):
    x = torch.tensor(number, dtype=torch.float64)
    dist.all_reduce(x)
    return x.item()

# %% wrong · this is the rank's own number
def mean_over_ranks(number):
    x = torch.tensor(number, dtype=torch.float64)
    dist.all_reduce(x.clone())
    return x.item()

# %% wrong · no numbers of others have come
def mean_over_ranks(number):
    x = torch.tensor(number, dtype=torch.float64)
    dist.all_reduce(x)
    return number / dist.get_world_size()

# %% wrong · dist.all_reduce returns None
def mean_over_ranks(number):
    x = torch.tensor(number, dtype=torch.float64)
    x = dist.all_reduce(x)
    return x / dist.get_world_size()

# %% wrong · right to seven digits
def mean_over_ranks(number):
    x = torch.tensor(number)
    dist.all_reduce(x)
    return (x / dist.get_world_size()).item()

# %% wrong · a world need not have 4 ranks
def mean_over_ranks(number):
    x = torch.tensor(number, dtype=torch.float64)
    dist.all_reduce(x)
    return x.item() / 4

# %% wrong · divided by the rank's own number
def mean_over_ranks(number):
    x = torch.tensor(number, dtype=torch.float64)
    dist.all_reduce(x)
    return (x / dist.get_rank()).item()

# %% wrong · ranks count from 0, so dist.get_rank() may be 0
def mean_over_ranks(number):
    x = torch.tensor(number, dtype=torch.float64)
    dist.all_reduce(x)
    return x.item() / dist.get_rank()

# %% wrong · takes a tensor
def mean_over_ranks(number):
    dist.all_reduce(number)
    return number / dist.get_world_size()

# %% wrong · rank 0 alone has the mean
def mean_over_ranks(number):
    x = torch.tensor(number, dtype=torch.float64)
    dist.reduce(x, 0)
    return (x / dist.get_world_size()).item()

# %% wrong · Here some rank does not
def mean_over_ranks(number):
    x = torch.tensor(number, dtype=torch.float64)
    if dist.get_rank() == 0:
        dist.all_reduce(x)
    return x.item() / dist.get_world_size()

# %% wrong · the tensor holds whole numbers
def mean_over_ranks(number):
    x = torch.tensor(number, dtype=torch.int64)
    dist.all_reduce(x)
    return x.item() / dist.get_world_size()

# %% wrong · divided by n twice
def mean_over_ranks(number):
    x = torch.tensor(number, dtype=torch.float64) / dist.get_world_size()
    dist.all_reduce(x)
    return x.item() / dist.get_world_size()

# %% wrong · the largest number, not the mean
def mean_over_ranks(number):
    x = torch.tensor(number, dtype=torch.float64)
    dist.all_reduce(x, dist.ReduceOp.MAX)
    return x.item()

# %% wrong · as after a broadcast
def mean_over_ranks(number):
    x = torch.tensor(number, dtype=torch.float64)
    dist.broadcast(x, 0)
    return x.item()

# %% wrong · behind `return`
def mean_over_ranks(number):
    x = torch.tensor(number, dtype=torch.float64)
    dist.all_reduce(x)
    x.item() / dist.get_world_size()

# %% wrong · asked is one number
def mean_over_ranks(number):
    numbers = [torch.empty(1, dtype=torch.float64) for _ in range(dist.get_world_size())]
    dist.all_gather(numbers, torch.tensor([number], dtype=torch.float64))
    return [x.item() for x in numbers]

# %% wrong · Add up what each rank was given
def mean_over_ranks(number):
    x = torch.tensor(dist.get_rank(), dtype=torch.float64)
    dist.all_reduce(x)
    return x.item() / dist.get_world_size()

# %% wrong · another number on each rank
def mean_over_ranks(number):
    x = torch.tensor(number, dtype=torch.float64)
    dist.all_reduce(x)
    return x.item() / (dist.get_rank() + 1)

# %% wrong · nobody has waited
def mean_over_ranks(number):
    x = torch.tensor(number, dtype=torch.float64)
    request = dist.all_reduce(x, async_op=True)
    return number / dist.get_world_size()

# %% right · by messages to rank 0 and back
def mean_over_ranks(number):
    x, n = torch.tensor([number], dtype=torch.float64), dist.get_world_size()
    if dist.get_rank() == 0:
        total, got = x.clone(), torch.empty_like(x)
        for peer in range(1, n):
            dist.recv(got, peer)
            total += got
        total /= n
        for peer in range(1, n):
            dist.send(total, peer)
        return total.item()
    dist.send(x, 0)
    dist.recv(x, 0)
    return x.item()

# %% right · functional collectives, numpy
import numpy as np
import torch.distributed._functional_collectives as funcol
def mean_over_ranks(number):
    x = funcol.all_reduce(torch.tensor(number, dtype=torch.float64), "sum", dist.group.WORLD)
    return np.float64(x.item()) / dist.get_world_size()

# %% right · async and waited
def mean_over_ranks(number):
    x = torch.tensor(number, dtype=torch.float64)
    request = dist.all_reduce(x, async_op=True)
    request.wait()
    return x.item() / dist.get_world_size()

# %% right · all_gather_into_tensor
def mean_over_ranks(number):
    everything = torch.empty(dist.get_world_size(), dtype=torch.float64)
    dist.all_gather_into_tensor(everything, torch.tensor([number], dtype=torch.float64))
    return everything.mean().item()

# %% wrong · only after request.wait()
import time
def mean_over_ranks(number):
    x = torch.tensor(number, dtype=torch.float64)
    dist.all_reduce(x, async_op=True)
    time.sleep(0.2)
    return x.item() / dist.get_world_size()

# %% wrong · only after request.wait()
def mean_over_ranks(number):
    x = torch.tensor(number, dtype=torch.float64)
    request = dist.all_reduce(x, async_op=True)
    dist.barrier()
    return x.item() / dist.get_world_size()

# %% wrong · only after request.wait()
def mean_over_ranks(number):
    x = torch.tensor(number, dtype=torch.float64)
    request = dist.all_reduce(x, async_op=True)
    return x.item() / dist.get_world_size()

# %% wrong · launch has done that
def mean_over_ranks(number):
    dist.init_process_group("gloo")
    x = torch.tensor(number, dtype=torch.float64)
    dist.all_reduce(x)
    return x.item() / dist.get_world_size()

# %% wrong · a process group is gone
def mean_over_ranks(number):
    x = torch.tensor(number, dtype=torch.float64)
    dist.all_reduce(x)
    mean = x.item() / dist.get_world_size()
    dist.destroy_process_group()
    return mean

# %% wrong · the median, not the mean
def mean_over_ranks(number):
    got = [None] * dist.get_world_size()
    dist.all_gather_object(got, number)
    return sorted(got)[len(got) // 2]

# %% wrong · need not have 2 ranks
def mean_over_ranks(number):
    x = torch.tensor(number, dtype=torch.float64)
    dist.all_reduce(x)
    return x.item() / 2

# %% wrong · right to seven digits
def mean_over_ranks(number):
    got = [torch.zeros(1) for _ in range(dist.get_world_size())]
    dist.all_gather(got, torch.tensor([number]))
    return float(sum(got)) / len(got)

# %% wrong · seems to be rounded
def mean_over_ranks(number):
    x = torch.tensor(number, dtype=torch.float64)
    dist.all_reduce(x)
    return round(x.item() / dist.get_world_size(), 4)

# %% wrong · divided by n + 1
def mean_over_ranks(number):
    x = torch.tensor(number, dtype=torch.float64)
    dist.all_reduce(x)
    return x.item() / (dist.get_world_size() + 1)
