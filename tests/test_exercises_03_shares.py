"""3.3, 3.6 and 3.7: right answers pass, and each wrong one is told what is wrong with it."""

import shutil
import textwrap
import time
from fractions import Fraction

import pytest
import torch
from helpers import ROOT, put_lab

from pedagogy_lib import check
from pedagogy_lib.course.build import with_holes

SOLVED = ROOT / "solutions" / "labs"
LABS = {"3.6": "simple_ddp", "3.7": "data_parallel"}


@pytest.fixture
def check_lab(tmp_path, monkeypatch):
    """Check one exercise with another definition of its function in the learner's file."""
    for folder in (tmp_path / "labs", tmp_path / "solutions" / "labs"):
        shutil.copytree(SOLVED, folder)

    def check_one(number, source="", make=str):
        solved = (SOLVED / f"{LABS[number]}.py").read_text()
        put_lab(tmp_path, monkeypatch, LABS[number], f"{make(solved)}\n\n{source}", solved)
        return check(number)

    return check_one


def rejected(verdict, phrase):
    """A wrong answer's diagnosis, which has the phrase in it."""
    assert verdict.passed is False, verdict
    assert phrase in verdict.wrong.why, verdict
    return verdict.wrong.why


@pytest.mark.parametrize("number", LABS)
def test_the_hole_is_not_attempted(check_lab, number):
    assert check_lab(number, make=with_holes).passed is None


# ---- 3.3 -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "answer",
    [
        lambda samples, all_samples, n: n * samples / all_samples,
        lambda samples, all_samples, n: samples / (all_samples / n),
        lambda samples, all_samples, n: Fraction(samples * n, all_samples),
        lambda samples, all_samples, n: torch.tensor(samples) * n / all_samples,
    ],
)
def test_loss_factor(answer):
    verdict = check("3.3", answer)
    assert verdict.passed, verdict
    assert len(verdict.lines) == 5


WRONG_FACTORS = {
    "without `return`": lambda s, t, n: None,
    "each rank counts the same here": lambda s, t, n: 1,
    "4 times too small: DDP": lambda s, t, n: s / t,
    "upside down: more samples": lambda s, t, n: t / s,
    "than the mean has to count": lambda s, t, n: t / n / s,
    "n is on the wrong side": lambda s, t, n: n * t / s,
    "the wrong way": lambda s, t, n: 1 / s,
    "divided by n: divide by how many": lambda s, t, n: s,
    "not the mean": lambda s, t, n: n * s,
    "n undoes the division by n": lambda s, t, n: n,
    "this is the same on every rank: a": lambda s, t, n: n / t,
    "this is the same on every rank, and": lambda s, t, n: 1 / t,
    "DDP divides by n already; and": lambda s, t, n: 1 / n,
    "do not do it twice": lambda s, t, n: s / t / n,
    "compare with the number of ranks": lambda s, t, n: s / n,
    "// cuts the fraction off; /": lambda s, t, n: n * s // t,
    "// cuts the fraction off, from": lambda s, t, n: s // t * n,
    "need not be whole": lambda s, t, n: s / (t // n),
    "no factor": lambda s, t, n: s - t / n,
}


def test_wrong_loss_factors():
    found = [rejected(check("3.3", answer), phrase) for phrase, answer in WRONG_FACTORS.items()]
    assert len(set(found)) == len(found)
    assert "ZeroDivisionError" in check("3.3", lambda s, t, n: s / 0).wrong.what


# ---- 3.6 -------------------------------------------------------------------------------------

TWO_STEPS = """
def time_step(ddp, loss_fn, inputs, targets):
    def run():
        times = [now()]
        loss = loss_fn(ddp(inputs), targets)
        times.append(now())
        loss.backward()
        times.append(now())
        return [after - before for before, after in zip(times, times[1:])]

    _, synchronized = run()
    with ddp.no_sync():
        forward, alone = run()
    return torch.tensor([forward, alone, synchronized - alone], dtype=torch.float64)
"""
FLAG = """
def time_step(ddp, loss_fn, inputs, targets):
    marks = []
    for ddp.require_backward_grad_sync in (False, True):
        marks += [now()]
        outputs = ddp(inputs)
        loss = loss_fn(outputs, targets)
        marks += [now()]
        torch.autograd.backward(loss)
        marks += [now()]
    a, b, c, d, e, f = marks
    return {"forward": e - d, "backward": c - b, "communication": (f - e) - (c - b)}.values()
"""
STOPWATCH = """
class Stopwatch:
    def __enter__(self):
        self.began = now()
        return self

    def __exit__(self, *error):
        self.seconds = now() - self.began


def time_step(ddp, loss_fn, inputs, targets):
    forward, alone, with_communication = Stopwatch(), Stopwatch(), Stopwatch()
    with ddp.no_sync(), forward:
        loss = loss_fn(ddp(inputs), targets)
    with ddp.no_sync(), alone:
        loss.backward()
    ddp.zero_grad()
    loss = loss_fn(ddp(inputs), targets)
    with with_communication:
        loss.backward()
    return forward.seconds, alone.seconds, with_communication.seconds - alone.seconds
"""


def time_step(body="""
        with ddp.no_sync():
            a = now()
            loss = loss_fn(ddp(inputs), targets)
            b = now()
            loss.backward()
            c = now()
        d = now()
        loss = loss_fn(ddp(inputs), targets)
        e = now()
        loss.backward()
        f = now()
    """, parts="b - a, c - b, (f - e) - (c - b)", first="pass"):  # fmt: skip
    """The solution of 3.6, unless told otherwise."""
    body = textwrap.indent(textwrap.dedent(body), "    ")
    head = f"def time_step(ddp, loss_fn, inputs, targets):\n    {first}\n"
    return f"{head}{body}\n    return {parts}\n"


BACKWARD_ALONE = """
    a = now()
    loss = loss_fn(ddp(inputs), targets)
    b = now()
    with ddp.no_sync():
        loss.backward()
    c = now()
    loss = loss_fn(ddp(inputs), targets)
    e = now()
    loss.backward()
    f = now()
"""
WITHOUT = """
    a = now()
    loss = loss_fn(ddp(inputs), targets)
    b = now()
    loss.backward()
    c = now()
    loss = loss_fn(ddp(inputs), targets)
    e = now()
    loss.backward()
    f = now()
"""
BOTH_UNDER = "with ddp.no_sync():" + textwrap.indent(WITHOUT, "    ")
LOSS_APART = """
    with ddp.no_sync():
        a = now()
        outputs = ddp(inputs)
        b = now()
        loss = loss_fn(outputs, targets)
        b2 = now()
        loss.backward()
        c = now()
    d = now()
    outputs = ddp(inputs)
    e0 = now()
    loss = loss_fn(outputs, targets)
    e = now()
    loss.backward()
    f = now()
"""
ONE_GRAPH = """
    a = now()
    loss = loss_fn(ddp(inputs), targets)
    b = now()
    with ddp.no_sync():
        loss.backward(retain_graph=True)
    c = e = now()
    loss.backward()
    f = now()
"""
THREE_ROUNDS = """
    for _ in range(3):
        with ddp.no_sync():
            a = now()
            loss = loss_fn(ddp(inputs), targets)
            b = now()
            loss.backward()
            c = now()
    loss = loss_fn(ddp(inputs), targets)
    e = now()
    loss.backward()
    f = now()
"""
WRONG_TIMES = {
    "not the backward alone": time_step(BACKWARD_ALONE),
    "Run one of them": time_step(WITHOUT),
    "neither backward communicates": time_step(BOTH_UNDER),
    "backward is that of the one which": time_step(parts="b - a, f - e, (f - e) - (c - b)"),
    "the third is the whole backward": time_step(parts="b - a, c - b, f - e"),
    "read the clock again between": time_step(parts="b - a, c - b, (f - d) - (c - b)"),
    "the whole second step": time_step(parts="b - a, c - b, f - d"),
    "minus the one without.": time_step(parts="b - a, c - b, (c - b) - (f - e)"),
    "the backward under no_sync.": time_step(parts="b - a, f - e, (c - b) - (f - e)"),
    "Subtract, and do not divide": time_step(parts="b - a, c - b, (f - e) / (c - b)"),
    "Leave out the division": time_step(parts="b - a, c - b, (f - e) / (c - b) - 1"),
    "Subtract the backward alone": time_step(
        parts="b - a, c - b, ((f - e) - (c - b)) / (c - a)"
    ),
    "Subtract only": time_step(parts="b - a, c - b, 1 - (c - b) / (f - e)"),
    "It is in no part": time_step(LOSS_APART, parts="b - a, c - b2, (f - e) - (c - b2)"),
    "Here it is in the backward.": time_step(LOSS_APART, parts="b - a, c - b, (f - e0) - (c - b)"),
    "Here it is in what": time_step(LOSS_APART, parts="b - a, c - b2, (f - e0) - (c - b2)"),
    "between them, too": time_step(parts="b - a, c - a, (f - e) - (c - b)"),
    "communication with it": time_step(parts="b - a, c - a, f - e"),
    "ends before loss.backward()": time_step(parts="c - a, c - b, (f - e) - (c - b)"),
    "the time of one": time_step(parts="b - a + e - d, c - b, (f - e) - (c - b)"),
    "in another order: forward, backward, communication": time_step(
        parts="b - a, (f - e) - (c - b), c - b"
    ),
    "another order: forward comes first": time_step(parts="c - b, b - a, (f - e) - (c - b)"),
    "forward first, communication last": time_step(parts="(f - e) - (c - b), c - b, b - a"),
    "milliseconds": time_step(
        parts="(b - a) * 1000, (c - b) * 1000, 1000 * ((f - e) - (c - b))"
    ),
    "readings of the clock": time_step(parts="b, c, f"),
    "waits for all that has begun": time_step(first="now = time.perf_counter"),
    "read the clock with now(), before": time_step(first="now = time.process_time"),
    "no backward has run": time_step(parts="0, 0, 0", body="loss_fn(ddp(inputs), targets)"),
    "are enough": time_step(THREE_ROUNDS),
    "a forward of its own": time_step(ONE_GRAPH.replace("retain_graph=True", "")),
    "is a method": time_step().replace("no_sync()", "no_sync"),
    "(outputs, targets)": time_step().replace("ddp(inputs), targets", "targets, ddp(inputs)"),
    "return three numbers": time_step(parts="b - a"),
    "`return": time_step(parts="None"),
}  # fmt: skip


@pytest.mark.parametrize("source", ["", time_step(), TWO_STEPS, FLAG, STOPWATCH])
def test_time_step(check_lab, source):
    verdict = check_lab("3.6", source)
    assert verdict.passed, verdict
    assert len(verdict.lines) == 3


@pytest.mark.parametrize("phrase", WRONG_TIMES)
def test_wrong_times(check_lab, phrase):
    rejected(check_lab("3.6", WRONG_TIMES[phrase]), phrase)


def test_one_graph_for_both_backwards(check_lab):
    rejected(check_lab("3.6", time_step(ONE_GRAPH)), "one forward for both backwards")


def test_the_clock_of_the_check_is_in_a_rank_alone(check_lab):
    before = time.perf_counter, time.time
    check_lab("3.6", time_step(WITHOUT))
    assert (time.perf_counter, time.time) == before


# ---- 3.7 -------------------------------------------------------------------------------------

WITH_THE_SAMPLER = """
def samples_of_rank(length, epoch, rank, n, seed=0):
    sampler = torch.utils.data.DistributedSampler(range(length), n, rank, seed=seed)
    sampler.set_epoch(epoch)
    return list(sampler)
"""
BY_INDEX = """
def samples_of_rank(length, epoch, rank, n, seed=0):
    g = torch.Generator()
    g.manual_seed(epoch + seed)
    order = torch.randperm(length, generator=g)
    return order[torch.arange(rank, (length + n - 1) // n * n, n) % length]
"""
FORKED = """
def samples_of_rank(length, epoch, rank, n, seed=0):
    with torch.random.fork_rng():
        torch.manual_seed(seed + epoch)
        order = torch.randperm(length)
    read = []
    for place in range(rank, 10**9, n):
        if place - rank >= length:
            return read
        read.append(order[place % length])
"""
APPENDED = """
def samples_of_rank(length, epoch, rank, n, seed=0):
    shuffle = torch.Generator().manual_seed(seed + epoch)
    order = list(torch.randperm(length, generator=shuffle).numpy())
    for sample in iter(order):
        if len(order) % n == 0:
            break
        order.append(sample)
    return tuple(order[i] for i in range(len(order)) if i % n == rank)
"""


def samples(seed="seed + epoch", order="order", part="order[: each * n][rank::n]",
            more="order * (each * n)", each="-(-length // n)"):  # fmt: skip
    """The solution of 3.7, unless told otherwise."""
    return textwrap.dedent(f"""
        def samples_of_rank(length, epoch, rank, n, seed=0):
            shuffle = torch.Generator().manual_seed({seed})
            order = torch.randperm(length, generator=shuffle).tolist()
            each, missing = {each}, -length % n
            order = {order}
            order = {more}
            return {part}
        """)


BLOCK = "order[rank * each : (rank + 1) * each]"
GLOBAL = samples().replace("torch.Generator().manual_seed", "torch.manual_seed")
DEALT_FIRST = """
def samples_of_rank(length, epoch, rank, n, seed=0):
    each = -(-length // n)
    part = (list(range(length)) * n * each)[: each * n][rank::n]
    shuffle = torch.Generator().manual_seed(seed + epoch)
    return [part[i] for i in torch.randperm(each, generator=shuffle).tolist()]
"""
WRONG_SAMPLES = {
    "nothing is shuffled.": samples(order="list(range(length))"),
    "a block instead of": samples(order="list(range(length))", part=BLOCK),
    "you take a block of it": samples(part=BLOCK),
    "and others by nobody. The seed has to be the same on all ranks.": samples(
        seed="seed + epoch + rank"
    ),
    "and differ in each epoch": samples(seed="seed + rank"),
    "on all ranks: seed + epoch": samples(seed="rank"),
    "each epoch has the same order": samples(seed="seed"),
    "seed is ignored": samples(seed="epoch"),
    "it should be the sum": samples(seed="seed * epoch"),
    "you deal out first": DEALT_FIRST,
    "keep the order": samples(part="sorted(order[: each * n][rank::n])"),
    "every rank reads everything": samples(more="order", part="order"),
    "one sample less than others": samples(more="order"),
    "left over is dropped": samples(each="length // n"),
    "you continue it with its end": samples(more="order + order[len(order) - missing:]"),
    "repeat its last sample": samples(more="order + order[-1:] * missing"),
    "repeat its first sample": samples(more="order + order[:1] * missing"),
    "you add samples 0, 1": samples(more="order + list(range(missing))"),
    "you continue it backwards": samples(more="order + order[::-1][:missing]"),
    "repeat it as often": samples(more="order + order[:missing]"),
    "a whole round too many": samples(each="length // n + 1"),
    "each rank fills up its own part": samples(
        more="order", part="(order[rank::n] * each)[:each]"
    ),
    "`return`": samples(part="None"),
    "the samples that the rank reads": samples(part="order[rank]"),
    "torch.manual_seed sets the generator": GLOBAL,
    "everybody reads equally many": samples(part="order[: each * n][rank::n][1:]"),
    "from 0 to length - 1": samples(order="[i + 1 for i in order]"),
    "nobody reads sample": samples(order="[i // 2 for i in order]"),
    "but in another order": samples(part="order[: each * n][rank::n][::-1]"),
    "reads it from place r on": samples(part="order[: each * n][::-1][rank::n]"),
}  # fmt: skip


@pytest.mark.parametrize("source", ["", samples(), WITH_THE_SAMPLER, BY_INDEX, FORKED, APPENDED])
def test_samples_of_rank(check_lab, source):
    verdict = check_lab("3.7", source)
    assert verdict.passed, verdict
    assert len(verdict.lines) == 7


def test_wrong_samples_of_rank(check_lab):
    before = torch.get_rng_state()
    found = [rejected(check_lab("3.7", source), phrase) for phrase, source in WRONG_SAMPLES.items()]
    assert len(set(found)) == len(found)
    assert torch.equal(torch.get_rng_state(), before)


def test_an_error_is_shown_with_its_line(check_lab):
    verdict = check_lab("3.7", samples(part="order[length * n * 99]"))
    assert "IndexError" in verdict.wrong.what
    assert "order[length * n * 99]" in verdict.wrong.what
