"""What stands in the place of torch's own functions, and gives way to them again."""

import contextlib
import itertools

import pytest
import torch
import torch.distributed as dist

from pedagogy_lib import launch, mark, measure
from pedagogy_lib.basics.torch_private import (
    NewParametersNoticed,
    ResizesWatched,
    hook_first,
    is_in_storage,
    make_typed_storage,
)
from pedagogy_lib.basics.waits import WaitsNoticed

RESIZE = torch.UntypedStorage.resize_


def watcher(name, seen):
    @contextlib.contextmanager
    def watch(storage, size):
        seen.append((name, "before", storage.nbytes(), size))
        yield
        seen.append((name, "after", storage.nbytes(), size))

    return ResizesWatched(watch)


def events(name, before, after):
    return {(name, "before", before, after), (name, "after", after, after)}


@pytest.mark.parametrize("ends", list(itertools.permutations("abc")))
def test_watchers_of_resizes_may_end_in_any_order(ends):
    storage, seen = torch.zeros(4, dtype=torch.uint8).untyped_storage(), []
    watchers = {name: watcher(name, seen) for name in "abc"}
    for one in watchers.values():
        one.__enter__()
    left = set("abc")
    for name in ends:
        before = storage.nbytes()
        storage.resize_(before + 1)
        assert set(seen) == set().union(*(events(one, before, before + 1) for one in left))
        seen.clear()
        watchers[name].__exit__(None, None, None)
        left.remove(name)
    assert torch.UntypedStorage.resize_ is RESIZE
    storage.resize_(0)
    assert (seen, storage.nbytes()) == ([], 0)


def test_a_watcher_may_refuse_a_resize():
    @contextlib.contextmanager
    def refuse(storage, size):
        raise ValueError(f"{size} bytes")
        yield

    storage, seen = torch.zeros(4, dtype=torch.uint8).untyped_storage(), []
    refused = pytest.raises(ValueError, match="8 bytes")
    with watcher("a", seen), ResizesWatched(refuse), watcher("b", seen), refused:
        storage.resize_(8)
    assert storage.nbytes() == 4
    assert not [when for _, when, *_ in seen if when == "after"]


def test_waits_are_noticed_whoever_waits():
    def work():
        x, seen, wait = torch.ones(3), [], dist.Work.wait
        with WaitsNoticed(seen.append):
            dist.all_reduce(x)
            counts = [len(seen)]
            request = dist.all_reduce(x, async_op=True)
            counts.append(len(seen))
            request.wait()
            counts += [len(seen), seen[-1] is request]
        request.wait()
        return counts, len(seen), dist.Work.wait is wait

    assert launch(work, world_size=2, device="cpu").values == [([2, 2, 4, True], 4, True)] * 2


def test_a_wait_for_a_future_is_noticed():
    def work():
        x, seen, wait = torch.ones(3), [], torch._C.Future.wait
        with WaitsNoticed(seen.append):
            requests = [dist.all_reduce(x, async_op=True) for _ in range(3)]
            futures = [request.get_future() for request in requests]
            counts = [len(seen)]
            futures[1].wait()
            counts += [len(seen), seen[-1] is requests[1]]
            torch.futures.wait_all(futures)
            counts += [all(any(each is one for one in seen) for each in requests)]
        return counts, torch._C.Future.wait is wait

    assert launch(work, world_size=2, device="cpu").values == [([0, 1, True, True], True)] * 2


@pytest.mark.parametrize("order", list(itertools.permutations(["measure", "watch"])))
def test_memory_is_measured_beside_another_watcher(order):
    def step():
        x, seen = torch.zeros(1000, dtype=torch.uint8), []
        mark(x, "communication")
        contexts = {"measure": measure("it"), "watch": watcher("a", seen)}
        for name in order:
            contexts[name].__enter__()
        x.untyped_storage().resize_(5000)
        for name in order:
            contexts[name].__exit__(None, None, None)
        return set(seen)

    run = launch(step, world_size=1, device="cpu")
    assert run.values == [events("a", 1000, 5000)]
    assert run["it"].peak_bytes[0]["communication"] == 5000


def test_new_parameters_are_noticed():
    seen = []
    with NewParametersNoticed(seen.append):
        layer = torch.nn.Linear(2, 3)
    torch.nn.Linear(2, 3)
    assert [id(parameter) for parameter in seen] == [id(layer.weight), id(layer.bias)]


def test_a_hook_that_comes_first():
    x, order = torch.ones(2, requires_grad=True), []
    for name in "ab":
        x.register_post_accumulate_grad_hook(lambda _, name=name: order.append(name))
    hook_first(x, lambda _: order.append("first"))
    x.sum().backward()
    assert order == ["first", "a", "b"]


def test_views_lie_in_one_storage():
    x = torch.zeros(4)
    assert is_in_storage(x[2:], x.untyped_storage())
    assert not is_in_storage(x.clone(), x.untyped_storage())


def test_a_typed_storage_is_made_without_a_warning(recwarn):
    assert (
        make_typed_storage(torch.zeros(4).untyped_storage(), torch.float32).dtype is torch.float32
    )
    assert not recwarn
