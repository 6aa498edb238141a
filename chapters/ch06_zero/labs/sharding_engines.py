"""Widely used sharding engines next to ours: the same model and the same steps on the same ranks.

torchrun --nproc-per-node 4 labs/sharding_engines.py
"""

import copy
import importlib.util
import os
import warnings
from functools import partial

import torch
import torch.distributed as dist
from language_model import Transformer, draw_batch, mean_loss, standard_library
from simple_ddp import now, share_of_rank
from torch.nn.parallel import DistributedDataParallel
from zero import Zero1, Zero2, Zero3, whole

# Engines are imported where they are used, as importing one takes seconds in each new process.

RATE = 1e-3
EPSILON = 1e-4  # with the default of 1e-8, Adam turns rounding noise into full steps
adam = partial(torch.optim.Adam, lr=RATE, eps=EPSILON)


class Engine:
    """An engine, which trains a model.

    module     what to call in the forward
    backward   takes the loss
    step       updates the model, and clears the gradients
    weights()  returns every parameter in full, in the order of the model, as one flat tensor
    """

    def __init__(self, module, optimizer, model):
        self.module, self.optimizer, self.model = module, optimizer, model

    def backward(self, loss):
        loss.backward()

    def step(self):
        self.optimizer.step()
        self.optimizer.zero_grad()

    def weights(self):
        parameters = self.model.parameters()  # FSDP2's are DTensors, of which a rank has a part
        found = [p.full_tensor() if hasattr(p, "full_tensor") else p for p in parameters]
        return torch.cat([p.detach().reshape(-1) for p in found])


def ddp(model):
    return Engine(DistributedDataParallel(model), adam(model.parameters()), model)


def zero_redundancy(model):
    """Return PyTorch's stage 1: DDP, and an optimizer that shares out whole parameters."""
    from torch.distributed.optim import ZeroRedundancyOptimizer

    optimizer = ZeroRedundancyOptimizer(model.parameters(), torch.optim.Adam, lr=RATE, eps=EPSILON)
    return Engine(DistributedDataParallel(model), optimizer, model)


class Ours(Engine):
    """A stage of labs/zero.py."""

    def __init__(self, stage, model):
        self.engine = stage(model, adam, list(model.blocks))
        super().__init__(model, None, model)

    def step(self):
        self.engine.step()

    def weights(self):
        with whole(self.engine):
            return super().weights().clone()


def fsdp(model, **settings):
    """Return FSDP2 with each block as a unit, and all that is left as one more."""
    from torch.distributed.fsdp import fully_shard

    for block in model.blocks:
        fully_shard(block, **settings)
    fully_shard(model, **settings)
    return Engine(model, adam(model.parameters()), model)


def hybrid(model):
    """Return FSDP within halves of the world; gradients are averaged between them, as in DDP."""
    from torch.distributed.device_mesh import init_device_mesh

    device, n = torch.get_default_device().type, dist.get_world_size()
    mesh = init_device_mesh(device, (2, n // 2), mesh_dim_names=("replicate", "shard"))
    return fsdp(model, mesh=mesh, reshard_after_forward=True)


ENGINES = {
    "DDP": ddp,
    "ours, stage 1": partial(Ours, Zero1),
    "ZeroRedundancyOptimizer": zero_redundancy,
    "ours, stage 2": partial(Ours, Zero2),
    "FSDP2, kept gathered": partial(fsdp, reshard_after_forward=False),
    "ours, stage 3": partial(Ours, Zero3),
    "FSDP2": partial(fsdp, reshard_after_forward=True),
    "FSDP2, 2 halves": hybrid,
}

# ---- DeepSpeed, if it is installed ----------------------------------------------------------

HAS_DEEPSPEED = importlib.util.find_spec("deepspeed") is not None
NO_DEEPSPEED = (
    "DeepSpeed is optional and not installed here: `python3 tools/setup.py deepspeed` in the "
    "course's folder installs it (half a minute); everything else works without it."
)
RELEASED = {  # stage 3 as in the paper: parameters are whole while they are used, and only then
    "stage3_param_persistence_threshold": 0,  # default 100,000: smaller ones stay whole
    "stage3_max_reuse_distance": 0,  # default 1e9: kept if used again within so many numbers
    "stage3_prefetch_bucket_size": 0,  # default 5e7: the next are fetched, and kept, too
}


def make_deepspeed_engine(model, **zero_optimization):
    """Return DeepSpeed's ZeRO for a model; the arguments are that section of its JSON."""
    os.environ.setdefault("DS_ACCELERATOR", next(model.parameters()).device.type)
    os.environ["TORCHDYNAMO_DISABLE"] = "1"  # else it imports torch's compiler: seconds, unused
    warnings.filterwarnings("ignore", category=FutureWarning, module="torch.distributed")
    import deepspeed

    deepspeed.ops.__compatible_ops__ = {}  # else it compiles C++: a minute, unused
    largest = max(p.numel() for p in model.parameters())
    config = {
        "train_micro_batch_size_per_gpu": 1,  # needs a number; nothing depends on it here
        "managed_gradient_accumulation": False,  # any number of backwards before a step
        "gradient_clipping": 0.0,  # the default of 0.19.8 is 1.0, that of 0.19.0 was 0.0
        "zero_allow_untested_optimizer": True,
        "zero_force_ds_cpu_optimizer": False,  # its own would be compiled, too
        "zero_optimization": {"reduce_bucket_size": largest} | zero_optimization,
    }
    parts = {"model": model, "model_parameters": model.parameters(), "optimizer": adam}
    return deepspeed.initialize(**parts, config=config)[0]


class DeepSpeed(Engine):
    """A stage of DeepSpeed's ZeRO."""

    def __init__(self, settings, model):
        self.engine = make_deepspeed_engine(model, **settings)
        super().__init__(self.engine, None, model)

    def step(self):
        self.engine.step()

    def weights(self):
        import deepspeed

        with deepspeed.zero.GatheredParameters(list(self.model.parameters())):
            return super().weights().clone()


DEEPSPEED = {
    "DeepSpeed, stage 1": partial(DeepSpeed, {"stage": 1}),
    "DeepSpeed, stage 2": partial(DeepSpeed, {"stage": 2}),
    "DeepSpeed, stage 3": partial(DeepSpeed, {"stage": 3}),
    "DeepSpeed, 3 released": partial(DeepSpeed, {"stage": 3, **RELEASED}),
}


def all_engines() -> list:
    """Return (name, function that makes it) for each engine that is available here."""
    return [*ENGINES.items(), *(DEEPSPEED.items() if HAS_DEEPSPEED else ())]


# ---- The same steps with each engine --------------------------------------------------------


def make_model(width=64, layers=4, dtype=torch.float32):
    """Return a small transformer, the same on every rank."""
    torch.manual_seed(0)
    return Transformer(width, layers).to(dtype)


def train_alone(model, text, steps, samples):
    """Train on rank 0 alone with the whole batch; return its weights on every rank."""
    optimizer = adam(model.parameters())
    for step in range(steps if dist.get_rank() == 0 else 0):
        inputs, targets = draw_batch(text, samples, step)
        optimizer.zero_grad()
        mean_loss(model(inputs), targets).backward()
        optimizer.step()
    weights = torch.cat([p.detach().reshape(-1) for p in model.parameters()])
    dist.broadcast(weights, 0)
    return weights


def try_engine(make_engine, model, text, steps=6, samples=4) -> tuple[float, float]:
    """Train; the last step is measured as "step", and in it, before the optimizer, "kept".

    samples  per rank
    Returns  how far the weights are from those of one process, as a share of the largest, and the
             seconds of the fastest step
    """
    from pedagogy_lib import measure, relative_gap

    samples *= dist.get_world_size()
    alone = train_alone(copy.deepcopy(model), text, steps, samples)
    engine, times = make_engine(model), []
    for step in range(steps):
        inputs, targets = share_of_rank(draw_batch(text, samples, step))
        dist.barrier()
        began = now()
        if step < steps - 1:
            engine.backward(mean_loss(engine.module(inputs), targets))
            engine.step()
        else:
            with measure("step"):
                engine.backward(mean_loss(engine.module(inputs), targets))
                with measure("kept"):
                    pass
                engine.step()
        times.append(now() - began)
    return relative_gap(engine.weights(), alone), min(times[1:-1])


# ---- The program ----------------------------------------------------------------------------


def one_engine(name, text):
    return try_engine(dict(all_engines())[name], make_model(), text)


def main():
    from pedagogy_lib import launch
    from pedagogy_lib.unwritten import misses_something

    if misses_something(__file__):
        return
    if not HAS_DEEPSPEED:
        print(NO_DEEPSPEED)
    text, model_bytes = standard_library(), sum(p.nbytes for p in make_model().parameters())
    for name, _ in all_engines():
        run = launch(one_engine, name, text, world_size=4)
        if run.rank == 0:
            gap, seconds = run.values[0]
            kept, sent = run["kept"].peak_bytes[0], run["step"].sent_bytes[0]
            kinds = ("parameters", "gradients", "optimizer_state")
            print(
                f"{name:24} {1e3 * seconds:5.0f} ms, {sent / model_bytes:.2f} models sent, kept: "
                + ", ".join(f"{kind} {kept[kind] / model_bytes:.2f}" for kind in kinds)
                + f" models; {gap:.0e} from one process"
            )


if __name__ == "__main__":
    main()
