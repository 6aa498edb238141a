"""Chapter 03, replicas: right answers of any style pass, wrong ones are told what is wrong."""

import pytest
from helpers import ROOT, put_lab

from pedagogy_lib import check
from pedagogy_lib.course import checking
from pedagogy_lib.exercises.ch03 import averaging, overlapping
from pedagogy_lib.exercises.ch03 import ex04_start_equal as replicas
from pedagogy_lib.exercises.ch03 import ex10_make_buckets as bucketing

MODULES = replicas, averaging, bucketing, overlapping
EXERCISES = {e.number: e for module in MODULES for e in module.EXERCISES}
NAMES = ["simple_ddp", "gradient_sync_visualizer", "data_parallel"]
SOLVED = {name: (ROOT / "solutions" / "labs" / f"{name}.py").read_text() for name in NAMES} | {
    # What only the labs' programs need; every rank of every check would read it.
    "language_model": "Transformer = draw_batch = mean_loss = standard_library = None",
    "gradient_accumulation": "digits = None",
}


@pytest.fixture(autouse=True)
def only_these(monkeypatch):
    monkeypatch.setattr(checking, "TIMEOUT_SECONDS", 1.5)
    monkeypatch.setattr(checking, "exercises_of", lambda chapter: EXERCISES)


@pytest.fixture
def check_lab(tmp_path, monkeypatch):
    """Check one exercise with another definition of its function in the learner's file."""

    def check_one(number, source="", other_labs=()):
        for name, text in SOLVED.items():
            put_lab(tmp_path, monkeypatch, name, text, text)
        for name, text in {EXERCISES[number].lab: source, **dict(other_labs)}.items():
            put_lab(tmp_path, monkeypatch, name, f"{SOLVED[name]}\n\n{text}", SOLVED[name])
        return check(number)

    return check_one


def answers(text) -> dict[str, str]:
    """{phrase of the diagnosis: source} from parts that begin with `### phrase`."""
    parts = [part.partition("\n") for part in text.split("### ")[1:]]
    return {phrase.strip(): source for phrase, _, source in parts}


RIGHT = {
    "3.4": """### one long vector of the parameters, then the buffers
def start_equal(model, group=None):
    long = torch.nn.utils.parameters_to_vector(model.parameters()).detach()
    dist.broadcast(long, group_src=0, group=group)
    torch.nn.utils.vector_to_parameters(long, model.parameters())
    for buffer in model.buffers():
        dist.broadcast(buffer, group_src=0, group=group)
### as objects
def start_equal(model, group=None):
    tensors = [*model.parameters(), *model.buffers()]
    values = [[tensor.detach() for tensor in tensors]]
    dist.broadcast_object_list(values, group_src=0, group=group)
    with torch.no_grad():
        for tensor, value in zip(tensors, values[0]):
            tensor.copy_(value)
### along a tree, with data
def start_equal(model, group=None):
    rank, n = dist.get_rank(group), dist.get_world_size(group)
    for x in [*model.buffers(), *(p.data for p in model.parameters())]:
        reach = 1
        while reach < n:
            if rank < reach and rank + reach < n:
                dist.send(x, group_dst=rank + reach, group=group)
            elif reach <= rank < 2 * reach:
                dist.recv(x, group_src=rank - reach, group=group)
            reach *= 2
""",
    "3.5": """### divided before
def average_gradients(model, group=None):
    n = dist.get_world_size(group)
    for p in (p for p in model.parameters() if p.requires_grad):
        mean = torch.zeros_like(p) if p.grad is None else p.grad / n
        dist.all_reduce(mean, group=group)
        p.grad = mean
### one flat tensor, and None stays where all have it
def average_gradients(model, group=None):
    ps = [p for p in model.parameters() if p.requires_grad]
    have = torch.tensor([p.grad is not None for p in ps], dtype=torch.int)
    dist.all_reduce(have, group=group)
    ps = [p for p, some in zip(ps, have) if some]
    flat = torch.cat([p.new_zeros(p.numel()) if p.grad is None else p.grad.view(-1) for p in ps])
    dist.all_reduce(flat, group=group)
    for p, part in zip(ps, flat.split([p.numel() for p in ps])):
        p.grad = part.view(p.shape) / dist.get_world_size(group)
### each by itself, after the question who has it
def average_gradients(model, group=None):
    ps = [p for p in model.parameters() if p.requires_grad]
    have = torch.tensor([float(p.grad is not None) for p in ps])
    dist.all_reduce(have, dist.ReduceOp.MAX, group)
    for p in (p for p, some in zip(ps, have) if some):
        if p.grad is None:
            p.grad = torch.zeros_like(p)
        dist.all_reduce(p.grad, group=group)
        p.grad.div_(dist.get_world_size(group))
""",
    "3.10": """### flush
def make_buckets(parameters, bucket_bytes):
    buckets, bucket, size = [], [], 0
    for p in list(parameters)[::-1]:
        if not p.requires_grad:
            continue
        bucket.append(p)
        size += p.numel() * p.element_size()
        if size >= bucket_bytes:
            buckets.append(bucket)
            bucket, size = [], 0
    return buckets + [bucket] if bucket else buckets
### recursive, with tuples
def make_buckets(parameters, bucket_bytes):
    def cut(ps):
        for stop in range(1, len(ps) + 1):
            if sum(p.nbytes for p in ps[:stop]) >= bucket_bytes or stop == len(ps):
                return (ps[:stop], *cut(ps[stop:]))
        return ()

    return cut(tuple(p for p in parameters if p.requires_grad)[::-1])
### with PyTorch's own
def make_buckets(parameters, bucket_bytes):
    ps = [p for p in parameters if p.requires_grad][::-1]
    if not ps:
        return []
    found, _ = dist._compute_bucket_assignment_by_size(ps, [bucket_bytes])
    return [[ps[i] for i in bucket] for bucket in found]
""",
    "3.11": """### gradients are parts of the bucket
def average_buckets(buckets, group=None):
    for bucket in buckets:
        flat = flatten(bucket).div_(dist.get_world_size(group))
        dist.all_reduce(flat, group=group)
        for p in bucket:
            p.grad, flat = flat[: p.numel()].view_as(p), flat[p.numel() :]
### from the last bucket, with AVG
def average_buckets(buckets, group=None):
    for bucket in reversed(buckets):
        for p in bucket:
            p.grad = torch.zeros_like(p) if p.grad is None else p.grad
        flat = nn.utils.parameters_to_vector([p.grad for p in bucket])
        dist.all_reduce(flat, op=dist.ReduceOp.AVG, group=group)
        nn.utils.vector_to_parameters(flat, [p.grad for p in bucket])
""",
    "3.12": """### counts, and divides before
class DDP(DDP):
    def start_over(self):
        self.left = [len(bucket) for bucket in self.buckets]
        self.travelling = []

    def is_ready(self, parameter, number):
        if not self.synchronizing:
            return
        self.left[number] -= 1
        for left in self.left[len(self.travelling) :]:
            if left:
                break
            self.begin_next()

    def begin_next(self):
        bucket = self.buckets[len(self.travelling)]
        flat = flatten(bucket).div_(dist.get_world_size(self.group))
        self.travelling.append([bucket, flat, self.all_reduce(flat, group=self.group)])

    def finish(self):
        for _ in self.buckets[len(self.travelling) :]:
            self.begin_next()
        for bucket, flat, wait in self.travelling:
            wait()
            unflatten(flat, bucket)
        self.start_over()
### finish begins and waits in turns
class DDP(DDP):
    def is_ready(self, parameter, number):
        if self.synchronizing:
            self.missing[number].remove(parameter)
            while len(self.begun) < len(self.missing) and self.missing[len(self.begun)] == set():
                self.begin_next()

    def finish(self):
        for number, bucket in enumerate(self.buckets):
            if number == len(self.begun):
                self.begin_next()
            flat, wait = self.begun[number]
            wait()
            unflatten(flat / dist.get_world_size(self.group), bucket)
        self.start_over()
### gradients are parts of the bucket; waits for the last one first
class DDP(DDP):
    def finish(self):
        while len(self.begun) < len(self.buckets):
            self.begin_next()
        for bucket, (flat, wait) in reversed(list(zip(self.buckets, self.begun))):
            wait()
            flat.div_(dist.get_world_size(self.group))
            for p, part in zip(bucket, flat.split([p.numel() for p in bucket])):
                p.grad = part.view(p.shape)
        self.missing = [set(bucket) for bucket in self.buckets]
        self.begun.clear()
""",
    "3.14": """### a class
class no_sync:
    def __init__(self, ddp):
        self.ddp = ddp

    def __enter__(self):
        self.before = self.ddp.synchronizing
        self.ddp.synchronizing = False

    def __exit__(self, *error):
        self.ddp.synchronizing = self.before
### an exit stack
@contextlib.contextmanager
def no_sync(ddp):
    with contextlib.ExitStack() as stack:
        stack.callback(setattr, ddp, "synchronizing", ddp.synchronizing)
        ddp.synchronizing = False
        yield ddp
### mock
def no_sync(ddp):
    from unittest import mock

    return mock.patch.object(ddp, "synchronizing", False)
""",
}

WRONG = {
    "3.4": """### nothing has changed on any rank
def start_equal(model, group=None):
    for tensor in model.state_dict().values():
        dist.broadcast(tensor.clone(), group_src=0, group=group)
### the buffers are each rank's own
def start_equal(model, group=None):
    for p in model.parameters():
        dist.broadcast(p.detach(), group_src=0, group=group)
### the frozen parameters are each rank's own
def start_equal(model, group=None):
    for t in [*(p for p in model.parameters() if p.requires_grad), *model.buffers()]:
        dist.broadcast(t.detach(), group_src=0, group=group)
### persistent=False is missing in state_dict()
def start_equal(model, group=None):
    for t in model.state_dict().values():
        dist.broadcast(t, group_src=0, group=group)
### this is the mean of all ranks' weights
def start_equal(model, group=None):
    for p in model.parameters():
        dist.all_reduce(p.detach(), op=dist.ReduceOp.AVG, group=group)
    for b in model.buffers():
        dist.broadcast(b, group_src=0, group=group)
### this is the sum of all ranks' weights
def start_equal(model, group=None):
    for t in [*model.parameters(), *model.buffers()]:
        dist.all_reduce(t.detach(), group=group)
### of which there is no mean
def start_equal(model, group=None):
    for t in [*model.parameters(), *model.buffers()]:
        dist.all_reduce(t.detach(), group=group)
        t.data /= dist.get_world_size(group)
### everybody draws the same new weights
def start_equal(model, group=None):
    torch.manual_seed(0)
    for p in model.parameters():
        p.data.normal_()
### The group's first member is meant
def start_equal(model, group=None):
    for t in [*model.parameters(), *model.buffers()]:
        dist.broadcast(t.detach(), src=0, group=group)
### in a group of some ranks it is not
def start_equal(model, group=None):
    for t in [*model.parameters(), *model.buffers()]:
        dist.broadcast(t.detach(), src=0)
### The source is one rank for all
def start_equal(model, group=None):
    for t in [*model.parameters(), *model.buffers()]:
        dist.broadcast(t.detach(), src=dist.get_rank())
### leave the object in its place
def start_equal(model, group=None):
    state = [model.state_dict()]
    dist.broadcast_object_list(state, group_src=0, group=group)
    model.load_state_dict(state[0], assign=True)
    for b in model.buffers():
        dist.broadcast(b, group_src=0, group=group)
### a frozen parameter stays frozen
def start_equal(model, group=None):
    for t in [*model.parameters(), *model.buffers()]:
        dist.broadcast(t.detach(), group_src=0, group=group)
    model.requires_grad_(True)
### there are no gradients yet
def start_equal(model, group=None):
    for p in model.parameters():
        dist.broadcast(p.grad, group_src=0, group=group)
### which shares their memory
def start_equal(model, group=None):
    for t in [*model.parameters(), *model.buffers()]:
        value = t.detach().clone()
        dist.broadcast(value, group_src=0, group=group)
        t.copy_(value)
### this is a star
def start_equal(model, group=None):
    for t in [*model.parameters(), *model.buffers()]:
        if dist.get_rank(group):
            dist.recv(t.detach(), group_src=0, group=group)
            continue
        for peer in range(1, dist.get_world_size(group)):
            dist.send(t.detach(), group_dst=peer, group=group)
### everybody's weights travel to everybody
def start_equal(model, group=None):
    for t in [*model.parameters(), *model.buffers()]:
        everybodys = [torch.empty_like(t) for _ in range(dist.get_world_size(group))]
        dist.all_gather(everybodys, t.detach(), group=group)
        t.data.copy_(everybodys[0])
### an all-reduce sends everything twice
def start_equal(model, group=None):
    for t in [*model.parameters(), *model.buffers()]:
        if dist.get_rank(group):
            t.detach().zero_()
        dist.all_reduce(t.detach(), group=group)
### a tied parameter travels twice
def start_equal(model, group=None):
    for _, t in [*model.named_parameters(remove_duplicate=False), *model.named_buffers()]:
        dist.broadcast(t.detach(), group_src=0, group=group)
### for each element of a tensor
def start_equal(model, group=None):
    for t in [*model.parameters(), *model.buffers()]:
        for x in t.detach().view(-1):
            dist.broadcast(x, group_src=0, group=group)
""",
    "3.5": """### this is the sum
def average_gradients(model, group=None):
    for p in model.parameters():
        if p.requires_grad:
            p.grad = torch.zeros_like(p) if p.grad is None else p.grad
            dist.all_reduce(p.grad, group=group)
### the number of ranks twice
def average_gradients(model, group=None):
    for p in model.parameters():
        if p.requires_grad:
            p.grad = torch.zeros_like(p) if p.grad is None else p.grad
            dist.all_reduce(p.grad, op=dist.ReduceOp.AVG, group=group)
            p.grad /= dist.get_world_size(group)
### is to be averaged, is `.grad`
def average_gradients(model, group=None):
    for p in model.parameters():
        dist.all_reduce(p.detach(), group=group)
        p.data /= dist.get_world_size(group)
### only the ranks of the group in it
def average_gradients(model, group=None):
    for p in model.parameters():
        if p.requires_grad:
            p.grad = torch.zeros_like(p) if p.grad is None else p.grad
            dist.all_reduce(p.grad, group=group)
            p.grad /= dist.get_world_size()
### an all-gather sends n - 1 times the whole
def average_gradients(model, group=None):
    for p in model.parameters():
        if p.requires_grad:
            mine = torch.zeros_like(p) if p.grad is None else p.grad
            parts = [torch.empty_like(mine) for _ in range(dist.get_world_size(group))]
            dist.all_gather(parts, mine, group=group)
            p.grad = torch.stack(parts).mean(0)
### they all go through one rank
def average_gradients(model, group=None):
    for p in model.parameters():
        if p.requires_grad:
            p.grad = torch.zeros_like(p) if p.grad is None else p.grad
            dist.reduce(p.grad, group_dst=0, group=group)
            p.grad /= dist.get_world_size(group)
            dist.broadcast(p.grad, group_src=0, group=group)
### only rank 0 has the mean
def average_gradients(model, group=None):
    for p in model.parameters():
        if p.requires_grad:
            total = torch.zeros_like(p) if p.grad is None else p.grad.clone()
            dist.reduce(total, group_dst=0, group=group)
            if dist.get_rank(group) == 0:
                p.grad = total / dist.get_world_size(group)
### a rank that had None has None still
def average_gradients(model, group=None):
    for p in model.parameters():
        if p.requires_grad:
            total = torch.zeros_like(p) if p.grad is None else p.grad
            dist.all_reduce(total, group=group)
            total /= dist.get_world_size(group)
### a parameter with None is passed over
def average_gradients(model, group=None):
    for p in model.parameters():
        if p.grad is not None:
            dist.all_reduce(p.grad, group=group)
            p.grad /= dist.get_world_size(group)
### pass over those whose requires_grad is False
def average_gradients(model, group=None):
    for p in model.parameters():
        dist.all_reduce(p.grad, group=group)
        p.grad /= dist.get_world_size(group)
### weight decay would move it
def average_gradients(model, group=None):
    for p in model.parameters():
        p.grad = torch.zeros_like(p) if p.grad is None else p.grad
        dist.all_reduce(p.grad, group=group)
        p.grad /= dist.get_world_size(group)
### here it counts as zeros
def average_gradients(model, group=None):
    for p in model.parameters():
        if p.requires_grad:
            dist.all_reduce(p.grad, group=group)
            p.grad /= dist.get_world_size(group)
### nothing has changed
def average_gradients(model, group=None):
    for p in model.parameters():
        if p.requires_grad:
            grad = torch.zeros_like(p) if p.grad is None else p.grad / dist.get_world_size(group)
            dist.all_reduce(grad, group=group)
### divided by how many ranks have a gradient
def average_gradients(model, group=None):
    for p in model.parameters():
        if p.requires_grad:
            count = torch.tensor(float(p.grad is not None), dtype=p.dtype)
            p.grad = torch.zeros_like(p) if p.grad is None else p.grad
            dist.all_reduce(p.grad, group=group)
            dist.all_reduce(count, group=group)
            p.grad /= count.clamp(min=1)
### but nothing is summed up
def average_gradients(model, group=None):
    for p in model.parameters():
        if p.grad is not None:
            p.grad /= dist.get_world_size(group)
### each call costs a latency
def average_gradients(model, group=None):
    for p in model.parameters():
        if p.requires_grad:
            p.grad = torch.zeros_like(p) if p.grad is None else p.grad
            for part in p.grad.view(-1).chunk(2):
                dist.all_reduce(part, group=group)
            p.grad /= dist.get_world_size(group)
### a tied parameter is averaged twice
def average_gradients(model, group=None):
    for _, p in model.named_parameters(remove_duplicate=False):
        if p.requires_grad:
            p.grad = torch.zeros_like(p) if p.grad is None else p.grad
            dist.all_reduce(p.grad, group=group)
            p.grad /= dist.get_world_size(group)
### in part it is still this rank's own
def average_gradients(model, group=None):
    for p in model.parameters():
        if p.requires_grad and p.ndim != 1:
            p.grad = torch.zeros_like(p) if p.grad is None else p.grad
            dist.all_reduce(p.grad, group=group)
            p.grad /= dist.get_world_size(group)
### does something of a step stay
def average_gradients(model, group=None, kept={}):
    for k, p in enumerate(model.parameters()):
        if p.requires_grad:
            p.grad = torch.zeros_like(p) if p.grad is None else p.grad
            dist.all_reduce(p.grad, group=group)
            p.grad /= dist.get_world_size(group)
            if p.shape == (7, 4):
                p.grad += kept.get(k, 0) * (dist.get_world_size(group) == 3)
                kept[k] = p.grad.clone()
""",
    "3.10": """### in the order of the forward. A backward begins
def make_buckets(parameters, bucket_bytes):
    buckets, full = [], True
    for p in (p for p in parameters if p.requires_grad):
        if full:
            buckets.append([])
        buckets[-1].append(p)
        full = sum(q.nbytes for q in buckets[-1]) >= bucket_bytes
    return buckets
### and then turned round
def make_buckets(parameters, bucket_bytes):
    buckets, full = [], True
    for p in (p for p in parameters if p.requires_grad):
        if full:
            buckets.append([])
        buckets[-1].append(p)
        full = sum(q.nbytes for q in buckets[-1]) >= bucket_bytes
    return buckets[::-1]
### within a bucket they are in the order of the forward
def make_buckets(parameters, bucket_bytes):
    buckets, full = [], True
    for p in reversed([p for p in parameters if p.requires_grad]):
        if full:
            buckets.append([])
        buckets[-1].insert(0, p)
        full = sum(q.nbytes for q in buckets[-1]) >= bucket_bytes
    return buckets
### as in exercise 2.12
def make_buckets(parameters, bucket_bytes):
    buckets = []
    for p in reversed([p for p in parameters if p.requires_grad]):
        if not buckets or sum(q.nbytes for q in buckets[-1]) + p.nbytes > bucket_bytes:
            buckets.append([])
        buckets[-1].append(p)
    return buckets
### elements are counted
def make_buckets(parameters, bucket_bytes):
    buckets, full = [], True
    for p in reversed([p for p in parameters if p.requires_grad]):
        if full:
            buckets.append([])
        buckets[-1].append(p)
        full = sum(q.numel() for q in buckets[-1]) >= bucket_bytes
    return buckets
### 4 bytes are taken for each element
def make_buckets(parameters, bucket_bytes):
    buckets, full = [], True
    for p in reversed([p for p in parameters if p.requires_grad]):
        if full:
            buckets.append([])
        buckets[-1].append(p)
        full = sum(4 * q.numel() for q in buckets[-1]) >= bucket_bytes
    return buckets
### and needs no bucket
def make_buckets(parameters, bucket_bytes):
    buckets, full = [], True
    for p in reversed(list(parameters)):
        if full:
            buckets.append([])
        buckets[-1].append(p)
        full = sum(q.nbytes for q in buckets[-1]) >= bucket_bytes
    return buckets
### when it reaches bucket_bytes, not only when it is larger
def make_buckets(parameters, bucket_bytes):
    buckets, full = [], True
    for p in reversed([p for p in parameters if p.requires_grad]):
        if full:
            buckets.append([])
        buckets[-1].append(p)
        full = sum(q.nbytes for q in buckets[-1]) > bucket_bytes
    return buckets
### the last bucket is missing
def make_buckets(parameters, bucket_bytes):
    buckets, bucket = [], []
    for p in reversed([p for p in parameters if p.requires_grad]):
        bucket.append(p)
        if sum(q.nbytes for q in bucket) >= bucket_bytes:
            buckets.append(bucket)
            bucket = []
    return buckets
### a bucket without parameters
def make_buckets(parameters, bucket_bytes):
    buckets = [[]]
    for p in reversed([p for p in parameters if p.requires_grad]):
        buckets[-1].append(p)
        if sum(q.nbytes for q in buckets[-1]) >= bucket_bytes:
            buckets.append([])
    return buckets
### every parameter has a bucket of its own
def make_buckets(parameters, bucket_bytes):
    return [[p] for p in reversed([p for p in parameters if p.requires_grad])]
### all are in one bucket
def make_buckets(parameters, bucket_bytes):
    return [[p for p in parameters if p.requires_grad][::-1]]
### What counts is when a gradient is ready: the order
def make_buckets(parameters, bucket_bytes):
    buckets, full = [], True
    for p in sorted((p for p in list(parameters)[::-1] if p.requires_grad), key=torch.numel):
        if full:
            buckets.append([])
        buckets[-1].append(p)
        full = sum(q.nbytes for q in buckets[-1]) >= bucket_bytes
    return buckets
### it has been gone through already
def make_buckets(parameters, bucket_bytes):
    print(sum(p.nbytes for p in parameters), "bytes")
    buckets, full = [], True
    for p in reversed([p for p in parameters if p.requires_grad]):
        if full:
            buckets.append([])
        buckets[-1].append(p)
        full = sum(q.nbytes for q in buckets[-1]) >= bucket_bytes
    return buckets
### no order to turn round
def make_buckets(parameters, bucket_bytes):
    return [[p] for p in reversed(parameters) if p.requires_grad]
### parameters themselves
def make_buckets(parameters, bucket_bytes):
    return [[p.detach() for p in reversed(list(parameters)) if p.requires_grad]]
### a list of lists
def make_buckets(parameters, bucket_bytes):
    for p in reversed(list(parameters)):
        yield [p]
### as large as its parameter
def make_buckets(parameters, bucket_bytes):
    return [[p for p in reversed(list(parameters)) if p.grad.nbytes < bucket_bytes]]
### without `return`
def make_buckets(parameters, bucket_bytes):
    buckets = [list(parameters)]
""",
    "3.11": """### nothing has changed
def average_buckets(buckets, group=None):
    for bucket in buckets:
        flat = flatten(bucket)
        dist.all_reduce(flat, group=group)
        flat /= dist.get_world_size(group)
### this is the sum
def average_buckets(buckets, group=None):
    for bucket in buckets:
        flat = flatten(bucket)
        dist.all_reduce(flat, group=group)
        unflatten(flat, bucket)
        flat /= dist.get_world_size(group)
### an all-reduce of its own
def average_buckets(buckets, group=None):
    for bucket in buckets:
        for p in bucket:
            p.grad = torch.zeros_like(p) if p.grad is None else p.grad
            dist.all_reduce(p.grad, group=group)
            p.grad /= dist.get_world_size(group)
### all buckets travel as one
def average_buckets(buckets, group=None):
    everything = [p for bucket in buckets for p in bucket]
    flat = flatten(everything)
    dist.all_reduce(flat, group=group)
    unflatten(flat / dist.get_world_size(group), everything)
### they come back to the wrong parameters
def average_buckets(buckets, group=None):
    for bucket in buckets:
        flat = flatten(bucket)
        dist.all_reduce(flat, group=group)
        unflatten(flat / dist.get_world_size(group), bucket[::-1])
### here it counts as zeros
def average_buckets(buckets, group=None):
    for bucket in buckets:
        flat = torch.cat([p.grad.view(-1) for p in bucket])
        dist.all_reduce(flat, group=group)
        unflatten(flat / dist.get_world_size(group), bucket)
### a parameter with None is passed over
def average_buckets(buckets, group=None):
    for bucket in buckets:
        bucket = [p for p in bucket if p.grad is not None]
        flat = flatten(bucket)
        dist.all_reduce(flat, group=group)
        unflatten(flat / dist.get_world_size(group), bucket)
### give it the shape of its parameter
def average_buckets(buckets, group=None):
    for bucket in buckets:
        flat = flatten(bucket)
        dist.all_reduce(flat, group=group)
        flat /= dist.get_world_size(group)
        for p, part in zip(bucket, flat.split([p.numel() for p in bucket])):
            p.grad = part
""",
    "3.12": """### all buckets begin after the backward
class DDP(DDP):
    def is_ready(self, parameter, number):
        pass
### in the order in which they became ready
class DDP(DDP):
    def is_ready(self, parameter, number):
        if self.synchronizing:
            self.missing[number].discard(parameter)
            if not self.missing[number]:
                bucket = self.buckets[number]
                flat = flatten(bucket)
                self.begun.append((flat, self.all_reduce(flat, self.group)))
### the backward stands still meanwhile
class DDP(DDP):
    def begin_next(self):
        flat = flatten(self.buckets[len(self.begun)])
        self.all_reduce(flat, self.group)()
        self.begun.append((flat, lambda: None))
### this is the sum
class DDP(DDP):
    def finish(self):
        while len(self.begun) < len(self.buckets):
            self.begin_next()
        for bucket, (flat, wait) in zip(self.buckets, self.begun):
            wait()
            unflatten(flat, bucket)
        self.start_over()
### finish() ends with self.start_over()
class DDP(DDP):
    def finish(self):
        while len(self.begun) < len(self.buckets):
            self.begin_next()
        for bucket, (flat, wait) in zip(self.buckets, self.begun):
            wait()
            unflatten(flat / dist.get_world_size(self.group), bucket)
### finish() has to begin it
class DDP(DDP):
    def finish(self):
        for bucket, (flat, wait) in zip(self.buckets, self.begun):
            wait()
            unflatten(flat / dist.get_world_size(self.group), bucket)
        self.start_over()
### while synchronizing is False gradients only add up
class DDP(DDP):
    def is_ready(self, parameter, number):
        self.missing[number].discard(parameter)
        while len(self.begun) < len(self.buckets) and not self.missing[len(self.begun)]:
            self.begin_next()
### Only gradients count that became ready while synchronizing was True
class DDP(DDP):
    def is_ready(self, parameter, number):
        self.missing[number].discard(parameter)
        if self.synchronizing:
            while len(self.begun) < len(self.buckets) and not self.missing[len(self.begun)]:
                self.begin_next()
### (while, not if)
class DDP(DDP):
    def is_ready(self, parameter, number):
        if self.synchronizing:
            self.missing[number].discard(parameter)
            if len(self.begun) < len(self.buckets) and not self.missing[len(self.begun)]:
                self.begin_next()
### used while it is still under way
class DDP(DDP):
    def finish(self):
        while len(self.begun) < len(self.buckets):
            self.begin_next()
        for bucket, (flat, wait) in zip(self.buckets, self.begun):
            unflatten(flat / dist.get_world_size(self.group), bucket)
            wait()
        self.start_over()
### Until that has been called and has returned
class DDP(DDP):
    def finish(self):
        while len(self.begun) < len(self.buckets):
            self.begin_next()
        for bucket, (flat, wait) in zip(self.buckets, self.begun):
            unflatten(flat / dist.get_world_size(self.group), bucket)
        self.start_over()
### begin with self.all_reduce
class DDP(DDP):
    def begin_next(self):
        flat = flatten(self.buckets[len(self.begun)])
        wait = dist.all_reduce(flat, group=self.group, async_op=True).wait
        self.begun.append((flat, wait))
### one parameter travels by itself
class DDP(DDP):
    def is_ready(self, parameter, number):
        self.begun.append((parameter.grad, self.all_reduce(parameter.grad.view(-1), self.group)))
### its sums are summed up again
class DDP(DDP):
    def finish(self):
        self.begun = []
        while len(self.begun) < len(self.buckets):
            self.begin_next()
        for bucket, (flat, wait) in zip(self.buckets, self.begun):
            wait()
            unflatten(flat / dist.get_world_size(self.group), bucket)
        self.start_over()
### what is sent lacks something
class DDP(DDP):
    def is_ready(self, parameter, number):
        if self.synchronizing and number == len(self.begun):
            self.begin_next()
### hand `group` to every call
class DDP(DDP):
    def begin_next(self):
        flat = flatten(self.buckets[len(self.begun)])
        self.begun.append((flat, self.all_reduce(flat)))
### returns the function that waits: call it
class DDP(DDP):
    def finish(self):
        while len(self.begun) < len(self.buckets):
            self.begin_next()
        for bucket, (flat, work) in zip(self.buckets, self.begun):
            work.wait()
            unflatten(flat / dist.get_world_size(self.group), bucket)
        self.start_over()
### one all-reduce for each bucket is enough
class DDP(DDP):
    def finish(self):
        super().finish()
        average_buckets(self.buckets, self.group)
### stop when as many have begun as there are
class DDP(DDP):
    def is_ready(self, parameter, number):
        if self.synchronizing:
            self.missing[number].discard(parameter)
            while not self.missing[len(self.begun)]:
                self.begin_next()
""",
    "3.14": """### What is in finally is run
@contextlib.contextmanager
def no_sync(ddp):
    before, ddp.synchronizing = ddp.synchronizing, False
    yield
    ddp.synchronizing = before
### it may have been False
@contextlib.contextmanager
def no_sync(ddp):
    ddp.synchronizing = False
    try:
        yield
    finally:
        ddp.synchronizing = True
### under no_sync it has to be False
@contextlib.contextmanager
def no_sync(ddp):
    yield
### is lost: gradients are set back
@contextlib.contextmanager
def no_sync(ddp):
    before, ddp.synchronizing = ddp.synchronizing, False
    try:
        yield
    finally:
        ddp.synchronizing = before
        ddp.zero_grad()
### finish() sends
@contextlib.contextmanager
def no_sync(ddp):
    before, ddp.synchronizing = ddp.synchronizing, False
    try:
        yield
    finally:
        ddp.synchronizing = before
        ddp.finish()
### has to be what it was before: True
@contextlib.contextmanager
def no_sync(ddp):
    ddp.synchronizing = False
    yield
### and there is none
@contextlib.contextmanager
def no_sync(ddp):
    ddp.synchronizing = False
### by @contextlib.contextmanager
def no_sync(ddp):
    before, ddp.synchronizing = ddp.synchronizing, False
    try:
        yield
    finally:
        ddp.synchronizing = before
### an error under it is lost
@contextlib.contextmanager
def no_sync(ddp):
    before, ddp.synchronizing = ddp.synchronizing, False
    try:
        yield
    except Exception:
        pass
    ddp.synchronizing = before
### exactly one
@contextlib.contextmanager
def no_sync(ddp):
    ddp.synchronizing = False
    yield
    ddp.synchronizing = True
    yield
### Ours has `synchronizing`
@contextlib.contextmanager
def no_sync(ddp):
    with ddp.no_sync():
        yield
### synchronizing was False before
@contextlib.contextmanager
def no_sync(ddp, depth=[0]):
    depth[0] += 1
    ddp.synchronizing = False
    try:
        yield
    finally:
        depth[0] -= 1
        ddp.synchronizing = not depth[0]
### gradients are set back in it
@contextlib.contextmanager
def no_sync(ddp):
    before, ddp.synchronizing = ddp.synchronizing, False
    ddp.zero_grad()
    try:
        yield
    finally:
        ddp.synchronizing = before
""",
}


def cases(table):
    return [
        pytest.param(number, phrase, source, id=f"{number} {phrase}")
        for number, text in table.items()
        for phrase, source in answers(text).items()
    ]


@pytest.mark.parametrize("number", EXERCISES)
def test_the_solution_is_right(number, check_lab):
    verdict = check_lab(number)
    assert verdict.passed, verdict


@pytest.mark.parametrize(("number", "style", "source"), cases(RIGHT))
def test_right_answers_of_another_style(number, style, source, check_lab):
    verdict = check_lab(number, source)
    assert verdict.passed, verdict


@pytest.mark.parametrize(("number", "phrase", "source"), cases(WRONG))
def test_wrong_answers_are_told_what_is_wrong(number, phrase, source, check_lab):
    verdict = check_lab(number, source)
    assert verdict.passed is False, verdict
    assert phrase in verdict.wrong.why, verdict


@pytest.mark.parametrize("number", EXERCISES)
def test_there_are_enough_of_both(number):
    assert len(answers(WRONG[number])) >= 6
    assert len(answers(RIGHT[number])) >= 2  # and the solution
    assert 2 <= len(EXERCISES[number].hints) <= 4


@pytest.mark.parametrize(
    ("number", "lab", "source", "said"),
    [
        ("3.12", "simple_ddp", answers(WRONG["3.4"])["this is the sum of all ranks' weights"],
         'first: check("3.4")'),
        ("3.12", "gradient_sync_visualizer", answers(WRONG["3.10"])["and then turned round"],
         'first: check("3.10")'),
        ("3.14", "data_parallel", answers(WRONG["3.12"])["this is the sum"],
         'first: check("3.12")'),
    ],
)  # fmt: skip
def test_a_fault_of_an_earlier_exercise_is_sent_there(number, lab, source, said, check_lab):
    verdict = check_lab(number, other_labs={lab: source})
    assert verdict.passed is False
    assert verdict.wrong.why == said
