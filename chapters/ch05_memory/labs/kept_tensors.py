"""The tensors that a forward keeps for the backward, as autograd's hooks show them.

python labs/kept_tensors.py
"""

import torch
from language_model import Block, Transformer, draw_batch, mean_loss, standard_library
from llama import LlamaBlock, gated_mlp
from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks
from torch.nn.attention import sdpa_kernel


def list_saved_tensors(function, *inputs) -> list[Tensor]:
    """Return the tensors that function(*inputs) keeps for its backward, in order."""
    kept = []

    def keep(tensor):
        kept.append(tensor)
        return tensor

    with saved_tensors_hooks(keep, lambda tensor: tensor):
        function(*inputs)
    return kept


def shapes_kept_by(function, *inputs) -> str:
    """Return the shapes that function(*inputs) keeps, such as "4 × 8, 8 × 2", or "nothing"."""
    shapes = (
        " × ".join(map(str, tensor.shape)) or "a number"
        for tensor in list_saved_tensors(function, *inputs)
    )
    return ", ".join(shapes) or "nothing"


def count_saved_by_module(model, *inputs) -> dict[str, int]:
    """Return {name of a module: bytes that it keeps for its backward}.

    Tensors that a module computes outside its submodules count for the module. Memory that two
    modules share counts for the first one. Parameters do not count, because they exist anyway.
    """
    kept, running, handles = {}, [""], []
    counted = {memory_of(p) for p in model.parameters()}

    def keep(tensor):
        if memory_of(tensor) not in counted:
            counted.add(memory_of(tensor))
            kept[running[-1]] = kept.get(running[-1], 0) + tensor.untyped_storage().nbytes()
        return tensor

    def begin(name):
        return lambda module, inputs: running.append(name)

    def end(module, inputs, output):
        running.pop()

    for name, module in model.named_modules():
        handles.append(module.register_forward_pre_hook(begin(name)))
        handles.append(module.register_forward_hook(end))
    with saved_tensors_hooks(keep, lambda tensor: tensor):
        model(*inputs)  # no memory is reused until its result is freed
    for handle in handles:
        handle.remove()
    return kept


def memory_of(tensor) -> int:
    """Return the address where a tensor's memory begins, which is the same for all views of it."""
    return tensor.untyped_storage().data_ptr()


def measure_attention_backend(backend, context, width, samples=2, heads=4) -> int:
    """Return the bytes that a block keeps if attention is computed by this SDPBackend."""
    torch.manual_seed(0)
    x = torch.randn(samples, context, width, requires_grad=True)
    with sdpa_kernel(backend):
        return sum(count_saved_by_module(Block(width, heads), x).values())


# ---- Llama's block --------------------------------------------------------------------------


def compare_mlps(width, tokens=64) -> dict[str, tuple[int, float]]:
    """Return {MLP: (its parameters, bytes kept per byte of input)} for two of similar size."""
    x = torch.randn(tokens, width, requires_grad=True)
    inside = 8 * width // 3
    plain = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))
    models = {"GELU, 4 × as wide": plain, "gated, 8/3 × as wide": gated_mlp(width, inside)}
    return {
        name: (
            sum(p.numel() for p in model.parameters()),
            sum(count_saved_by_module(model, x).values()) / x.nbytes,
        )
        for name, model in models.items()
    }


def kept_by_llama_block(samples, context, width, heads, kv_heads, inside, size=4) -> int:
    """Return the bytes that a LlamaBlock keeps on a CPU, in numbers of `size` bytes.

    This is what `count_saved_by_module` counts in all of its modules.
    """
    of_head = width // heads
    per_token = 8 * width + 2 * kv_heads * of_head + 4 * inside + 2 + heads
    angles = 2 * 2 * context * of_head  # a cosine and a sine, for queries and for keys
    return (samples * context * per_token + angles) * size


def most_of_steps(samples, context, width, layers, steps=2):
    """Train on text; the last step is a measured block, "step"."""
    from pedagogy_lib import measure

    text = standard_library(50_000)
    model = Transformer(width, layers, context=context)
    optimizer = torch.optim.Adam(model.parameters())
    for step in range(steps):
        inputs, targets = draw_batch(text, samples, step, context)
        with measure("step" if step == steps - 1 else "before"):
            optimizer.zero_grad()
            mean_loss(model(inputs), targets).backward()
            optimizer.step()


def main():
    from pedagogy_lib.unwritten import misses_something

    if misses_something(__file__):
        return
    samples, context, width = 8, 64, 64
    x = torch.randn(samples, context, width, requires_grad=True)
    for make in (Block, LlamaBlock):
        print(make.__name__)
        for name, nbytes in count_saved_by_module(make(width, heads=4, kv_heads=4), x).items():
            print(f"{name:26} keeps {nbytes / x.nbytes:5.2f} times the block's input")


if __name__ == "__main__":
    main()
