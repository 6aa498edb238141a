# Built from chapters/ch05_memory/labs/what_fits.py by `make build`.
"""What fits on which GPU: chapter 10's memory model, compared with small models that really run.

python labs/what_fits.py
"""

import ctypes
from dataclasses import replace
from functools import partial

import torch
from any_plan import AnyPlan
from cost_model import FULL, NONE, Engine, Job, Plan, memory
from language_model import CHARACTERS, Transformer, draw_batch, mean_loss, standard_library
from large_vocabulary import process_bytes_of
from live_plans import START
from llama import Llama
from model_shapes import Gpu, Shape, gpu_named, model_named
from three_dimensions import adam
from torch import nn

# ---- Small models that really run -----------------------------------------------------------

WIDTH, LAYERS, HEADS, CONTEXT, SAMPLES = 64, 4, 4, 64, 8
# labs/any_plan.py in float32: 16 times a block's input is kept (05d), and 16 bytes a logit (05e).
COUNTED = replace(START, kept=16.0, kept_mlp=8.0, kept_whole=16.0, logits=16.0, base=0.0)
plan = partial(Plan, sequence=False)
LARGE = 4096  # a vocabulary
KINDS = {  # name: (plan, vocabulary, whether the ends of the model share their matrix)
    "one rank": (plan(micro_batch=8), CHARACTERS, False),
    "4 micro-batches": (plan(micro_batch=2), CHARACTERS, False),
    "recomputed": (plan(micro_batch=8, recompute=FULL), CHARACTERS, False),
    "ZeRO 1": (plan(dp=2, zero=1, micro_batch=4), CHARACTERS, False),
    "ZeRO 2": (plan(dp=2, zero=2, micro_batch=4), CHARACTERS, False),
    "ZeRO 3": (plan(dp=2, zero=3, micro_batch=4), CHARACTERS, False),
    "ZeRO 3, recomputed": (plan(dp=2, zero=3, micro_batch=4, recompute=FULL), CHARACTERS, False),
    "tp 2": (plan(tp=2, micro_batch=8), CHARACTERS, False),
    "pp 2": (plan(pp=2, micro_batch=2), CHARACTERS, False),
    "large vocabulary": (plan(micro_batch=8), LARGE, False),
    "large, tied": (plan(micro_batch=8), LARGE, True),
    "large, ZeRO 3": (plan(dp=2, zero=3, micro_batch=4), LARGE, False),
    "large, pp 2": (plan(pp=2, micro_batch=2), LARGE, False),
}
TOO_LITTLE = {  # where the memory model predicts less than is measured
    "tp 4": (plan(tp=4, micro_batch=8), CHARACTERS, False),
    "8 micro-batches": (plan(micro_batch=1), CHARACTERS, False),
}
STATES = ("parameters", "gradients", "optimizer_state")


def small_model(vocabulary, is_tied) -> Transformer:
    torch.manual_seed(0)
    model = Transformer(WIDTH, LAYERS, HEADS, CONTEXT)
    model.letters = nn.Embedding(vocabulary, WIDTH)
    model.output = nn.Linear(WIDTH, vocabulary, bias=False)
    if is_tied:
        model.output.weight = model.letters.weight
    return model


def train_under(plan, make_model, batch):
    """Take two steps under a plan; the second one is a measured block, "step"."""
    from pedagogy_lib import measure

    engine = AnyPlan(make_model(), plan, adam)
    engine.step(*batch)
    with measure("step"):
        engine.step(*batch)


def predict_memory(name) -> dict[str, float]:
    """Return the memory model's {kind: bytes} on the fullest rank; activations: all but states."""
    plan, vocabulary, is_tied = (KINDS | TOO_LITTLE)[name]
    shape = Shape(LAYERS, WIDTH, HEADS, 4 * WIDTH, vocabulary, CONTEXT, positions=CONTEXT,
                  vectors=13 * WIDTH, end_vectors=2 * WIDTH, is_tied=is_tied)  # fmt: skip
    job = Job(shape, Gpu(1e9, 1e9, 1e9, 1e9, 1e9), SAMPLES, COUNTED)
    return merge_activations(memory(job, plan))


def measure_memory(name, text) -> dict[str, float]:
    """Return {kind: bytes} on the fullest rank of a step that really runs, in the same kinds."""
    plan, *sizes = (KINDS | TOO_LITTLE)[name]
    return measure_model(plan, partial(small_model, *sizes), text)


def measure_model(plan, make_model, text) -> dict[str, float]:
    """Return {kind: bytes} on the fullest rank of a step of a model, in the same kinds."""
    from pedagogy_lib import launch

    batch = draw_batch(text, SAMPLES, 0, CONTEXT)
    run = launch(train_under, plan, make_model, batch, world_size=plan.ranks, device="cpu")
    return merge_activations(max(run["step"].at_peak, key=total_of))


def total_of(kinds) -> float:
    """Return the sum over all kinds of memory, without an entry "total"."""
    return sum(nbytes for kind, nbytes in kinds.items() if kind != "total")


def merge_activations(kinds) -> dict[str, float]:
    """Return the states by kind, and all else, such as temporary results, as activations."""
    states = {kind: float(kinds[kind]) for kind in STATES}
    return states | {"activations": float(total_of(kinds)) - sum(states.values())}


# ---- A Llama --------------------------------------------------------------------------------

LLAMA = Shape(LAYERS, WIDTH, HEADS, 170, CHARACTERS, CONTEXT, 2, is_gated=True,
              vectors=2 * WIDTH, end_vectors=WIDTH)  # fmt: skip


def keep_as_llama(engine, shape, norm=1) -> Engine:
    """Return an engine that keeps what a Llama block of this shape does: see part 05d.

    norm  tensors as large as its input that RMSNorm keeps: 2 where several operations compute it
    """
    number = engine.number_bytes
    return replace(
        engine, kept=number * (2 + 2 * shape.kv_width / shape.width), kept_mlp=4 * number,
        kept_whole=2 * number * (norm + 1),
    )  # fmt: skip


def compare_llama(text) -> dict[str, dict]:
    """Return {kind: bytes} of a small Llama's step, measured and by the memory model.

    Returns  "measured"; "GPT-2's block" and "Llama's block": what the model says is kept
    """
    sizes = WIDTH, LAYERS, HEADS, CONTEXT, False, LLAMA.kv_heads, LLAMA.mlp
    found = {"measured": measure_model(plan(micro_batch=8), partial(Llama, *sizes), text)}
    for block, engine in (
        ("GPT-2's block", COUNTED),
        ("Llama's block", keep_as_llama(COUNTED, LLAMA, norm=2)),
    ):
        job = Job(LLAMA, Gpu(1e9, 1e9, 1e9, 1e9, 1e9), SAMPLES, engine)
        found[block] = merge_activations(memory(job, plan(micro_batch=8)))
    return found


# ---- Large models ---------------------------------------------------------------------------

PRECISIONS = {  # bytes per parameter, gradient and master; per number; per logit
    "mixed, 16 bytes": (2, 2, 4, 2, 14),
    "mixed, 18 bytes": (2, 4, 4, 2, 14),
    "float32": (4, 4, 0, 4, 16),
}
OPTIMIZERS = {"Adam": 8, "SGD with momentum": 4, "SGD": 0}
# As NVIDIA writes them, in 1e9 bytes. Drivers report more (an A100's 81,920 MiB), of which CUDA,
# NCCL and fragments of free memory take some.
LIMITS = {"V100": 32e9, "A100 40 GB": 40e9, "A100 80 GB": 80e9, "H200": 141e9, "B300": 288e9}


def engine_with(precision, optimizer) -> Engine:
    """Return an engine that keeps 16 times a block's input and gathers two ZeRO-3 units at a time.

    These 16 are GPT-2's; keep_as_llama changes them.

    base  assumed: 1 GB for the CUDA context and the like
    """
    weight, gradient, master, number, logit = PRECISIONS[precision]
    return Engine(
        parameter_bytes=weight, gradient_bytes=gradient,
        optimizer_bytes=master + OPTIMIZERS[optimizer], number_bytes=number,
        kept=4 * number, kept_mlp=2 * number, kept_whole=4 * number,
        working=2 * number, units=2.0, logits=logit, base=1e9,
    )  # fmt: skip


def predict_gpu_memory(
    shape,
    samples,
    precision="mixed, 16 bytes",
    optimizer="Adam",
    recomputed=NONE,
    dp=1,
    zero=0,
    tp=1,
    pp=1,
    in_chunks=False,
) -> dict[str, float]:
    """Return {kind: bytes} on the fullest GPU; a pipeline has 4 micro-batches per stage.

    in_chunks  whether the loss is computed in chunks; what remains of it, the last layer's gradient
               and its copy, is left out
    """
    plan = Plan(dp=dp, tp=tp, pp=pp, zero=zero, micro_batch=samples, recompute=recomputed)
    batch = samples * dp * (4 * pp if pp > 1 else 1)
    engine = engine_with(precision, optimizer)
    if shape.is_gated:
        engine = keep_as_llama(engine, shape)
    if in_chunks:
        engine = replace(engine, logits=0.0)
    found = memory(Job(shape, gpu_named("A100"), batch, engine), plan)
    return {kind: float(nbytes) for kind, nbytes in found.items() if kind != "total"}


def shape_of(layers, hidden, context, vocabulary) -> Shape:
    """Return a model's shape, with heads of about 128 numbers and an MLP 4 times as wide."""
    return Shape(layers, hidden, max(1, hidden // 128), 4 * hidden, vocabulary, context)


def fewest_gpus(shape, limit, samples=1, most=4096, **how):
    """Return how few GPUs (2**k) along dp fit `limit` bytes under ZeRO 3; None if none do."""
    counts = (2**k for k in range(most.bit_length()))
    return next(
        (
            n
            for n in counts
            if total_of(predict_gpu_memory(shape, samples, dp=n, zero=3, **how)) <= limit
        ),
        None,
    )


# ---- Fewer samples at a time ----------------------------------------------------------------


def accumulate(text, width, layers, samples, count):
    """Run a batch in so many micro-batches; forwards and backwards are a measured block."""
    from pedagogy_lib import measure

    model = Transformer(width, layers)
    parts = list(zip(*(x.chunk(count) for x in draw_batch(text, samples, 0))))
    with measure("backwards"):
        for inputs, targets in parts:
            (mean_loss(model(inputs), targets) / count).backward()


# ---- What the allocator adds ----------------------------------------------------------------


def process_grows(way, sizes, directly=False):
    """Return by how many bytes this process grows during a step of labs/large_vocabulary.py.

    directly  whether each tensor gets separate memory from the kernel and gives it back at once
    Returns   None where this cannot be set, or where the kernel does not report it
    """
    if directly and not set_threshold(2**20):
        return None
    return process_bytes_of(way, *sizes)


def set_threshold(nbytes) -> bool:
    """Make glibc ask the kernel for each piece from this size on; return whether it can."""
    m_mmap_threshold = -3
    try:
        return bool(ctypes.CDLL(None).mallopt(m_mmap_threshold, nbytes))
    except (AttributeError, OSError):
        return False


def fragment_a_gpu(megabytes=32, count=16) -> list[tuple]:
    """Return [(event, bytes allocated, reserved, taken on the GPU)]; [] without a GPU."""
    if torch.get_default_device().type != "cuda":
        return []
    rows = []

    def note(what):
        free, whole = torch.cuda.mem_get_info()
        rows.append((what, torch.cuda.memory_allocated(), torch.cuda.memory_reserved(),
                     whole - free))  # fmt: skip

    whole = torch.empty(count * megabytes * 2**20, dtype=torch.uint8)
    note("one large tensor")
    del whole  # its segment stays reserved; the next tensors go into it
    held = [torch.empty(megabytes * 2**20, dtype=torch.uint8) for _ in range(count)]
    note(f"{count} tensors of {megabytes} MiB")
    del held[::2]
    note("every second one is freed")
    large = torch.empty(4 * megabytes * 2**20, dtype=torch.uint8)
    note(f"one of {large.nbytes // 2**20} MiB")
    torch.cuda.empty_cache()
    note("empty_cache()")
    return rows


def main():
    from pedagogy_lib.unwritten import misses_something

    if misses_something(__file__):
        return
    text = standard_library(50_000)
    for name in KINDS:
        by_model, by_run = total_of(predict_memory(name)), total_of(measure_memory(name, text))
        print(f"{name:20} told {by_model / 1e6:6.2f} MB, measured {by_run / 1e6:6.2f} MB")
    shape = model_named("llama-2-7b")
    print("Llama 2 7B in 40 GB:", fewest_gpus(shape, 40e9, recomputed=FULL), "GPUs")


if __name__ == "__main__":
    main()
