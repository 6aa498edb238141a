# Built from chapters/ch01_gradient_accumulation/labs/two_houses.py by `make build`.
"""A model with three parameters, trained on two houses call by call, one by one or accumulated.

python labs/two_houses.py
"""

import torch

HOUSES = [(6.0, 2.0, 15.0), (5.0, 2.0, 12.0)]  # bedrooms, bathrooms, price
START = {"w1": 0.773, "w2": 0.321, "b": 0.067}
LEARNING_RATE = 0.001

# For each loop and snapshot: the name of a statement, and the numbers copied from the slides.
PRINTED = {
    "one by one": {
        1: ("C015", "z1 4.638 z2 0.642 y 5.347 loss 93.180"),
        2: ("C016", "w1 -115.836 w2 -38.612 b -19.306"),
        3: ("C017", "w1 0.8888 w2 0.3596 b 0.0863"),
        5: ("C018", "z1 4.444 z2 0.719 y 5.249 loss 45.5664"),
        6: ("C019", "w1 -67.5029 w2 -27.0012 b -13.5006"),
        7: ("C020", "w1 0.9563 w2 0.3866 b 0.0998"),
    },
    "accumulated": {
        3: ("C021", "z1 3.8650 z2 0.6420 y 4.5740 loss 55.1455"),
        4: ("C022", "w1 -190.096 w2 -68.3160 b -34.1580"),
        5: ("C023", "w1 0.9631 w2 0.3893 b 0.1012"),
    },
}
SLIDES = {"forward": "forward", "backward": "loss.backward", "step": "optimizer.step"}
EVERY = {"one by one": 1, "accumulated": 2}


def parameters(start=None) -> dict[str, torch.Tensor]:
    """Return w1, w2 and b in float64, at the start or at other values."""
    start = start or START
    return {
        name: torch.tensor(value, dtype=torch.float64, requires_grad=True)
        for name, value in start.items()
    }


def forward(house, w1, w2, b) -> dict[str, torch.Tensor]:
    """Compute all nodes of the computation graph: {name: value}."""
    x1, x2, price = house
    nodes = {"z1": x1 * w1, "z2": x2 * w2}
    nodes["y"] = nodes["z1"] + nodes["z2"] + b
    nodes["loss"] = (nodes["y"] - price) ** 2
    for node in nodes.values():
        node.retain_grad()  # otherwise, autograd keeps only the parameters' gradients
    return nodes


def snapshots(every, houses=HOUSES):
    """Yield a snapshot after each call of the training, which steps after every `every` houses."""
    held = parameters()
    optimizer = torch.optim.SGD(held.values(), lr=LEARNING_RATE)
    for number, house in enumerate(houses, 1):
        nodes = forward(house, **held)
        yield snapshot(number, "forward", held, house, nodes)
        nodes["loss"].backward()
        yield snapshot(number, "backward", held, house, nodes)
        if number % every == 0:
            optimizer.step()
            yield snapshot(number, "step", held)
            optimizer.zero_grad()
            yield snapshot(number, "zero_grad", held)


def snapshot(number, call, held, house=(), nodes=None) -> dict:
    """Return all values and gradients at this moment, as numbers."""
    tensors = held | (nodes or {})
    values = dict(zip(("x1", "x2", "target"), house)) | {n: t.item() for n, t in tensors.items()}
    slopes = {n: t.grad.item() if t.grad is not None else None for n, t in tensors.items()}
    return {"house": number, "call": call, "values": values, "gradients": slopes}


def select_snapshot(seen, number) -> tuple:
    """Return the arguments of draw_graph for one of the snapshots, which are numbered from 1."""
    now, before = seen[number - 1], seen[max(number - 2, 0)]
    title = f"Snapshot {number} of {len(seen)}, house {now['house']}: {now['call']}"
    return now["call"], now["values"], now["gradients"], before["gradients"], title


def path(seen) -> list[tuple[float, float]]:
    """Return the path of (w1, w2): the start, and the place after each step."""
    first, *others = seen
    moments = [first, *(s for s in others if s["call"] == "step")]
    return [(s["values"]["w1"], s["values"]["w2"]) for s in moments]


# ---- Eight invented houses, without b ---


def eight_houses() -> tuple[torch.Tensor, torch.Tensor]:
    """Return houses (8, 2) and prices (8,) that no two weights fit exactly."""
    source = torch.Generator().manual_seed(1)
    x = torch.randn(8, 2, generator=source).double() * torch.tensor([1.0, 0.6])
    return x, x.sum(1) + 0.4 * torch.randn(8, generator=source).double()


def walk(size, passes, learning_rate) -> torch.Tensor:
    """Return the start and the weights after each step, of shape (steps + 1, 2).

    A step sums the gradients of `size` houses.
    """
    x, price = eight_houses()
    places = [torch.tensor([-1.0, -1.0]).double()]
    for some, paid in [*zip(x.split(size), price.split(size))] * passes:
        places.append(places[-1] - learning_rate * 2 * some.T @ (some @ places[-1] - paid))
    return torch.stack(places)


def loss_of_eight(w1, w2):
    """Return the sum of the eight houses' losses, at any weights."""
    x, price = eight_houses()
    return sum((a * w1 + b * w2 - paid) ** 2 for (a, b), paid in zip(x.tolist(), price.tolist()))


# ---- The numbers on the slides ---


def compare_slide(loop, number) -> list[tuple]:
    """Return (name, printed text, exact value, whether they agree) for each number on a slide."""
    now = list(snapshots(EVERY[loop]))[number - 1]
    words = PRINTED[loop][number][1].split()
    exact = now["gradients" if now["call"] == "backward" else "values"]
    return [(name, slide, exact[name], f"{exact[name]:.{len(slide.split('.')[1])}f}" == slide)
            for name, slide in zip(words[::2], words[1::2])]  # fmt: skip


def entry(loop, number) -> str:
    """Return a line for put_to_the_test with a slide's numbers and the numbers found here."""
    claim, printed = PRINTED[loop][number]
    now = list(snapshots(EVERY[loop]))[number - 1]
    seen = compare_slide(loop, number)
    found = ", ".join(f"{name} {exact:.4f}" for name, _, exact, _ in seen)  # as the slider shows it
    wrong = "; ".join(
        f"{name} is {exact:.4f}, which rounds to {exact:.{len(slide.split('.')[1])}f}"
        for name, slide, exact, same in seen
        if not same
    )
    of = "without" if loop == "one by one" else "with"
    slide = f"Computational graph: step {now['house']} ({SLIDES[now['call']]})"
    place = f"section {[*PRINTED].index(loop) + 1}, slider, snapshot {number}"
    return (
        f"- [{claim}] House {now['house']}, {of} accumulation, {now['call']}: {printed} | PyTorch "
        f"slides, “{slide}”, loop {of} accumulation | {'wrong digit' if wrong else 'right'} | "
        f"{wrong or found} ({place}) | measured: "
        "nothing; a GPU adds and multiplies the same numbers, and may round the last digit\n"
    )


def main():
    for loop, every in EVERY.items():
        for now in snapshots(every):
            shown = " ".join(f"{name} {now['values'][name]:.6f}" for name in START)
            print(f"{loop}, house {now['house']}, {now['call']:9} {shown}")
    wrong = [found for loop in PRINTED for number in PRINTED[loop]
             for found in compare_slide(loop, number) if not found[-1]]  # fmt: skip
    print(*(f"the slides print {n} {slide}, exactly {exact:.5f}" for n, slide, exact, _ in wrong))


if __name__ == "__main__":
    main()
