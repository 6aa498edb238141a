"""3.1 and 3.2: right answers pass, and each wrong one is told what is wrong with it."""

import math
import shutil
import textwrap

import pytest
import torch
from helpers import ROOT, put_lab

from pedagogy_lib import check
from pedagogy_lib.course import checking
from pedagogy_lib.course.build import with_holes

SOLVED = ROOT / "solutions" / "labs"
LAB = (SOLVED / "data_parallel.py").read_text()


@pytest.fixture
def check_lab(tmp_path, monkeypatch):
    """Check 3.2 with another definition of its function in the learner's file."""
    for folder in (tmp_path / "labs", tmp_path / "solutions" / "labs"):
        shutil.copytree(SOLVED, folder)

    def check_one(source="", lab=LAB):
        put_lab(tmp_path, monkeypatch, "data_parallel", f"{lab}\n\n{source}", LAB)
        return check("3.2")

    return check_one


def rejected(verdict, phrase):
    """A wrong answer's diagnosis, which has the phrase in it."""
    assert verdict.passed is False, verdict
    assert phrase in verdict.wrong.why, verdict
    return verdict.wrong.why


# ---- 3.1 -------------------------------------------------------------------------------------


def exchange_seconds(how, n, X, B):
    return 2 * (n - 1) * X / B if how == "server" else 2 * (n - 1) / n * X / B


def in_steps(how, n, X, B):
    if how == "ring":
        seconds_of_a_message = X / n / B
        return sum(seconds_of_a_message for half in range(2) for step in range(n - 1))
    pull = push = sum(X / B for worker in range(1, n))
    return pull + push


def as_a_tensor(how, n, X, B):
    volume = torch.tensor(2 * X) * (n - 1)
    return volume / B if how == "server" else volume / n / B


@pytest.mark.parametrize("answer", [exchange_seconds, in_steps, as_a_tensor])
def test_seconds_of_an_exchange(answer):
    verdict = check("3.1", answer)
    assert verdict.passed, verdict
    assert len(verdict.lines) == 6


def server(seconds):
    """The right ring, and this server."""
    return lambda how, n, X, B: (
        seconds(n, X, B) if how == "server" else exchange_seconds(how, n, X, B)
    )


def ring(seconds):
    return lambda how, n, X, B: (
        seconds(n, X, B) if how == "ring" else exchange_seconds(how, n, X, B)
    )


WRONG_SECONDS = {
    "without `return`": lambda how, n, X, B: None,
    "X and B both count bytes: no": lambda *a: 8 * exchange_seconds(*a),
    "divide them by": server(lambda n, X, B: 2 * (n - 1) * X),
    "a faster link makes it shorter": server(lambda n, X, B: 2 * (n - 1) * X * B),
    "upside down": server(lambda n, X, B: 2 * (n - 1) * B / X),
    "milliseconds": lambda *a: 1000 * exchange_seconds(*a),
    "the server is no worker": server(lambda n, X, B: 2 * n * X / B),
    "A worker pulls X and pushes X": server(lambda n, X, B: (n - 1) * X / B),
    "and the server is counted": server(lambda n, X, B: n * X / B),
    "all copies go at the same time": server(lambda n, X, B: 2 * X / B),
    "this is one copy": server(lambda n, X, B: X / B),
    "this is what a ring takes": server(lambda n, X, B: 2 * (n - 1) / n * X / B),
    "that would be a tree, in which workers pass the weights on. Here": server(
        lambda n, X, B: 2 * math.ceil(math.log2(n)) * X / B
    ),
    "both ends of each copy": server(lambda n, X, B: 4 * (n - 1) * X / B),
    "speak with the server alone": server(lambda n, X, B: n * (n - 1) * X / B),
    "what all ranks send together": ring(lambda n, X, B: 2 * (n - 1) * X / B),
    "one step too many": ring(lambda n, X, B: 2 * X / B),
    "An all-gather has to follow": ring(lambda n, X, B: (n - 1) / n * X / B),
    "sends and receives at the same time": ring(lambda n, X, B: 4 * (n - 1) / n * X / B),
    "one message in each half": ring(lambda n, X, B: 2 * X / n / B),
    "this is one message, of": ring(lambda n, X, B: X / n / B),
    "X bytes once over a link": ring(lambda n, X, B: X / B),
    "in a ring there is no server": ring(lambda n, X, B: 2 * (n - 2) / (n - 1) * X / B),
    "that is a tree": ring(lambda n, X, B: 2 * math.ceil(math.log2(n)) * X / B),
}


def test_wrong_seconds_of_an_exchange():
    found = [rejected(check("3.1", answer), phrase) for phrase, answer in WRONG_SECONDS.items()]
    assert len(set(found)) == len(found)
    assert check("3.1", lambda *a: "1.0").passed is False
    assert "line" in check("3.1", lambda *a: 1 / 0).wrong.what


# ---- 3.2 -------------------------------------------------------------------------------------


def serve(start="dist.send(order_of(model, True), worker)", receive="worker = dist.recv(gradient)",
          stale="len(staleness) - version_of.pop(worker)",
          step="take_step(model, optimizer, gradient)", over="is_over(len(staleness))",
          answer="dist.send(order_of(model, going_on), worker)",
          version="len(staleness)", before="", ready="", after="", result="staleness",
          loop="while version_of:"):  # fmt: skip
    """The solution of 3.2, unless told otherwise."""
    return textwrap.dedent(f"""
        @torch.no_grad()
        def serve_as_they_come(model, optimizer, is_over):
            gradient = torch.empty(sum(p.numel() for p in model.parameters()))
            n, going_on = dist.get_world_size(), True
            {before or "pass"}
            staleness, version_of = [], {{}}
            for worker in range(1, n):
                {start}
                version_of[worker] = 0
            {loop}
                {receive}
                {ready or "pass"}
                staleness.append({stale})
                {step}
                going_on = not {over}
                {answer}
                if going_on:
                    version_of[worker] = {version}
                {after or "pass"}
            return {result}
        """)


WITH_A_COUNT_OF_WORKERS = """
@torch.no_grad()
def serve_as_they_come(model, optimizer, is_over):
    n = dist.get_world_size()
    gradient = torch.empty_like(parameters_to_vector(model.parameters()))
    versions, computing, updates, ages = [0] * n, n - 1, 0, []
    requests = [dist.isend(order_of(model, True), worker) for worker in range(1, n)]
    for request in requests:
        request.wait()
    while computing > 0:
        worker = dist.recv(gradient, src=None)
        ages += [updates - versions[worker]]
        take_step(model, optimizer, gradient.clone())
        updates += 1
        if is_over(updates):
            computing -= 1
            dist.isend(order_of(model, False), worker).wait()
        else:
            versions[worker] = updates
            dist.isend(order_of(model, True), worker).wait()
    return torch.tensor(ages)
"""
WITHOUT_ITS_HELPERS = """
def serve_as_they_come(model, optimizer, is_over):
    parameters, updates, ages = list(model.parameters()), 0, []
    mark = lambda on: torch.tensor([1.0 if on else 0.0])
    weights = lambda: torch.cat([p.detach().flatten() for p in parameters])
    sent_at = {worker: 0 for worker in range(1, dist.get_world_size())}
    for worker in sent_at:
        dist.send(torch.cat([mark(True), weights()]), dst=worker)
    over = False
    while sent_at:
        gradient = torch.zeros(len(weights()))
        worker = dist.recv(gradient)
        ages.append(updates - sent_at[worker])
        for p in parameters:
            p.grad, gradient = gradient[: p.numel()].reshape(p.shape), gradient[p.numel() :]
        optimizer.step()
        optimizer.zero_grad()
        updates += 1
        over = over or is_over(updates)
        sent_at[worker] = updates
        dist.send(torch.cat([mark(not over), weights()]), dst=worker)
        if over:
            del sent_at[worker]
    return tuple(ages)
"""
WITH_A_THREAD_FOR_EACH_WORKER = """
def serve_as_they_come(model, optimizer, is_over):
    import threading
    lock, ages = threading.Lock(), []

    @torch.no_grad()
    def serve_one(worker):
        gradient = torch.empty(sum(p.numel() for p in model.parameters()))
        version, going_on = 0, True
        while going_on:
            dist.recv(gradient, worker)
            with lock:
                ages.append(len(ages) - version)
                take_step(model, optimizer, gradient)
                version = len(ages)
                going_on = not is_over(version)
                order = order_of(model, going_on)
            dist.send(order, worker)

    workers = range(1, dist.get_world_size())
    for worker in workers:
        dist.send(order_of(model, True).detach(), worker)
    threads = [threading.Thread(target=serve_one, args=(worker,)) for worker in workers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return ages
"""

HANGS = {
    "that is BSP": '''
@torch.no_grad()
def serve_as_they_come(model, optimizer, is_over):
    return serve_together(model, optimizer, is_over)
''',
    "you take the workers in turn": serve(
        receive="worker = 1 + len(staleness) % (n - 1); dist.recv(gradient, worker)"
    ),
    "for weights to begin with": serve(start="pass"),
    "for new weights": serve(answer="pass"),
    "whoever was sent a 1 pushes once more": serve(loop="while going_on:"),
    "waits for an answer": serve(
        loop="while going_on:", answer="if going_on: dist.send(order_of(model, True), worker)"
    ),
    "which is about to push": serve(
        answer="for w in range(1, n): dist.send(order_of(model, going_on), w)"
    ),
    "and every worker has ended": serve(loop="while True:"),
}  # fmt: skip

WRONG = {
    "is_over(…) after each update": serve(over="False"),
    "it goes on for too long": serve(over="is_over(len(staleness) - 1)"),
    "it is over too early": serve(over="is_over(len(staleness) + 1)"),
    "also those that are pushed": serve(step="if going_on: take_step(model, optimizer, gradient)"),
    "by optimizer.step()": serve(
        step="for p, g in zip(model.parameters(), gradient.split([2, 1])): p -= 0.5 * g.view_as(p)"
    ),
    "divided by the number of workers": serve(
        step="take_step(model, optimizer, gradient / (n - 1))"
    ),
    "its sign is turned round": serve(step="take_step(model, optimizer, -gradient)"),
    "the gradients before it are still in it": serve(
        before="total = 0", ready="total = total + gradient",
        step="take_step(model, optimizer, total)",
    ),
    "has returned": serve(
        before="old = torch.zeros_like(gradient)",
        step="take_step(model, optimizer, old); old = gradient.clone()",
    ),
    "is None when": serve(step="optimizer.zero_grad(); optimizer.step()"),
    "one push, one step": serve(
        step="take_step(model, optimizer, gradient); take_step(model, optimizer, gradient)"
    ),
    "the answer was made before the step": serve(
        ready="order = order_of(model, not is_over(len(staleness) + 1))",
        answer="dist.send(order, worker)",
    ),
    "call it anew": serve(
        before="order = order_of(model, True)",
        answer="order[0] = going_on; dist.send(order, worker)",
    ),
    "the mark is missing": serve(start="dist.send(order_of(model, True)[1:], worker)"),
    "send what order_of": serve(answer="dist.send(torch.ones(4) * going_on, worker)"),
    "each one is a mark and all weights": serve(
        answer="dist.send(order_of(model, going_on)[: 4 if going_on else 1], worker)"
    ),
    "the two sides of a message differ in length": serve(
        start="dist.send(torch.cat([order_of(model, True)] * 2), worker)"
    ),
    "0 is right if everybody waits": serve(stale="0 * version_of.pop(worker)"),
    "each is one too large": serve(stale="1 + len(staleness) - version_of.pop(worker)"),
    "you note the one before it": serve(version="len(staleness) - 1"),
    "the versions at which the gradients were computed": serve(stale="version_of.pop(worker)"),
    "all count from the start": serve(version="0"),
    "the sign is turned": serve(stale="version_of.pop(worker) - len(staleness)"),
    "own pushes; staleness": serve(
        before="pushes = [-1] * n", ready="pushes[worker] += 1",
        stale="pushes[worker] + 0 * version_of.pop(worker)",
    ),
    "own pushes from 1": serve(
        before="pushes = [0] * n", ready="pushes[worker] += 1",
        stale="pushes[worker] + 0 * version_of.pop(worker)",
    ),
    "sorted": serve(result="sorted(staleness)"),
    "a list": serve(result="sum(staleness) / len(staleness)"),
    "also those that come when it is over": serve(result="staleness[:5]"),
    "without `return`": serve(result="None"),
    "only optimizer.step() may move them": serve(
        result="[model.bias.data.zero_(), staleness][1]"
    ),
}  # fmt: skip


def test_the_hole_is_not_attempted(check_lab):
    assert check_lab(lab=with_holes(LAB)).passed is None


@pytest.mark.parametrize(
    "source",
    ["", serve(), WITH_A_COUNT_OF_WORKERS, WITHOUT_ITS_HELPERS, WITH_A_THREAD_FOR_EACH_WORKER],
    ids=["solution", "as here", "count", "without helpers", "threads"],
)
def test_a_server(check_lab, source):
    verdict = check_lab(source)
    assert verdict.passed, verdict
    assert "staleness 0 0 2 1 0 2" in verdict.lines[0]
    assert len(verdict.lines) == 4


@pytest.mark.parametrize("phrase", HANGS)
def test_a_server_that_hangs(check_lab, phrase, monkeypatch):
    monkeypatch.setattr(checking, "TIMEOUT_SECONDS", 1.5)
    verdict = check_lab(HANGS[phrase])
    rejected(verdict, phrase)
    assert "it hangs" in verdict.wrong.what
    assert "endless loop" not in repr(verdict)


@pytest.mark.parametrize("phrase", WRONG)
def test_a_wrong_server(check_lab, phrase):
    rejected(check_lab(WRONG[phrase]), phrase)
