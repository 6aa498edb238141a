"""Chapter 07, pieces of the context, overlap, decoding: right answers pass, wrong ones are told."""

import pytest
from helpers import ROOT, put_lab

from pedagogy_lib import check
from pedagogy_lib.course import checking
from pedagogy_lib.course.build import with_holes
from pedagogy_lib.exercises import likeliest, overlapped_product, partial_gradients, pieces

MODULES = pieces, partial_gradients, overlapped_product, likeliest
EXERCISES = {e.number: e for module in MODULES for e in module.EXERCISES}
PARTS = {  # the labs, up to what only their programs need: every rank of every check reads them
    "sequence_parallel": "# ---- The program",
    "decoding": "# ---- The program",
    "collectives": "# ---- For comparison",
}
SOLVED = {
    name: (ROOT / "solutions" / "labs" / f"{name}.py").read_text().partition(end)[0]
    for name, end in PARTS.items()
} | {
    "language_model": "CONTEXT = Transformer = mean_loss = standard_library = None",
    "simple_ddp": "now = None",
    "tensor_parallel": "from torch.nn import Linear as ColumnLinear\n"
    "parallelize = split_cross_entropy = train = part_sizes = None",
}


@pytest.fixture(autouse=True)
def only_these(monkeypatch):
    monkeypatch.setattr(checking, "exercises_of", lambda chapter: EXERCISES)


@pytest.fixture
def check_lab(tmp_path, monkeypatch):
    """Check one exercise with another definition of its function in the learner's files."""
    for name, text in SOLVED.items():
        put_lab(tmp_path, monkeypatch, name, text, text)

    def check_one(number, source="", lab="", change=lambda text: text):
        lab = lab or EXERCISES[number].lab
        learners = f"{change(SOLVED[lab])}\n\n{source}"
        put_lab(tmp_path, monkeypatch, lab, learners, SOLVED[lab])
        return check(number)

    return check_one


def answers(text) -> dict[str, str]:
    """{phrase of the diagnosis: source} from parts that begin with `### phrase`."""
    parts = [part.partition("\n") for part in text.split("### ")[1:]]
    return {phrase.strip(): source for phrase, _, source in parts}


RIGHT = {
    "7.15": """### PyTorch's collectives
class AllGather(torch.autograd.Function):
    @staticmethod
    def forward(ctx, piece, group=None):
        ctx.group = group
        pieces = [torch.empty_like(piece) for _ in range(dist.get_world_size(group))]
        dist.all_gather(pieces, piece.contiguous(), group=group)
        return torch.cat(pieces, 1)

    @staticmethod
    def backward(ctx, gradient):
        n = dist.get_world_size(ctx.group)
        pieces = [piece.contiguous() for piece in gradient.tensor_split(n, 1)]
        mine = torch.empty_like(pieces[0])
        dist.reduce_scatter(mine, pieces, group=ctx.group)
        return mine, None
### with setup_context
class AllGather(torch.autograd.Function):
    @staticmethod
    def forward(piece, group=None):
        return joined(piece, group)

    @staticmethod
    def setup_context(ctx, inputs, output):
        _, ctx.group = inputs

    @staticmethod
    def backward(ctx, gradient):
        return summed_piece(gradient, ctx.group), None
""",
    "7.16": """### everybody sends each its piece
class ReduceScatter(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, group=None):
        ctx.group = group
        outgoing = [p.contiguous() for p in x.chunk(dist.get_world_size(group), dim=1)]
        incoming = [torch.empty_like(p) for p in outgoing]
        dist.all_to_all(incoming, outgoing, group=group)
        return sum(incoming)

    @staticmethod
    def backward(ctx, gradient):
        return joined(gradient, ctx.group), None
### with dims exchanged
class ReduceScatter(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, group=None):
        ctx.group, ctx.n = group, dist.get_world_size(group)
        first = x.transpose(0, 1).contiguous()
        mine = first.new_empty(len(first) // ctx.n, *first.shape[1:])
        dist.reduce_scatter_tensor(mine, first, group=group)
        return mine.transpose(0, 1)

    @staticmethod
    def backward(ctx, gradient):
        first = gradient.transpose(0, 1).contiguous()
        every = first.new_empty(ctx.n * len(first), *first.shape[1:])
        dist.all_gather_into_tensor(every, first, group=ctx.group)
        return every.transpose(0, 1), None
""",
    "7.17": """### in one
def sum_partial_gradients(model, group=None):
    grads = [p.grad for p in model.parameters()
             if p.grad is not None and not hasattr(p, "cut_dim")]
    flat = torch.cat([g.flatten() for g in grads])
    dist.all_reduce(flat, group=group)
    for g, total in zip(grads, flat.split([g.numel() for g in grads])):
        g.copy_(total.view_as(g))
### all at once, also of what has none
def sum_partial_gradients(model, group=None):
    requests = []
    for p in model.parameters():
        if not p.requires_grad or getattr(p, "cut_dim", None) is not None:
            continue
        p.grad = torch.zeros_like(p) if p.grad is None else p.grad.clone()
        requests.append(dist.all_reduce(p.grad, group=group, async_op=True))
    for request in requests:
        request.wait()
""",
    "7.18": """### einsum, and only what is needed
class OverlappedProduct(OverlappedProduct):
    @staticmethod
    def backward(ctx, gradient):
        x, weight = ctx.saved_tensors
        of_x = of_weight = of_bias = wait = None
        if ctx.needs_input_grad[0]:
            of_x = torch.einsum("...o,oi->...i", gradient, weight)
            wait = ctx.begin(of_x, group=ctx.group)
        if ctx.needs_input_grad[2]:
            of_bias = gradient.reshape(-1, gradient.shape[-1]).sum(0)
        if ctx.needs_input_grad[1]:
            of_weight = torch.einsum("...o,...i->oi", gradient, x)
        if wait is not None:
            wait()
        return of_x, of_weight, of_bias, None, None
### a sum of products
class OverlappedProduct(OverlappedProduct):
    @staticmethod
    def backward(ctx, gradient):
        x, weight = ctx.saved_tensors
        of_x = (gradient.unsqueeze(-1) * weight).sum(-2)
        finish = ctx.begin(of_x, ctx.group)
        dims = list(range(x.dim() - 1))
        of_weight = (gradient.unsqueeze(-1) * x.unsqueeze(-2)).sum(dims)
        finish()
        return of_x, of_weight, gradient.sum(dims) if ctx.has_bias else None, None, None
### a product for each sample, which autograd adds up
class OverlappedProduct(OverlappedProduct):
    @staticmethod
    def backward(ctx, gradient):
        x, weight = ctx.saved_tensors
        of_x = gradient @ weight
        wait = ctx.begin(of_x, ctx.group)
        of_weight = gradient.mT @ x
        wait()
        return of_x, of_weight, gradient.sum(0) if ctx.has_bias else None, None, None
""",
    "7.19": """### the highest score, then the first letter that has it
def likeliest(scores, first, group=None):
    score, place = scores.double().max(-1)
    highest = score.clone()
    dist.all_reduce(highest, dist.ReduceOp.MAX, group)
    letter = torch.where(score == highest, first + place, 2**62)
    dist.all_reduce(letter, dist.ReduceOp.MIN, group)
    return letter
### scores and letters by themselves
def likeliest(scores, first, group=None):
    n = dist.get_world_size(group)
    best, place = scores.max(dim=-1)
    every, letters = best.new_empty(n, len(best)), place.new_empty(n, len(best))
    dist.all_gather(list(every), best, group=group)
    dist.all_gather(list(letters), place + first, group=group)
    return letters[every.argmax(0), torch.arange(len(best))]
""",
}

WRONG = {
    "7.15": """### this is a piece of the rank's own gradient
class AllGather(AllGather):
    @staticmethod
    def backward(ctx, gradient):
        n, rank = dist.get_world_size(ctx.group), dist.get_rank(ctx.group)
        return gradient.chunk(n, dim=1)[rank], None
### an all-reduce sends twice what is needed
class AllGather(AllGather):
    @staticmethod
    def backward(ctx, gradient):
        n, rank = dist.get_world_size(ctx.group), dist.get_rank(ctx.group)
        total = gradient.clone()
        dist.all_reduce(total, group=ctx.group)
        return total.chunk(n, dim=1)[rank], None
### nothing is to be divided by n
class AllGather(AllGather):
    @staticmethod
    def backward(ctx, gradient):
        return summed_piece(gradient, ctx.group) / dist.get_world_size(ctx.group), None
### joined along dim 0, the samples
class AllGather(AllGather):
    @staticmethod
    def forward(ctx, piece, group=None):
        ctx.group = group
        pieces = [torch.empty_like(piece) for _ in range(dist.get_world_size(group))]
        dist.all_gather(pieces, piece, group=group)
        return torch.cat(pieces)
### AllGather joins pieces in its forward
AllGather = type("AllGather", (ReduceScatter,), {})
class AllGather(AllGather):
    pass
### None for group
class AllGather(AllGather):
    @staticmethod
    def backward(ctx, gradient):
        return summed_piece(gradient, ctx.group)
### What else it needs forward has to keep
class AllGather(AllGather):
    @staticmethod
    def forward(ctx, piece, group=None):
        return joined(piece, group)
### hand `group` to every call
class AllGather(AllGather):
    @staticmethod
    def forward(ctx, piece, group=None):
        ctx.group = group
        return joined(piece)
""",
    "7.16": """### zeros where the others' pieces belong
class ReduceScatter(ReduceScatter):
    @staticmethod
    def backward(ctx, gradient):
        n, rank = dist.get_world_size(ctx.group), dist.get_rank(ctx.group)
        pieces = [torch.zeros_like(gradient) for _ in range(n)]
        pieces[rank] = gradient
        return torch.cat(pieces, dim=1), None
### nothing is added up
class ReduceScatter(ReduceScatter):
    @staticmethod
    def forward(ctx, x, group=None):
        ctx.group = group
        return x.chunk(dist.get_world_size(group), dim=1)[dist.get_rank(group)].clone()
### it is a reduce-scatter and an all-gather
class ReduceScatter(ReduceScatter):
    @staticmethod
    def backward(ctx, gradient):
        n, rank = dist.get_world_size(ctx.group), dist.get_rank(ctx.group)
        whole = torch.cat([gradient * (k == rank) for k in range(n)], dim=1)
        dist.all_reduce(whole, group=ctx.group)
        return whole, None
### this is the mean
class ReduceScatter(ReduceScatter):
    @staticmethod
    def forward(ctx, x, group=None):
        ctx.group = group
        return summed_piece(x, group) / dist.get_world_size(group)
### each rank keeps its piece of the sum
class ReduceScatter(ReduceScatter):
    @staticmethod
    def forward(ctx, x, group=None):
        ctx.group = group
        return joined(x, group)

    @staticmethod
    def backward(ctx, gradient):
        return summed_piece(gradient, ctx.group), None
### cut are the samples, dim 0
class ReduceScatter(ReduceScatter):
    @staticmethod
    def forward(ctx, x, group=None):
        total = x.clone()
        dist.all_reduce(total, group=group)
        return total.chunk(dist.get_world_size(group))[dist.get_rank(group)]
### 3 times too much
class ReduceScatter(ReduceScatter):
    @staticmethod
    def backward(ctx, gradient):
        whole = joined(gradient, ctx.group)
        dist.all_reduce(whole, group=ctx.group)
        return whole, None
### somebody else may still need what was handed in
class ReduceScatter(ReduceScatter):
    @staticmethod
    def forward(ctx, x, group=None):
        ctx.group = group
        dist.all_reduce(x, group=group)
        return x.chunk(dist.get_world_size(group), dim=1)[dist.get_rank(group)].clone()
""",
    "7.17": """### a mean is not what is missing
def sum_partial_gradients(model, group=None):
    for p in model.parameters():
        if p.grad is not None and not hasattr(p, "cut_dim"):
            dist.all_reduce(p.grad, group=group)
            p.grad /= dist.get_world_size(group)
### the gradient of it is complete
def sum_partial_gradients(model, group=None):
    for p in model.parameters():
        if p.grad is not None:
            dist.all_reduce(p.grad, group=group)
### 0 counts as False
def sum_partial_gradients(model, group=None):
    for p in model.parameters():
        if p.grad is not None and not getattr(p, "cut_dim", None):
            dist.all_reduce(p.grad, group=group)
### pass over them
def sum_partial_gradients(model, group=None):
    for p in model.parameters():
        if not hasattr(p, "cut_dim"):
            dist.all_reduce(p.grad, group=group)
### not added up are places.weight, second.bias
def sum_partial_gradients(model, group=None):
    for name, p in model.named_parameters():
        if "norm" in name or name == "scale":
            dist.all_reduce(p.grad, group=group)
### adds up in place; a function that returns the sum
def sum_partial_gradients(model, group=None):
    for p in model.parameters():
        if p.grad is not None and not hasattr(p, "cut_dim"):
            total = p.grad.clone()
            dist.all_reduce(total, group=group)
### hand `group` to every call
def sum_partial_gradients(model, group=None):
    for p in model.parameters():
        if p.grad is not None and not hasattr(p, "cut_dim"):
            dist.all_reduce(p.grad)
### two modules have it
def sum_partial_gradients(model, group=None):
    for _, p in model.named_parameters(remove_duplicate=False):
        if p.grad is not None and not hasattr(p, "cut_dim"):
            dist.all_reduce(p.grad, group=group)
""",
    "7.18": """### Until that has been called
class OverlappedProduct(OverlappedProduct):
    @staticmethod
    def backward(ctx, gradient):
        x, weight = ctx.saved_tensors
        of_x = gradient @ weight
        ctx.begin(of_x, ctx.group)
        return of_x, *gradients_of_layer(gradient, x, ctx.has_bias), None, None
### is waited for at once
class OverlappedProduct(OverlappedProduct):
    @staticmethod
    def backward(ctx, gradient):
        x, weight = ctx.saved_tensors
        of_x = gradient @ weight
        ctx.begin(of_x, ctx.group)()
        return of_x, *gradients_of_layer(gradient, x, ctx.has_bias), None, None
### can begin as soon as the gradient of x is there
class OverlappedProduct(OverlappedProduct):
    @staticmethod
    def backward(ctx, gradient):
        x, weight = ctx.saved_tensors
        of_weight, of_bias = gradients_of_layer(gradient, x, ctx.has_bias)
        of_x = gradient @ weight
        wait = ctx.begin(of_x, ctx.group)
        wait()
        return of_x, of_weight, of_bias, None, None
### but not by ctx.begin
class OverlappedProduct(OverlappedProduct):
    @staticmethod
    def backward(ctx, gradient):
        x, weight = ctx.saved_tensors
        of_x = gradient @ weight
        wait = begin_sum(of_x, ctx.group)
        of_weight, of_bias = gradients_of_layer(gradient, x, ctx.has_bias)
        wait()
        return of_x, of_weight, of_bias, None, None
### and it is summed once
class OverlappedProduct(OverlappedProduct):
    @staticmethod
    def backward(ctx, gradient):
        x, weight = ctx.saved_tensors
        of_x = gradient @ weight
        of_weight, of_bias = gradients_of_layer(gradient, x, ctx.has_bias)
        waits = [ctx.begin(g, ctx.group) for g in (of_x, of_weight)]
        for wait in waits:
            wait()
        return of_x, of_weight, of_bias, None, None
### gradient of the output, times A
class OverlappedProduct(OverlappedProduct):
    @staticmethod
    def backward(ctx, gradient):
        x, weight = ctx.saved_tensors
        wait = ctx.begin(gradient, ctx.group)
        of_weight, of_bias = gradients_of_layer(gradient, x, ctx.has_bias)
        wait()
        return gradient @ weight, of_weight, of_bias, None, None
### all of them are rows
class OverlappedProduct(OverlappedProduct):
    @staticmethod
    def backward(ctx, gradient):
        x, weight = ctx.saved_tensors
        of_x = gradient @ weight
        wait = ctx.begin(of_x, ctx.group)
        of_weight, of_bias = gradient.T @ x, gradient.sum(0) if ctx.has_bias else None
        wait()
        return of_x, of_weight, of_bias, None, None
### return the tensor that it got, not another one
class OverlappedProduct(OverlappedProduct):
    @staticmethod
    def backward(ctx, gradient):
        x, weight = ctx.saved_tensors
        of_x = gradient @ weight
        wait = ctx.begin(of_x.clone(), ctx.group)
        of_weight, of_bias = gradients_of_layer(gradient, x, ctx.has_bias)
        wait()
        return of_x, of_weight, of_bias, None, None
""",
    "7.19": """### Its first letter is `first`: add it
def likeliest(scores, first, group=None):
    mine = torch.stack([x.double() for x in scores.max(-1)])
    found = [torch.empty_like(mine) for _ in range(dist.get_world_size(group))]
    dist.all_gather(found, mine, group=group)
    scores, places = torch.stack(found, dim=1)
    return places.gather(0, scores.argmax(0, keepdim=True))[0].long()
### each rank has chosen among its own letters alone: the others
def likeliest(scores, first, group=None):
    return first + scores.argmax(-1)
### these are numbers of ranks
def likeliest(scores, first, group=None):
    best = scores.amax(-1)
    found = [torch.empty_like(best) for _ in range(dist.get_world_size(group))]
    dist.all_gather(found, best, group=group)
    return torch.stack(found).argmax(0)
### the largest letter has won
def likeliest(scores, first, group=None):
    letter = first + scores.argmax(-1)
    dist.all_reduce(letter, dist.ReduceOp.MAX, group)
    return letter
### of equal scores on several ranks, the last rank's
def likeliest(scores, first, group=None):
    score, place = scores.double().max(-1)
    highest = score.clone()
    dist.all_reduce(highest, dist.ReduceOp.MAX, group)
    letter = torch.where(score == highest, first + place, 0)
    dist.all_reduce(letter, dist.ReduceOp.MAX, group)
    return letter
### the letter has been rounded
def likeliest(scores, first, group=None):
    score, place = scores.max(-1)
    mine = torch.stack([score, (first + place).to(score.dtype)])
    found = [torch.empty_like(mine) for _ in range(dist.get_world_size(group))]
    dist.all_gather(found, mine, group=group)
    scores, letters = torch.stack(found, dim=1)
    return letters.gather(0, scores.argmax(0, keepdim=True))[0].long()
### all have to learn which letter it belongs to
def likeliest(scores, first, group=None):
    highest = scores.amax(-1)
    dist.all_reduce(highest, dist.ReduceOp.MAX, group)
    return first + (scores == highest.unsqueeze(-1)).int().argmax(-1)
### but all scores travel
def likeliest(scores, first, group=None):
    n, samples = dist.get_world_size(group), len(scores)
    lengths = [torch.tensor(0) for _ in range(n)]
    dist.all_gather(lengths, torch.tensor(scores.shape[-1]), group=group)
    most = max(lengths).item()
    padded = F.pad(scores, (0, most - scores.shape[-1]), value=-torch.inf)
    every = [torch.empty_like(padded) for _ in range(n)]
    dist.all_gather(every, padded, group=group)
    return torch.cat([x[:, :k] for x, k in zip(every, lengths)], dim=-1).argmax(-1)
### hand `group` to every call
def likeliest(scores, first, group=None):
    score, place = scores.max(-1)
    mine = torch.stack([score.double(), first + place.double()])
    found = [torch.empty_like(mine) for _ in range(dist.get_world_size())]
    dist.all_gather(found, mine)
    scores, letters = torch.stack(found, dim=1)
    return letters.gather(0, scores.argmax(0, keepdim=True))[0].long()
### one rank has been chosen for all samples
def likeliest(scores, first, group=None):
    score, place = scores.max(-1)
    mine = torch.stack([score.double(), first + place.double()])
    found = [torch.empty_like(mine) for _ in range(dist.get_world_size(group))]
    dist.all_gather(found, mine, group=group)
    scores, letters = torch.stack(found, dim=1)
    return letters[scores.argmax() // scores.shape[1]].long()
### what travels has to be as long on all of them
def likeliest(scores, first, group=None):
    found = [torch.empty_like(scores) for _ in range(dist.get_world_size(group))]
    dist.all_gather(found, scores, group=group)
    return torch.cat(found, dim=-1).argmax(-1)
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
def test_wrong_answers_are_told_what_is_wrong(number, phrase, source, check_lab, capsys):
    verdict = check_lab(number, source)
    assert verdict.passed is False, verdict
    assert phrase in verdict.wrong.why, verdict
    printed = capsys.readouterr().out  # by the ranks; libraries are not to drown the diagnosis
    assert not any(words in printed for words in ("terminate called", "Warning")), printed


@pytest.mark.parametrize("number", EXERCISES)
def test_there_are_enough_of_both(number):
    assert 6 <= len(answers(WRONG[number])) <= 11
    assert len(answers(RIGHT[number])) >= 2  # and the solution
    assert 2 <= len(EXERCISES[number].hints) <= 4


@pytest.mark.parametrize("number", EXERCISES)
def test_a_hole_is_refused_politely(number, check_lab):
    verdict = check_lab(number, change=with_holes)
    assert verdict.passed is None
    name, lab = EXERCISES[number].name, EXERCISES[number].lab
    assert f"not attempted yet; write {name} in labs/{lab}.py" in str(verdict)


def test_half_of_a_class_is_told_what_is_left(check_lab):
    hole = "        ...  # your code here\n"
    begun = lambda text: with_holes(text).replace(hole, "        ctx.group = group\n", 1)  # noqa: E731
    verdict = check_lab("7.15", change=begun)
    assert verdict.passed is None
    assert "partly written; still to write: backward" in str(verdict)


def test_a_fault_of_an_earlier_exercise_is_sent_there(check_lab):
    ring = "def reduce_scatter_ring(chunks, group=None):\n    pass"
    verdict = check_lab("7.16", ring, "collectives")
    assert verdict.passed is False
    assert verdict.wrong.why == 'first: check("2.6")', verdict


def test_what_python_prints_to_stderr_is_still_shown(check_lab, capsys):
    verdict = check_lab("7.19", "def likeliest(*args):\n    __import__('warnings').warn('mine')")
    assert verdict.passed is False
    assert "UserWarning: mine" in capsys.readouterr().out


def test_a_function_is_no_autograd_function(check_lab):
    verdict = check_lab(
        "7.15", "def AllGather(piece, group=None):\n    return joined(piece, group)"
    )
    assert "it is to remain a class AllGather" in verdict.wrong.why, verdict
