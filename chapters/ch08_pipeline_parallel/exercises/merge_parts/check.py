"""The parts of an output layer, computed on several stages and merged on the last one."""

import torch

from coursekit.answers.remote_answer import call_next_to_answer
from coursekit.kit import Formula, Wrong
from coursekit.kit.results import CallFailure, plain, text_of

from .cases import dtypes_of
from .truth import MISTAKES, truth

CLOSE = {"rtol": 1e-10, "atol": 1e-10, "equal_nan": True}  # of numbers in float64
NAMES = ("the losses", "the logarithms of the sums", "the mean rows")


def draw_parts(stages, targets, width, times=1.0, seed=0, add=0.0, of_stages=(), most=3):
    """Return (statistics, vectors) of stages that have `most`, and one more each, of tokens.

    add        to all logits, or a column with a number for each target
    of_stages  what is added to the logits of each stage
    """
    chance = torch.Generator().manual_seed(seed)
    sizes = [most + stage for stage in range(stages)]
    kind = {"generator": chance, "dtype": torch.float64}
    logits = times * torch.randn(targets, sum(sizes), **kind) + add
    if of_stages:
        logits += torch.tensor(of_stages).repeat_interleave(torch.tensor(sizes))
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


def same(got, wanted) -> bool:
    """Return whether three results agree up to rounding in float64."""
    if isinstance(got, CallFailure) or not isinstance(got, list) or len(got) != len(wanted):
        return False
    pairs = [[torch.tensor(x, dtype=torch.float64) for x in pair] for pair in zip(got, wanted)]
    return all(a.shape == b.shape and torch.allclose(a, b, **CLOSE) for a, b in pairs)


def differs(call, wanted, got) -> str:
    if len(got) != 3:
        return f"expected three tensors, got {text_of(got)}"
    for name, w, g in zip(NAMES, wanted, got):
        of_truth, of_answer = (torch.tensor(x, dtype=torch.float64) for x in (w, g))
        if of_truth.shape != of_answer.shape:
            return f"{name} have the shape {list(of_answer.shape)}, expected {list(of_truth.shape)}"
        off = (~torch.isclose(of_truth, of_answer, **CLOSE)).nonzero()
        if len(off):
            at = tuple(off[0].tolist())
            return (
                f"{name}, number {list(at)}: expected {of_truth[at].item():.12g}, got "
                f"{of_answer[at].item():.12g}"
            )
    return ""


def explain(found, case) -> str:
    flat = [number for value in found[case] for number in flatten(value)]
    if any(number != number or abs(number) == float("inf") for number in flat):
        return (
            "exp of a large number is inf, and the logarithm of an exp that is rounded to 0 is "
            "-inf: take the exp of differences to the target's highest logit of all stages alone"
        )
    vectors = EXERCISE.cases[case][0][1]
    rows = found[case][0][2] if len(found[case][0]) == 3 else []
    if isinstance(rows, list) and torch.tensor(rows).shape != vectors.shape[1:]:
        return NO_DIM
    wanted = flatten(plain(truth(*EXERCISE.cases[case][0])))
    if len(flat) == len(wanted) and torch.allclose(
        torch.tensor(flat), torch.tensor(wanted), rtol=1e-5, atol=1e-5
    ):
        return (
            "right to a few digits: float32 has seven of them, and a number such as 1e-6 added to "
            "a sum changes it. Keep the dtype, and add nothing: a sum of exp is 1 or more"
        )
    return ""


def keeps_dtype(answer):
    """Raise `Wrong` unless parts in float32 give results in float32."""
    parts = tuple(part.float() for part in EXAMPLE)
    found = call_next_to_answer(dtypes_of, answer, parts)
    if found != ["torch.float32"] * 3:
        raise Wrong(
            "parts in float32", f"expected tensors of torch.float32, got {', '.join(found)}",
            "the results have the dtype of the parts, because they are messages, too",
        )  # fmt: skip
    yield "parts in float32 give results in float32"


def flatten(value):
    if isinstance(value, (list, tuple)):
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
        "stage 0 is 2,000 above stage 1": [draw_parts(2, 4, 2, seed=4, of_stages=(2000.0, 0.0))],
        "stage 1 is 2,000 above stage 0": [draw_parts(2, 4, 2, seed=5, of_stages=(0.0, 2000.0))],
        "one target is 2,000 above the others": [
            draw_parts(3, 3, 2, seed=6, add=torch.tensor([[0.0], [2000.0], [0.0]]))
        ],
        "2,000 tokens on a stage, logits near 0": [draw_parts(2, 3, 2, 0.1, seed=7, most=2000)],
    },
    truth=truth,
    right=lambda calls, values: f"the mean loss is {sum(values[0][0]) / len(values[0][0]):.4f}",
    same=same,
    also=keeps_dtype,
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
