# Built from chapters/ch01_gradient_accumulation/labs/gradient_accumulation.py by `make build`. Write your answers here.
"""Gradient accumulation: a large batch in small pieces, on one rank or on several.

python labs/gradient_accumulation.py
torchrun --nproc-per-node 4 labs/gradient_accumulation.py
"""

import os

import torch
import torch.distributed as dist

# Import this before a process group exists. If it were imported later, as by an optimizer, its
# functions would keep the group, and Gloo's threads would still run when the program ends.
import torch.distributed.nn.functional
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

BATCH = 96  # samples of one step, over all ranks
MICRO_BATCH = 8  # samples of one forward, on one rank
PADDING = -100  # a target that does not count


def accumulate(model, loss_fn, micro_batches) -> float:
    """Exercise 1.4. Put the gradient of the mean loss over all samples into `.grad`.

    The micro-batches may have different sizes; each sample counts the same. Unlike backward(),
    this function discards the previous contents of every `.grad`. It takes no optimizer step.

    loss_fn        (outputs, targets) -> the mean loss over these samples, each of which counts: a
                   tensor
    micro_batches  a list of (inputs, targets), none of them empty
    Returns        the mean loss over all samples, as a Python number
    Equals         zero_grad(), then loss_fn(model(all inputs), all targets).backward(), if samples
                   do not depend on each other, as in BatchNorm, nor on chance, as in dropout; but
                   in bfloat16, `.grad` rounds after each micro-batch
    Shapes         inputs: (samples, ...); targets: (samples, ...)
    Cost           one forward and one backward per micro-batch; the activations of one at a time
    """
    ...  # your code here


def accumulate_tokens(model, micro_batches) -> float:
    """Exercise 1.5. Put the gradient of the mean loss per token into `.grad`.

    Each token counts the same, and padding does not count. The loss is the cross-entropy. The
    previous contents of every `.grad` are discarded.

    micro_batches  a list of (tokens, targets); each is padded to its own longest sentence.
                   Targets that are PADDING do not count; a micro-batch may have no other targets
    Returns        the mean loss over all tokens that count, as a Python number
    Equals         zero_grad(), then F.cross_entropy(logits, targets, ignore_index=PADDING)
                   .backward(), with the logits (n, vocabulary) and targets (n) of all
                   micro-batches; but in bfloat16, `.grad` rounds after each micro-batch
    Shapes         tokens, targets: (sentences, length); model(tokens): (sentences, length,
                   vocabulary)
    Cost           one forward and one backward per micro-batch; the activations of one at a time
    Source         huggingface.co/blog/gradient_accumulation, on how a library got this wrong
    """
    ...  # your code here


def count_tokens(targets: Tensor) -> int:
    """Return how many targets count. `.item()` waits for a GPU, so count before you move them."""
    return (targets != PADDING).sum().item()


def average_over_ranks(model, count):
    """Average the gradients of all ranks, weighted by each rank's number of samples or tokens.

    Where a parameter has no gradient, as on a rank without samples, zeros take its place.

    Equals  the gradients of the mean over the samples or tokens of all ranks, of which there is at
            least one; a frozen parameter has none, and one that no rank has used gets zeros
    Cost    per step, one all-reduce of a number and one per parameter, for all micro-batches
    """
    if not dist.is_initialized():
        return
    device = next(model.parameters()).device  # NCCL takes nothing from the CPU
    total = torch.tensor(count, dtype=torch.float64, device=device)
    dist.all_reduce(total)
    for parameter in model.parameters():
        if parameter.requires_grad:
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
            parameter.grad *= count / total
            dist.all_reduce(parameter.grad)


def mean_over_ranks(value, count) -> float:
    """Average a number over the samples or tokens of all ranks, of which this one has `count`.

    On a rank without samples, the number may be anything, as the mean of nothing is NaN. It travels
    on the default device. With NCCL, call torch.set_default_device before.
    """
    sums = torch.tensor([value * count if count else 0, count], dtype=torch.float64)
    if dist.is_initialized():
        dist.all_reduce(sums)
    return (sums[0] / sums[1]).item()


def list_saved_by_layer(model, loss_fn, inputs, targets) -> list[tuple]:
    """List the tensors that a forward saves for its backward, without parameters.

    model    nn.Sequential
    Returns  (layer, shape, number of elements, whether another layer has saved the same tensor
             before) for each tensor
    """
    found, owners = [], dict.fromkeys(map(Tensor.data_ptr, model.parameters()), "model")

    def note(tensor):
        if owners.setdefault(tensor.data_ptr(), name) != "model":
            row = (name, list(tensor.shape), tensor.numel(), owners[tensor.data_ptr()] != name)
            found.extend([row] * (row not in found))
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        for number, layer in enumerate(model):
            name = f"{number}: {type(layer).__name__}"
            inputs = layer(inputs)
        name = loss_fn.__name__
        loss_fn(inputs, targets)
    return found


def time_parts(make_model, batch, sizes, rounds=5):
    """Measure a step over `batch` images on this rank, in parts of each size, in several rounds."""
    from pedagogy_lib import measure

    model = make_model()
    for number in range(rounds + 1):  # round 0 warms up
        for size in sizes:
            with measure(f"{size}, round {number}", memory=False, wire=False):
                for _ in range(batch // size):
                    images, labels = torch.randn(size, 64), torch.randint(10, (size,))
                    (F.cross_entropy(model(images), labels) * size / batch).backward()


def sort_times(run, sizes, rounds=5) -> dict[int, list[float]]:
    """Return the seconds of each size, fastest round first."""
    return {size: sorted(run[f"{size}, round {r}"].seconds[0] for r in range(1, rounds + 1))
            for size in sizes}  # fmt: skip


def compare_parts(run, size, other, rounds=5):
    """Compare the seconds of a step in parts of two sizes, round by round."""
    from pedagogy_lib import compare_rounds

    return compare_rounds(*([run[f"{x}, round {r}"].seconds[0] for r in range(1, rounds + 1)]
                            for x in (size, other)))  # fmt: skip


def digits() -> tuple[Tensor, ...]:
    """Load real handwritten digits of 8 x 8 pixels: training images and labels, and test ones."""
    from sklearn.datasets import load_digits

    data = load_digits()
    images, labels = torch.tensor(data.data) / 16, torch.tensor(data.target)
    test = torch.arange(len(labels)) % 5 == 0
    return images[~test], labels[~test], images[test], labels[test]


def classifier() -> nn.Module:
    """Return a classifier of digits with the same first weights in every call and on every rank."""
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10)).double()


def count_wrong(model, images, labels) -> int:
    """Return how many images the model gets wrong."""
    model.eval()  # dropout and BatchNorm behave as in inference
    with torch.no_grad():  # no tensor is saved for a backward
        wrong = (model(images).argmax(1) != labels).sum().item()
    model.train()
    return wrong


def train_digits(data, batch, micro_batch, learning_rate, passes=8):
    """Train in one process, with a step after each `batch` images, in parts of `micro_batch`.

    Returns  all weights as a flat tensor, and the number of wrong test images after each pass
    """
    images, labels, *test = data
    model, wrong = classifier(), []
    optimizer = torch.optim.SGD(model.parameters(), lr=learning_rate)
    for _ in range(passes):
        for some in torch.randperm(len(labels)).split(batch):
            parts = [(images[i], labels[i]) for i in some.split(micro_batch)]
            accumulate(model, F.cross_entropy, parts)
            optimizer.step()
        wrong.append(count_wrong(model, *test))
    return nn.utils.parameters_to_vector(model.parameters()).detach(), wrong


def sentences(images: Tensor) -> list[Tensor]:
    """Turn each image into a sentence as long as it needs: its dark pixels' numbers, in order."""
    return [image.gt(0.5).nonzero().flatten() for image in images]


def pad_sentences(some: list[Tensor]) -> tuple[Tensor, Tensor]:
    """Pad sentences to one rectangle of tokens, with the next token as the target of each."""
    tokens = pad_sequence([sentence[:-1] for sentence in some], batch_first=True)
    targets = [sentence[1:] for sentence in some]
    return tokens, pad_sequence(targets, batch_first=True, padding_value=PADDING)


def shares_of_rank(length):
    """Yield this rank's micro-batches for each step of one pass, as tensors of indices.

    A last batch may have fewer samples than there are ranks. Some ranks then have no micro-batch.
    """
    rank, world_size = (dist.get_rank(), dist.get_world_size()) if dist.is_initialized() else (0, 1)
    for batch in torch.randperm(length).split(BATCH):
        share = batch[rank::world_size]
        yield share.split(MICRO_BATCH) if len(share) else ()


def train_classifier(data, passes=10):
    """Train on images; return the model, its test accuracy, and its numbers of steps in words."""
    images, labels, *test = (tensor.to(torch.get_default_device()) for tensor in data)
    model = classifier()  # its seed also gives every rank the same order of the images
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    steps = micro_batches = 0
    for _ in range(passes):
        for share in shares_of_rank(len(labels)):
            pieces = [(images[some], labels[some]) for some in share]
            accumulate(model, F.cross_entropy, pieces)
            average_over_ranks(model, sum(map(len, share)))
            optimizer.step()
            steps, micro_batches = steps + 1, micro_batches + len(share)
    accuracy = 1 - count_wrong(model, *test) / len(test[1])
    return model, accuracy, f"{steps} steps of {micro_batches // steps} micro-batches on each rank"


def train_on_sentences(images, passes=3):
    """Train to predict the next dark pixel; return the loss per token in the first and last step.

    The loss of a step is the mean over the tokens of all ranks.
    """
    everything = sentences(images)
    torch.manual_seed(0)
    model = nn.Sequential(nn.Embedding(64, 32), nn.Linear(32, 64)).double()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.03)
    losses = []
    for _ in range(passes):
        for share in shares_of_rank(len(everything)):
            micro_batches = [pad_sentences([everything[i] for i in some]) for some in share]
            loss = accumulate_tokens(model, micro_batches)
            count = sum(count_tokens(targets) for _, targets in micro_batches)
            losses.append(mean_over_ranks(loss, count))
            average_over_ranks(model, count)
            optimizer.step()
    return losses[0], losses[-1]


def unwritten() -> list[str]:
    """Return the exercises whose functions do not return a loss yet."""
    model, pieces = nn.Linear(2, 3), [(torch.ones(1, 2), torch.tensor([1]))]
    words, sentence = nn.Embedding(3, 3), torch.tensor([[1, 2]])
    losses = {
        "exercise 1.4": accumulate(model, F.cross_entropy, pieces),
        "exercise 1.5": accumulate_tokens(words, [(sentence, sentence)]),
    }
    return [number for number, loss in losses.items() if loss is None]


def report(text):
    if os.environ.get("RANK", "0") == "0":
        print(text, flush=True)


def main():
    if missing := unwritten():  # the same on every rank, so all of them end here
        report(f"no loss comes back; still to be written in this file: {', '.join(missing)}")
        return
    if "RANK" in os.environ:
        # GPUs if there is one for each rank here; a rank that sets no device would take the first.
        if torch.cuda.device_count() >= int(os.environ["LOCAL_WORLD_SIZE"]):
            torch.set_default_device(f"cuda:{os.environ['LOCAL_RANK']}")
            torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
        dist.init_process_group()  # NCCL for tensors on GPUs, Gloo for tensors on the CPU
    data = digits()
    report(f"training on {len(data[0])} images; this takes some seconds")
    _, accuracy, work = train_classifier(data)
    report(f"classifier: {work}; {accuracy:.1%} of the test images right")
    first, last = train_on_sentences(data[0])
    report(f"sentences: loss for each token {first:.2f} in the first step, {last:.2f} in the last")
    if dist.is_initialized():
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
