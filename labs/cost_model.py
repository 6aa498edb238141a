# Built from chapters/ch05_memory/labs/cost_model.py by `make build`.
"""The cost of one training step under a plan: FLOPs, and memory by kind. Seconds: cost_seconds.py.

Every number of a plan may be a numpy array, so that one call computes thousands of plans.

python labs/cost_model.py
"""

from dataclasses import dataclass, field, fields, replace

import numpy as np
from model_shapes import Gpu, Shape, gpu_named, model_named

NONE, SELECTIVE, FULL = "none", "selective", "full"  # what is recomputed in the backward
PRECISIONS = BF16, FP8, MXFP8, NVFP4 = "bf16", "fp8", "mxfp8", "nvfp4"

# ---- A plan, and the engine that runs it ----------------------------------------------------


@dataclass(frozen=True)
class Plan:
    """A plan to train a model: ranks along each axis, and what is sharded and recomputed.

    zero         stage of ZeRO along dp and cp together: 0 to 3
    micro_batch  samples that go through the model at a time
    recompute    "none"; "selective": the inside of attention; "full": all but a layer's input
    chunks       of the model on each stage: more than 1 for an interleaved pipeline
    sequence     whether sequence parallelism cuts what tp alone would leave whole
    ep           ranks that share out the experts of a layer, from dp × cp × tp
    etp          ranks along which each expert is cut, as tp cuts everything else
    replicas     copies of the shards of ZeRO: more than 1 for hybrid sharding (HSDP)
    recomputed   share of the layers that `recompute` applies to
    precision    of matrix products, and of what ZeRO 3 and experts send: a key of PRECISIONS
    """

    dp: int = 1
    tp: int = 1
    pp: int = 1
    cp: int = 1
    zero: int = 0
    micro_batch: int = 1
    recompute: str = NONE
    chunks: int = 1
    sequence: bool = True
    ep: int = 1
    etp: int = 1
    replicas: int = 1
    recomputed: float = 1.0
    precision: str = BF16

    @property
    def ranks(self):
        return self.dp * self.tp * self.pp * self.cp

    def each(self):
        """Yield the single plans of a plan of arrays, one after another."""
        columns = np.broadcast_arrays(*(getattr(self, f.name) for f in fields(self)))
        for values in zip(*(np.atleast_1d(c).tolist() for c in columns)):
            yield Plan(*values)


@dataclass(frozen=True)
class Engine:
    """How well some software uses the hardware: numbers that are measured, not derived.

    products, attention  shares of what the GPU reaches at best (gpu.flops × gpu.reach)
    ragged       how many times as long products take whose width is no multiple of 64
    traffic      bytes that a layer's other kernels move, per token and unit of width, cut by tp;
                 traffic_whole: those that only sequence parallelism cuts
    is_fused     whether attention stores no scores
    is_balanced  whether stages take equally long, including the ends of the model
    launch       seconds that a layer's forward and backward take at least, however small they are;
                 hop: more of them for each further rank along tp; crossing: for each further
                 machine
    launch_pp, hop_pp, crossing_pp   the same where there is a pipeline
    is_queued    whether kernels wait in a queue, so that computation hides their launches
    cores        on which the launching programs of all ranks run, if they have to share some
    inside, across  shares of the links' bytes per second that collectives reach
    exposed      share of the time along dp that no computation hides, where gradients are sent
                 during the backward; exposed_late: with stages, or where parameters are gathered
                 after the step; exposed_pp: along pp; exposed_ep: of the all-to-all of experts
    grouped      share of `products` that the small products of experts reach
    imbalance    tokens of the fullest expert, as a multiple of the mean
    products_8bit, products_4bit  like `products`, of what the GPU reaches in these formats
    reduced_bytes  per number of a gradient that is summed over ranks
    stall        seconds of a message between stages where the network stalls: with stages on at
                 least `crowd` GPUs
    message      seconds that a message between two stages takes at least; unit: a call for each
                 further rank, for a unit of ZeRO
    around       seconds that a round of keys along cp takes at least. It makes the error of the one
                 published run with cp that of others of the same model: arXiv 2407.21783, table 4
    straggle     how far the times of ranks spread: the standard deviation of computing, as a share.
                 All wait for the slowest of n, about √(2 ln n) standard deviations behind the mean
    fixed        seconds per step for all else
    updating     bytes that the optimizer moves per parameter of a rank
    parameter_bytes, gradient_bytes, optimizer_bytes   per parameter
    number_bytes of each number that is sent, or is kept as a layer's input
    averaging    bytes per parameter while gradients are averaged, next to the gradients
    sheds        whether there are no gradients between two steps
    keeps_sent   whether a stage keeps what it has sent until the end of the step
    block_scores bytes per score of a block in ring attention
    units        layers that ZeRO 3 has gathered at a time
    sequence     whether tp comes with sequence parallelism
    kept, kept_mlp  bytes that a layer keeps per token, for each unit of its width, and of the width
                    inside the MLP; tp cuts them. kept_whole: those that only sequence parallelism
                    cuts
    working      bytes per token that one layer's backward has next to them, for each unit of the
                 MLP's width
    scores       bytes that a layer keeps per score, if it stores any
    logits       bytes per token and entry of the vocabulary, where the loss is computed
    base         bytes on every rank, whatever it trains
    """

    products: float = 1.0
    attention: float = 0.8
    ragged: float = 1.3
    traffic: float = 60.0
    is_fused: bool = True
    is_balanced: bool = False
    launch: float = 2e-3
    hop: float = 0.0
    crossing: float = 0.0
    is_queued: bool = True
    cores: float = np.inf
    traffic_whole: float = 0.0
    launch_pp: float = 2e-3
    hop_pp: float = 0.0
    crossing_pp: float = 0.0
    inside: float = 0.5
    across: float = 0.4
    exposed: float = 0.3
    exposed_late: float = 0.6
    exposed_ep: float = 0.7
    grouped: float = 0.8
    imbalance: float = 1.1
    products_8bit: float = 0.75
    products_4bit: float = 0.6
    reduced_bytes: float = 4.0
    exposed_pp: float = 0.5
    message: float = 5e-4
    stall: float = 0.0
    crowd: float = np.inf
    around: float = 7e-4
    straggle: float = 0.01
    unit: float = 5e-6
    fixed: float = 5e-2
    updating: float = 30.0
    parameter_bytes: float = 2.0
    gradient_bytes: float = 4.0
    optimizer_bytes: float = 12.0
    number_bytes: float = 2.0
    averaging: float = 0.0
    sheds: bool = False
    keeps_sent: bool = False
    sequence: bool = True
    kept: float = 8.0
    kept_mlp: float = 4.0
    kept_whole: float = 10.0
    working: float = 0.0
    block_scores: float = 0.0
    units: float = 2.0
    scores: float = 5.0
    logits: float = 10.0
    base: float = 1e9
    found: str = field(default="", compare=False)


@dataclass(frozen=True)
class Job:
    """A training job: a model on a kind of GPU, with `batch` samples per step, and an engine."""

    shape: Shape
    gpu: Gpu
    batch: int
    engine: Engine = Engine()

    def microbatches(self, plan):
        return self.batch / (plan.dp * plan.micro_batch)

    def tokens(self, plan):
        """Return the tokens of one micro-batch on one rank."""
        return plan.micro_batch * self.shape.context / plan.cp

    def copies(self, plan):
        """Return how many ranks have the same part of an ordinary weight."""
        return plan.dp * plan.cp

    def expert_copies(self, plan):
        """Return how many ranks have the same part of the same expert."""
        return plan.dp * plan.cp * plan.tp / (plan.ep * plan.etp)

    def is_even(self, plan):
        """Return whether all chunks of all stages have equally many layers."""
        return self.shape.layers % (plan.pp * plan.chunks) == 0

    def layers(self, plan):
        """Return the layers of the fullest stage, or of a mean one if the engine balances.

        Where stages are uneven, the two ends of the model count as a layer each.
        """
        parts = plan.pp * plan.chunks
        uneven = plan.chunks * np.ceil((self.shape.layers + 2) / parts)
        most = np.where(self.is_even(plan), self.shape.layers / plan.pp, uneven)
        return self.shape.layers / plan.pp if self.engine.is_balanced else most


# ---- FLOPs ----------------------------------------------------------------------------------


def model_flops(shape: Shape, tokens, causal=1.0):
    """Return the FLOPs that a step needs for so many tokens: 1 part forward, 2 parts backward.

    They do not depend on how the step is computed.

    causal  share of all pairs of a query and a key that count: 1/2 leaves out those that are masked
    Source  arXiv 2104.04473, section 5.1
    """
    matrices = shape.layers * shape.active_layer_parameters + shape.embedding_parameters
    scores = shape.layers * 2 * shape.query_width * shape.context * causal
    return 6 * tokens * (matrices + scores)


def hardware_flops(shape: Shape, tokens, recompute=FULL, causal=1.0):
    """Return the FLOPs that the hardware computes, where recomputation counts again."""
    needed = model_flops(shape, tokens, causal)
    scores = 6 * tokens * shape.layers * 2 * shape.query_width * shape.context * causal
    ends = 6 * tokens * shape.embedding_parameters
    again = np.select(
        [np.equal(recompute, FULL), np.equal(recompute, SELECTIVE)], [needed - ends, scores], 0
    )
    return needed + again / 3


# ---- Memory ---------------------------------------------------------------------------------


def rank_parameters(job: Job, plan: Plan):
    """Return the parameters of the rank that has most, without experts: see rank_experts.

    They are its stage's layers and one end, cut by tp; with one stage it has both ends. Norms,
    biases and the table of positions are not cut.
    """
    shape = job.shape
    ends = np.where(plan.pp == 1, 2 - shape.is_tied, 1) * shape.embedding_parameters
    cut = (job.layers(plan) * shape.sum_matrices(0) / shape.layers + ends) / plan.tp
    whole = job.layers(plan) * shape.vectors + shape.positions * shape.width + shape.end_vectors
    return cut + whole


def rank_experts(job: Job, plan: Plan):
    """Return the parameters of the experts of a rank: ep shares them out, and etp cuts each."""
    shape = job.shape
    blocks = job.layers(plan) * shape.expert_layers / shape.layers
    one = shape.expert_matrices / plan.etp + shape.expert_vectors
    return blocks * shape.experts * one / plan.ep


def parameters_under(job: Job, plan: Plan, stage):
    """Return the parameters whose gradients or states a rank keeps, if ZeRO shards from `stage` on.

    Ordinary weights and experts have different numbers of copies. With replicas, shards of each
    replica are a whole.
    """
    parts = [(rank_parameters(job, plan), job.copies(plan)),
             (rank_experts(job, plan), job.expert_copies(plan))]  # fmt: skip
    shards = (np.maximum(copies / plan.replicas, 1) for _, copies in parts)
    return sum(n / np.where(plan.zero >= stage, k, 1) for (n, _), k in zip(parts, shards))


def states(job: Job, plan: Plan) -> dict:
    """Return the bytes of parameters, gradients and optimizer states on the fullest rank."""
    each = {
        "parameters": (job.engine.parameter_bytes, 3),
        "gradients": (job.engine.gradient_bytes, 2),
        "optimizer_state": (job.engine.optimizer_bytes, 1),
    }
    return {
        kind: nbytes * parameters_under(job, plan, stage) for kind, (nbytes, stage) in each.items()
    }


def layer_activation_bytes(job: Job, plan: Plan):
    """Return the bytes that a layer keeps of one micro-batch until its backward.

    Source  arXiv 2205.05198: s b h (34 + 5 a s / h). Of the 34, 8 are attention's, 16 the MLP's,
            whose width is 4 h, and 10 are not cut by tp alone. These are a GPT's. A gated MLP keeps
            four tensors of its width in place of two, so for Llama the sum is too small, unless its
            kernels are fused
    """
    shape, engine, tokens = job.shape, job.engine, job.tokens(plan)
    whole = np.where(plan.sequence, plan.tp, 1)
    cut = engine.kept * shape.query_width + engine.kept_mlp * shape.active_mlp
    # A token's row for each of its experts, before them and after.
    rows = 2 * engine.number_bytes * shape.chosen * shape.width
    cut = cut + rows * shape.expert_layers / shape.layers
    linear = tokens * (cut / plan.tp + engine.kept_whole * shape.width / whole)
    stored = 0 if engine.is_fused else engine.scores
    scores = stored * shape.heads * tokens * shape.context / plan.tp
    inputs = engine.number_bytes * tokens * shape.width / whole
    kept = np.select(
        [np.equal(plan.recompute, FULL), np.equal(plan.recompute, SELECTIVE)],
        [inputs, linear],
        linear + scores,
    )
    return plan.recomputed * kept + (1 - plan.recomputed) * (linear + scores)


def activations(job: Job, plan: Plan):
    """Return the activation bytes on the first stage, which keeps pp micro-batches in 1F1B."""
    in_flight = np.minimum(plan.pp, job.microbatches(plan))
    more = np.where(plan.chunks > 1, 1 + (plan.pp - 1) / (plan.pp * plan.chunks), 1)
    one_layer_again = np.where(
        np.equal(plan.recompute, FULL),
        layer_activation_bytes(job, replace(plan, recompute=NONE)),
        0,
    )
    working = job.engine.working * job.tokens(plan) * job.shape.active_mlp / plan.tp
    half = job.shape.context / plan.cp / 2  # of a rank's positions, which form two runs
    scores = job.engine.block_scores * job.tokens(plan) * job.shape.heads / plan.tp * half / 2
    working = working + np.where(plan.cp > 1, scores, 0)
    kept = job.layers(plan) * layer_activation_bytes(job, plan) * in_flight * more
    return kept + one_layer_again + working


def logits(job: Job, plan: Plan):
    """Return the bytes of the logits: in bfloat16, in float32, and their gradient in float32."""
    return job.engine.logits * job.tokens(plan) * job.shape.vocabulary / plan.tp


def unit_and_message_bytes(job: Job, plan: Plan):
    """Return the bytes of the units that ZeRO 3 gathers at a time, plus a stage's messages."""
    shape = job.shape
    expert = shape.experts * shape.expert_matrices / (plan.ep * plan.etp)
    block = shape.sum_matrices(0) / shape.layers / plan.tp + np.where(shape.experts, expert, 0)
    one = np.maximum(block, shape.embedding_parameters / plan.tp)
    units = np.where(plan.zero >= 3, job.engine.units * job.engine.parameter_bytes * one, 0)
    message = job.engine.number_bytes * job.tokens(plan) * shape.width
    sent = (job.microbatches(plan) + 1) * message if job.engine.keeps_sent else 0
    return units + np.where(plan.pp > 1, sent, 0)


def gradient_buffer_bytes(job: Job, plan: Plan):
    """Return the bytes that averaging needs next to the gradients: for all, or for a ZeRO unit.

    ZeRO 2 and 3 average in the backward, while the activations of all other layers still exist.
    """
    unit = job.shape.layer_parameters / plan.tp
    of = np.where(plan.zero >= 1, unit, rank_parameters(job, plan) + rank_experts(job, plan))
    others = (job.layers(plan) - 1) * layer_activation_bytes(job, plan) + unit_and_message_bytes(
        job, plan
    )
    return np.where(plan.dp * plan.cp > 1, job.engine.averaging * of, 0) + np.where(
        (plan.zero >= 2) & (job.engine.averaging > 0), others, 0
    )


def memory(job: Job, plan: Plan) -> dict:
    """Return the bytes on the fullest rank at its peak, by kind; "total" is their sum.

    The peak is when a backward begins, or when gradients are averaged and no activations exist. The
    first stage keeps most micro-batches, the last one has the logits: the larger one counts.
    """
    of_first, of_logits = activations(job, plan), logits(job, plan)
    on_last = of_first / np.minimum(plan.pp, job.microbatches(plan)) + of_logits
    kept = np.where(plan.pp == 1, of_first + of_logits, np.maximum(of_first, on_last))
    of = states(job, plan)
    units = unit_and_message_bytes(job, plan)
    sums = gradient_buffer_bytes(job, plan)
    is_first = job.microbatches(plan) <= plan.pp  # no backward has run before the peak
    before = np.where(job.engine.sheds & is_first, 0, of["gradients"])
    is_backward = before + kept + units >= of["gradients"] + sums
    kinds = of | {
        "gradients": np.where(is_backward, before, of["gradients"]),
        "activations": np.where(is_backward, kept, 0),
        "communication": np.where(is_backward, units, sums),
        "other": job.engine.base + 0 * plan.tp,
    }
    return kinds | {"total": sum(kinds.values())}


def main():
    job = Job(model_named("llama-3-70b"), gpu_named("H100"), batch=256)
    plan = Plan(dp=4, tp=8, pp=4, zero=1)
    print(", ".join(f"{kind} {float(x) / 1e9:.2f} GB" for kind, x in memory(job, plan).items()))


if __name__ == "__main__":
    main()
