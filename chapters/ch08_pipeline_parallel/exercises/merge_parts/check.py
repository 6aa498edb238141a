"""The parts of an output layer, computed on several stages and merged on the last one."""

import torch

from coursekit.kit import Formula
from coursekit.kit.results import text_of

from .truth import MISTAKES, truth

NAMES = ("the losses", "the logarithms of the sums", "the mean rows")


def draw_parts(stages, targets, width, times=1.0, add=0.0, seed=0):
    """Return (statistics, vectors) of stages that have 3, 4, 5, … tokens each."""
    chance = torch.Generator().manual_seed(seed)
    sizes = [3 + stage for stage in range(stages)]
    kind = {"generator": chance, "dtype": torch.float64}
    logits = times * torch.randn(targets, sum(sizes), **kind) + add
    rows = torch.randn(sum(sizes), width, **kind)
    wanted = torch.randint(sum(sizes), (targets,), generator=chance)
    statistics, vectors, first = [], [], 0
    for size, part in zip(sizes, logits.split(sizes, dim=1)):
        highest = part.amax(1)
        exp = (part - highest[:, None]).exp()
        place = wanted - first
        mine = (place >= 0) & (place < size)
        picked = part.gather(1, place.where(mine, 0)[:, None])[:, 0].where(mine, 0)
        statistics.append(torch.stack([highest, exp.sum(1), picked]))
        vectors.append(exp @ rows[first : first + size])
        first += size
    return torch.stack(statistics), torch.stack(vectors)


NO_DIM = (
    "each stage has one number for every target, and a vector of `width` numbers: give the numbers "
    "a last dimension with unsqueeze(-1), and add up over the stages"
)

LOG_2 = 0.6931471805599453
EXAMPLE = (
    torch.tensor([[[0.0], [2.0], [0.0]], [[LOG_2], [1.0], [0.0]]], dtype=torch.float64),
    torch.tensor([[[4.0]], [[5.0]]], dtype=torch.float64),
)


def differs(call, wanted, got) -> str:
    if len(got) != 3:
        return f"expected three tensors, got {text_of(got)}"
    for name, w, g in zip(NAMES, wanted, got):
        of_truth, of_answer = (torch.tensor(x, dtype=torch.float64) for x in (w, g))
        if of_truth.shape != of_answer.shape:
            return f"{name} have the shape {list(of_answer.shape)}, expected {list(of_truth.shape)}"
        off = (~torch.isclose(of_truth, of_answer, rtol=1e-6)).nonzero()
        if len(off):
            at = tuple(off[0].tolist())
            return (
                f"{name}, number {list(at)}: expected {of_truth[at].item():.6g}, got "
                f"{of_answer[at].item():.6g}"
            )
    return ""


def explain(found, case) -> str:
    flat = [number for value in found[case] for number in flatten(value)]
    if any(number != number or abs(number) == float("inf") for number in flat):
        return (
            "exp of a large number is inf, and inf / inf is no number: take the exp of differences "
            "to the highest logit of all stages alone"
        )
    vectors = EXERCISE.cases[case][0][1]
    rows = found[case][0][2] if len(found[case][0]) == 3 else []
    if isinstance(rows, list) and torch.tensor(rows).shape != vectors.shape[1:]:
        return NO_DIM
    return ""


def flatten(value):
    if isinstance(value, list):
        return [number for one in value for number in flatten(one)]
    return [value] if isinstance(value, float) else []


EXERCISE = Formula(
    "merge_parts",
    lab="vocabulary_pipeline",
    cases={
        "the example": [EXAMPLE],
        "3 stages, 4 targets": [draw_parts(3, 4, 2)],
        "2 stages, 3 targets, negative logits": [draw_parts(2, 3, 2, add=-20.0, seed=1)],
        "4 stages, 2 targets, large logits": [draw_parts(4, 2, 3, times=400.0, add=1500.0, seed=2)],
        "1 stage, 5 targets": [draw_parts(1, 5, 2, seed=3)],
    },
    truth=truth,
    right=lambda calls, values: f"the mean loss is {sum(values[0][0]) / len(values[0][0]):.4f}",
    differs=differs,
    explain=explain,
    asked="three tensors",
    shape="return three tensors: the losses, the logarithms of the sums, and the mean rows",
    errors={
        "must match the size of tensor": NO_DIM,
        "modified by an inplace": "statistics and vectors are what has arrived: make new tensors",
    },
    mistakes=MISTAKES,
    hints=(
        "For one target, write down the sum of exp(logit) over the tokens of one stage, from its "
        "highest logit and its sum.",
        "It is sum * exp(highest). Its logarithm is highest + log(sum), and "
        "torch.logsumexp adds up what such logarithms are of, without overflow.",
        "The loss is that logarithm less the target's logit, which is the sum of the third "
        "statistic over the stages.",
        "A stage's vectors are relative to its own highest logit: times exp(highest - log_sums), "
        "they are sums of probability times row. Add them up over the stages.",
    ),
)
