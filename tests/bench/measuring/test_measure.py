"""`measure` reports what happened in its block, and changes nothing about it."""

import contextlib
import copy
import gc
import pickle
import sys
import threading
import time
import weakref

import pytest
import torch
import torch.distributed as dist
from helpers import launch_on_cpu as launch
from torch import nn
from torch.utils.checkpoint import checkpoint

from pedagogy_lib import LaunchError, RankError, measure
from pedagogy_lib.measuring import recorder

N_BYTES = 4000


def alone(step, *args):
    return launch(step, *args, world_size=1)


def mlp():
    return nn.Sequential(nn.Linear(10, 20), nn.Tanh(), nn.Linear(20, 5))


def gradients(model):
    return [parameter.grad.clone() for parameter in model.parameters()]


# ---- Labels ---------------------------------------------------------------------------------


def test_outside_of_a_launch():
    with pytest.raises(LaunchError, match="inside a function that launch"), measure("it"):
        pass


def test_as_a_decorator_outside_of_a_launch():
    with pytest.raises(LaunchError, match="put the `with` into a function, and give that to"):

        @measure("it")
        def step():
            pass


def test_a_label_is_a_text():
    def step():
        with measure([1]):
            raise AssertionError("not reached")

    with pytest.raises(RankError, match=r"the label of a block is a text, as in .*, not \[1\]"):
        alone(step)


def send_within(labels, n=1000):
    """All-reduce a tensor inside of blocks that contain each other."""
    x = torch.ones(n)
    with contextlib.ExitStack() as stack:
        for label in labels:
            stack.enter_context(measure(label))
        dist.all_reduce(x)


def test_a_block_inside_one_of_its_own_label_counts_once():
    def step():
        send_within(["warm up"])
        send_within(["once"])
        send_within(["a", "a", "between", "a"])
        send_within(["a"])

    run = launch(step, world_size=2)
    once, block = run["once"], run["a"]
    assert [len(spans) for spans in block.spans] == [2, 2]
    assert [len(calls) for calls in block.calls] == [2, 2]
    assert [len(memory) for memory in block.memory] == [2, 2]
    assert block.sent_bytes == [2 * sent for sent in once.sent_bytes]
    assert [len(spans) for spans in run["between"].spans] == [1, 1]


def test_a_recursive_function_is_measured_from_outside():
    def fall(depth):
        with measure("fall"):
            time.sleep(0.05)
            if depth:
                fall(depth - 1)

    def step():
        fall(3)
        fall(0)

    (spans,) = alone(step)["fall"].spans
    assert len(spans) == 2
    assert spans[0][1] - spans[0][0] >= 0.2


def test_an_error_inside_of_nested_blocks_ends_them_all():
    def step():
        for _ in range(2):
            with contextlib.suppress(ValueError), measure("a"), measure("a"):
                raise ValueError

    assert [len(spans) for spans in alone(step)["a"].spans] == [2]


def test_blocks_of_two_threads_are_two_blocks():
    def step():
        both = threading.Barrier(2)

        def work():
            with measure("a", memory=False):
                both.wait()

        threads = [threading.Thread(target=work) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    assert [len(spans) for spans in alone(step)["a"].spans] == [2]


def test_a_block_that_another_thread_ends():
    def step():
        block = measure("a", memory=False)
        thread = threading.Thread(target=block.__enter__)
        thread.start()
        thread.join()
        block.__exit__(None, None, None)

    assert [len(spans) for spans in alone(step)["a"].spans] == [1]


def test_a_block_that_is_still_open_ends_with_the_function():
    def batches():
        with measure("load"):
            yield from range(10)

    def step():
        torch.batches = batches()  # so that nobody closes it
        with measure("outer"):
            next(torch.batches)

    run = alone(step)
    assert [len(spans) for spans in run["load"].spans] == [1]
    assert run.labels == ["outer", "load"]


def test_a_block_may_be_kept_and_used_again():
    def step():
        block = measure("again")
        for _ in range(3):
            with block:
                torch.ones(10)

    (spans,) = alone(step)["again"].spans
    assert len(spans) == 3


def test_labels_come_in_the_order_in_which_they_begin():
    def step():
        with measure("outer"), measure("inner"):
            pass
        with measure("last"):
            pass
        with measure("inner"):
            pass

    assert alone(step).labels == ["outer", "inner", "last"]


def test_unknown_label():
    def step():
        with measure("it"):
            pass

    with pytest.raises(KeyError, match="no block 'that' was measured; this run's labels: 'it'"):
        alone(step)["that"]


def test_repeated_label_adds_seconds_and_bytes_and_takes_the_highest_peak():
    def step():
        x = torch.ones(1000)
        for copies in (2, 5, 1):
            with measure("it"):
                [x + 1 for _ in range(copies)]
                dist.all_reduce(x)

    block = launch(step, world_size=2)["it"]
    assert [len(rank) for rank in block.spans] == [3, 3]
    assert block.seconds[0] == pytest.approx(sum(end - begin for begin, end in block.spans[0]))
    assert block.peak_bytes[0]["total"] == (1 + 5) * N_BYTES
    assert block.sent_bytes[0] == pytest.approx(3 * N_BYTES, rel=0.3)
    assert len(block.calls[0]) == 3
    assert len(block.memory[0]) == 3


def test_nested_blocks():
    def step():
        x = torch.ones(1000)  # Gloo's threads may hold a tensor a moment longer than we do
        with measure("outer"):
            a = torch.ones(1000)
            with measure("inner"):
                b = torch.ones(1000)
                dist.all_reduce(x)
            dist.all_reduce(x)
            del a, b
            with measure("empty"):
                pass
            torch.ones(3000)

    run = launch(step, world_size=2)
    peaks = {label: run[label].peak_bytes[0]["total"] for label in run.labels}
    assert peaks == {"outer": 4 * N_BYTES, "inner": 3 * N_BYTES, "empty": N_BYTES}
    assert [len(run[label].calls[0]) for label in run.labels] == [2, 1, 0]
    assert run["outer"].sent_bytes[0] >= 2 * N_BYTES > run["inner"].sent_bytes[0] >= N_BYTES
    assert run["empty"].sent_bytes[0] == 0
    assert [len(run[label].memory[0]) for label in run.labels] == [1, 0, 0]


@pytest.mark.parametrize("thread_is_first", [True, False])
def test_a_block_in_a_thread_that_is_not_followed_has_no_peak(thread_is_first):
    def step():
        begin, end = threading.Event(), threading.Event()

        def measure_helper():
            begin.wait()
            with measure("beside"):
                y = torch.ones(5000)
                begin.clear()
                end.wait()
                return y

        helper = threading.Thread(target=measure_helper)
        helper.start()

        def let_it_begin():
            begin.set()
            while begin.is_set():
                time.sleep(0.001)

        if thread_is_first:
            let_it_begin()
        with measure("main"):
            if not thread_is_first:
                let_it_begin()
            x = torch.ones(1000)
            dist.all_reduce(x)
            del x
            end.set()
            helper.join()

    run = launch(step, world_size=2)
    followed, other = ("beside", "main") if thread_is_first else ("main", "beside")
    assert run[other].peak_bytes == [None, None]
    assert run[other].calls == [[], []]
    expected = N_BYTES if followed == "main" else 5 * N_BYTES
    assert [peak["total"] for peak in run[followed].peak_bytes] == [expected] * 2
    assert [len(calls) for calls in run[followed].calls] == [followed == "main"] * 2


def test_label_that_some_ranks_do_not_use():
    def step():
        if dist.get_rank() == 1:
            with measure("it"):
                torch.ones(1000)

    block = launch(step, world_size=2)["it"]
    assert block.peak_bytes[0] is None
    assert block.peak_bytes[1]["total"] == N_BYTES
    assert block.seconds[0] == block.sent_bytes[0] == 0


def test_exception_in_a_block():
    def step():
        x = torch.ones(1000, requires_grad=True)
        with pytest.raises(ZeroDivisionError), measure("outer"), measure("broken"):
            y = x.square()
            raise ZeroDivisionError
        with measure("it"):
            y.sum().backward()
        return torch.utils._python_dispatch._get_current_dispatch_mode_stack()

    run = alone(step)
    assert run.labels == ["outer", "broken", "it"]
    assert run.values[0] == []
    peaks = {label: run[label].peak_bytes[0] for label in run.labels}
    assert peaks["broken"]["activations"] == peaks["it"]["activations"] == N_BYTES
    assert peaks["it"]["gradients"] == N_BYTES
    assert peaks["broken"]["gradients"] == 0


def test_exception_reaches_the_learner():
    def step():
        with measure("it"):
            raise ValueError("mine")

    with pytest.raises(RankError, match="mine"):
        alone(step)


def test_block_that_is_never_left():
    def step():
        with measure("it"):
            x = torch.ones(1000)
        sys.kept_open = measure("open")
        sys.kept_open.__enter__()
        with measure("inside"):
            x + 1

    run = alone(step)
    assert run.labels == ["it", "open", "inside"]
    assert run["it"].peak_bytes[0]["total"] == N_BYTES


def test_without_memory():
    def step():
        x = torch.ones(1000)
        with measure("it", memory=False):
            dist.all_reduce(x)

    block = launch(step, world_size=2)["it"]
    assert block.peak_bytes == [None, None]
    assert block.memory == [[], []]
    assert block.sent_bytes[0] == pytest.approx(N_BYTES, rel=0.3)
    assert block.seconds[0] > 0


def test_memory_inside_a_block_without():
    def step():
        x = torch.ones(1000)
        with measure("outer", memory=False):
            with measure("it"):
                x + 1
            with measure("it"):
                x + 1

    run = alone(step)
    assert run["outer"].peak_bytes == [None]
    assert run["it"].peak_bytes[0]["total"] == 2 * N_BYTES


# ---- Time -----------------------------------------------------------------------------------


def test_seconds_are_wall_clock():
    def step():
        began = time.perf_counter()
        with measure("it"):
            time.sleep(0.1)
        return time.perf_counter() - began

    run = alone(step)
    assert 0.1 <= run["it"].seconds[0] <= run.values[0]


def test_spans_are_on_one_clock_for_all_ranks():
    """What follows a barrier begins after everything that came before it on any rank."""

    def step():
        with measure("before"):
            time.sleep(0.05 * dist.get_rank())
        dist.barrier()
        with measure("after"):
            pass

    run = launch(step, world_size=4)
    begins = [spans[0][0] for spans in run["after"].spans]
    assert min(begins) >= max(spans[0][1] for spans in run["before"].spans)
    assert max(begins) - min(begins) < 0.1
    assert max(begins) < run.seconds


def test_spans_nest():
    def step():
        with measure("outer"):
            for _ in range(3):
                with measure("inner"):
                    torch.ones(10)

    run = alone(step)
    ((begin, end),) = run["outer"].spans[0]
    edges = [begin, *(edge for span in run["inner"].spans[0] for edge in span), end]
    assert edges == sorted(edges)
    assert len(set(edges)) == 8


# ---- History --------------------------------------------------------------------------------


def test_history():
    def step():
        x = torch.ones(1000)
        with measure("before"):
            pass
        with measure("it"):
            y = x + 1
            x + y
        return y

    block = alone(step)["it"]
    ((times, memory_log),) = block.memory[0]
    assert memory_log.sum(axis=1).tolist() == [N_BYTES, 2 * N_BYTES, 3 * N_BYTES, 2 * N_BYTES]
    begin, end = block.spans[0][0]
    assert times[0] < begin < times[1] < times[2] < times[3] < end


def test_long_history_keeps_its_ends_and_its_peak():
    def step():
        x = torch.ones(1000)
        with measure("it"):
            for _ in range(1000):
                x + 1
            y = torch.cat([x, x])
            for _ in range(1000):
                x + 1
            del y

    block = alone(step)["it"]
    ((times, memory_log),) = block.memory[0]
    totals = memory_log.sum(axis=1)
    assert 300 < len(times) < 500
    assert (times[1:] >= times[:-1]).all()
    assert totals[0] == totals[-1] == N_BYTES
    assert totals.max() == block.peak_bytes[0]["total"] == 4 * N_BYTES


# ---- What a block must not change -----------------------------------------------------------


def compute_gradients(measured, work):
    """Gradients of `work(model, x)`, with and without measuring."""
    model, x = mlp(), torch.randn(7, 10)
    if measured:
        with measure("it"):
            work(model, x).backward()
    else:
        work(model, x).backward()
    return gradients(model)


def reentrant(model, x):
    return checkpoint(model, x.requires_grad_(), use_reentrant=True).square().sum()


def not_reentrant(model, x):
    return checkpoint(model, x, use_reentrant=False).square().sum()


def segments(model, x):
    return torch.utils.checkpoint.checkpoint_sequential(model, 2, x, use_reentrant=False).sum()


def run_offloaded(model, x):
    with torch.autograd.graph.save_on_cpu():
        return model(x).square().sum()


def dropout(model, x):
    return nn.functional.dropout(model(x)).exp().sum()


def double_backward(model, x):
    loss = model(x).exp().sum()
    wanted = list(model.parameters())
    return sum(g.square().sum() for g in torch.autograd.grad(loss, wanted, create_graph=True))


WORK = [dropout, reentrant, not_reentrant, segments, run_offloaded, double_backward]


@pytest.mark.parametrize("work", WORK, ids=lambda work: work.__name__)
def test_gradients_are_the_same_to_the_bit(work):
    plain, measured = (alone(compute_gradients, mode, work).values[0] for mode in (False, True))
    assert not [gradient for gradient in plain if not gradient.any()]
    for one, other in zip(plain, measured, strict=True):
        assert torch.equal(one, other)


def test_third_derivative():
    def step():
        x = torch.tensor(2.0, requires_grad=True)
        with measure("it"):
            y = x**4
            for _ in range(3):
                (y,) = torch.autograd.grad(y, x, create_graph=True)
        return y.item()

    assert alone(step).values == [24 * 2.0]


def test_saved_tensor_modified_in_place_is_an_error_as_ever():
    def step():
        x = torch.ones(3, requires_grad=True)
        with measure("it"):
            y = x.exp()
            y.add_(1)
            with pytest.raises(RuntimeError, match="modified by an inplace operation"):
                y.sum().backward()
        with measure("forward"):
            y = x.exp()
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            y.mul_(2).sum().backward()

    alone(step)


def test_second_backward_is_an_error_as_ever():
    def step():
        x = torch.ones(3, requires_grad=True)
        with measure("it"):
            y = x.exp().sum()
            y.backward(retain_graph=True)
            y.backward()
            with pytest.raises(RuntimeError, match="backward through the graph a second time"):
                y.backward()
        return x.grad

    assert torch.equal(alone(step).values[0], 2 * torch.full((3,), 1.0).exp())


def test_dropped_graph_is_freed():
    """Autograd cannot see cycles that lead through Python objects, so there must be none."""

    def step():
        x = torch.ones(1000, requires_grad=True)
        with measure("forward"):
            x.exp().tanh().sum()
        with measure("it"):
            pass

    assert alone(step)["it"].peak_bytes[0]["total"] == N_BYTES


def test_cycles_stay_collectable():
    def step():
        gc.collect()
        things = []
        for _ in range(3):
            with measure("it"):
                thing = nn.Linear(3, 2)
                thing.itself = [thing]
            things.append(weakref.ref(thing))
            del thing
        gc.collect()
        return [thing() for thing in things]

    assert alone(step).values == [[None] * 3]


def test_model_can_be_copied_and_saved():
    def step():
        model = mlp()
        copies = []
        with measure("it"):
            model(torch.ones(7, 10)).sum().backward()
            copies += copy.deepcopy(model), pickle.loads(pickle.dumps(model))
            state = copy.deepcopy(model.state_dict())
        copies += copy.deepcopy(model), pickle.loads(pickle.dumps(model))
        copies.append(mlp())
        copies[-1].load_state_dict(state)
        x = torch.ones(2, 10)
        return all(torch.equal(model(x), other(x)) for other in copies)

    assert alone(step).values == [True]


def test_learners_own_hooks_still_run_and_no_other():
    def step():
        seen = []
        model = nn.Linear(3, 2)
        model.weight.register_post_accumulate_grad_hook(lambda p: seen.append("before"))
        with measure("it"):
            handle = model.bias.register_post_accumulate_grad_hook(lambda p: seen.append("inside"))
            model(torch.ones(1, 3)).sum().backward()
            handle.remove()
        hooks = [len(p._post_accumulate_grad_hooks or ()) for p in model.parameters()]
        return sorted(seen), hooks

    assert alone(step).values == [(["before", "inside"], [1, 0])]


def test_torch_func_without_memory():
    def step():
        with measure("it", memory=False):
            return torch.func.grad(lambda x: x**3)(torch.tensor(2.0)).item()

    assert alone(step).values == [12.0]


def test_random_numbers_are_the_same():
    def step():
        plain = torch.rand(5)
        torch.manual_seed(0)
        with measure("it"):
            measured = torch.rand(5)
        return torch.equal(plain, measured)

    assert alone(step).values == [True]


def test_without_the_wire_there_are_times_and_no_bytes():
    def step():
        x = torch.ones(1000)
        with measure("times", memory=False, wire=False):
            dist.all_reduce(x)
        with measure("all"), measure("both", wire=False):
            dist.all_reduce(x)

    run = launch(step, world_size=2, device="cpu")
    assert run["times"].sent_bytes == run["both"].sent_bytes == [0, 0]
    assert min(run["times"].seconds) > 0
    assert min(run["all"].sent_bytes) > 4000
    assert [call.name for call in run["both"].calls[0]] == ["all_reduce"]


def test_a_block_that_lasts_too_long_has_no_peaks_and_says_so():
    def step():
        from pedagogy_lib.measuring import memory_log

        memory_log.MOST_EVENTS = 100
        with measure("short"):
            torch.ones(1000)
        with measure("long"):
            for _ in range(200):
                torch.ones(1000)
        with measure("short again"):
            torch.ones(1000)

    run = launch(step, world_size=1, device="cpu")
    peaks = [run[label].peak_bytes[0] for label in run.labels]
    assert [peak and peak["total"] for peak in peaks] == [N_BYTES, None, N_BYTES]
    assert run.output[0].count("Measure a few steps of it") == 1
    assert run["long"].seconds[0] > 0


@pytest.mark.parametrize(
    ("config", "device", "wire"),
    [
        ("cpu:gloo,cuda:nccl", "cuda", "counted"),  # as `launch` sets it up where there are GPUs
        ("cuda:nccl", "cuda", "counted"),
        ("cpu:gloo,cuda:gloo", "cuda", "measured"),
        ("cpu:gloo,cuda:gloo", "cpu", "measured"),
    ],
)
def test_what_nccl_sends_is_counted_from_the_calls(monkeypatch, config, device, wire):
    """The kernel's counters do not see it."""
    monkeypatch.setattr(recorder.dist, "is_initialized", lambda: True)
    monkeypatch.setattr(recorder.dist, "get_backend_config", lambda: config)
    monkeypatch.setattr(recorder, "kernel_counts", lambda: True)
    assert recorder.Recorder(torch.device(device), 0.0, ()).wire == wire


def test_a_block_that_is_left_twice_is_told():
    def step():
        block = measure("step")
        with block:
            pass
        block.__exit__(None, None, None)

    with pytest.raises(RankError, match="the block 'step' is not open"):
        launch(step, world_size=1)


def test_a_rank_knows_the_peaks_of_blocks_that_have_ended():
    def step():
        for copies in (2, 5, 1):
            with measure("it"):
                [torch.ones(1000) for _ in range(copies)]
        return recorder.peak_bytes_in("it")

    run = launch(step, world_size=1)
    assert run.values == run["it"].peak_bytes
    assert run.values[0]["total"] == 5 * N_BYTES
