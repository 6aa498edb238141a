# Built from chapters/ch10_choosing_a_strategy/labs/serving.py by `make build`.
"""The cost of answering: reading the prompt, writing token after token, and the KV cache.

python labs/serving.py
"""

from dataclasses import dataclass, replace

import numpy as np
from cost_model import Engine, Job
from cost_seconds import link
from model_shapes import Gpu, Shape, gpu_named, model_named

NUMBER = 2  # bytes of a number in bfloat16
ROOM = 0.9  # of a GPU's memory, for parameters, keys and values
TAKES = 2e-5  # assumed: seconds of a small all-reduce inside a machine, however few bytes it has


@dataclass(frozen=True)
class Server:
    """A model on `tp` GPUs of one machine, which answers `users` users at a time.

    prompt, answer  tokens of each
    """

    shape: Shape
    gpu: Gpu
    tp: int = 1
    users: int = 1
    prompt: int = 2048
    answer: int = 512


def kv_cache_bytes_per_token(shape: Shape) -> float:
    """Return the bytes of one token's keys and values, in all layers together."""
    return 2 * shape.layers * shape.kv_width * NUMBER


def parameter_bytes(shape: Shape) -> float:
    return shape.parameters * NUMBER


def most_users(memory, parameter_bytes, tp, layers, kv_heads, size, tokens) -> int:
    """Return how many users can be answered at a time, each with keys and values of its tokens.

    A head of keys is not cut: some ranks have more than others, or the same ones, if there are more
    ranks than heads of keys. The fullest rank counts.

    memory           bytes of each of tp GPUs
    parameter_bytes  of the whole model, cut into equal parts
    size             numbers of a key, and of a value, in each of kv_heads heads
    """
    each = 2 * NUMBER * layers * -(-kv_heads // tp) * size * tokens
    return max(0, int((memory - parameter_bytes / tp) // each))


def room_for(server: Server) -> int:
    """Return how many users this server can answer at a time."""
    shape, tokens = server.shape, server.prompt + server.answer
    heads = shape.kv_heads or shape.heads
    return most_users(
        ROOM * server.gpu.memory, parameter_bytes(shape), server.tp, shape.layers, heads,
        shape.kv_width / heads, tokens,
    )  # fmt: skip


def all_reduces(server: Server, tokens) -> float:
    """Return the seconds of two all-reduces per layer, of so many tokens' activations."""
    job = Job(server.shape, server.gpu, 1, Engine())
    nbytes = NUMBER * tokens * server.shape.width
    each = 2 * (server.tp - 1) / server.tp * nbytes / link(job, server.tp, 1, server.tp)
    return float(2 * server.shape.layers * np.where(server.tp > 1, each + TAKES, 0))


def prefill_seconds(server: Server) -> float:
    """Return the seconds of one prompt; its tokens go through together, so computing counts."""
    shape, gpu, tokens = server.shape, server.gpu, server.prompt
    matrices = 2 * tokens * (shape.layers * shape.active_layer_parameters)
    scores = 2 * tokens * shape.layers * tokens * shape.query_width  # causal: half of all pairs
    return (matrices + scores) / server.tp / (gpu.flops * gpu.reach) + all_reduces(server, tokens)


def decode_seconds(server: Server) -> float:
    """Return the seconds of one token for each user: the slower of reading memory and computing.

    Parameters, keys and values are read once, and of experts those that some user's token chooses.
    Keys and values are those in the middle of an answer.
    """
    shape, gpu, users = server.shape, server.gpu, server.users
    heads = shape.kv_heads or shape.heads
    kept = (
        kv_cache_bytes_per_token(shape)
        * (server.prompt + server.answer / 2)
        / min(server.tp, heads)
    )
    used = NUMBER * shape.count_parameters(np.minimum(shape.experts, users * shape.chosen))
    read = (used / server.tp + users * kept) / gpu.bandwidth
    compute = 2 * shape.active_parameters * users / server.tp / (gpu.flops * gpu.reach)
    return float(max(read, compute)) + all_reduces(server, users)


def make_server(model, gpu, tp=1, users=None, prompt=2048, answer=512) -> Server:
    """Make a server of a known model, by default with as many users as there is room for.

    Raises  ValueError, in one sentence, for unknown names, and for what does not fit
    """
    shape = model_named(model) if isinstance(model, str) else model
    kind = gpu_named(gpu) if isinstance(gpu, str) else gpu
    if tp < 1 or shape.heads % tp or tp > kind.machine:
        raise ValueError(
            f"{model} has {shape.heads} heads: tp divides them, and is at most {kind.machine}, "
            f"the GPUs of a machine; not {tp}"
        )
    if shape.attention_parameters:
        raise ValueError(
            f"{model} keeps one small vector instead of keys and values, which this model of "
            "answering does not know"
        )
    server = Server(shape, kind, tp, 1, prompt, answer)
    most = room_for(server)
    if most < 1:
        raise ValueError(
            f"{model} has {float(parameter_bytes(shape)) / 1e9:.0f} GB of parameters: with tp {tp} "
            f"they leave no room on {kind.memory / 1e9:.0f} GB for one answer. Take a larger tp"
        )
    if users is not None and not 1 <= users <= most:
        raise ValueError(f"there is room for 1 to {most} users at a time, not {users}")
    return replace(server, users=users or most)


def tokens_per_second(server: Server) -> float:
    """Return the tokens per second that all users together get.

    Their prompts are read one after another, then all answers are written together.
    """
    seconds = server.users * prefill_seconds(server) + server.answer * decode_seconds(server)
    return server.users * server.answer / seconds


HEADS = ["users", "keys, values", "one prompt", "a token", "all-reduces in it", "tokens/s",
         "$ a million"]  # fmt: skip


def row_of(server: Server) -> list[str]:
    """Return one server's figures under HEADS; dollars at the assumed price, for what it writes."""
    kept = kv_cache_bytes_per_token(server.shape) * (server.prompt + server.answer) * server.users
    dollars = server.tp * server.gpu.price / 3600 / tokens_per_second(server) * 1e6
    sums = all_reduces(server, server.users)
    return [
        str(server.users), f"{float(kept) / 1e9:.1f} GB", f"{prefill_seconds(server):.3g} s",
        f"{1e3 * decode_seconds(server):.3g} ms", f"{1e3 * sums:.3g} ms",
        f"{tokens_per_second(server):,.0f}", f"{dollars:.2f}",
    ]  # fmt: skip


def main():
    print(" | ".join(["tp", *HEADS]))
    for tp in (2, 4, 8):
        for users in (1, None):
            server = make_server("llama-3-70b", "H100", tp, users)
            print(" | ".join([str(tp), *row_of(server)]))


if __name__ == "__main__":
    main()
