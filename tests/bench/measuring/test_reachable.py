"""Tensors and optimizers that Python can reach are found, however old; and soon."""

import gc

import pytest
import torch

from pedagogy_lib.measuring.reachable_tensors import Reachable, find_saved_tensors


@pytest.fixture
def reachable():
    finder = Reachable()
    finder.find()
    yield finder
    gc.callbacks.remove(finder.remember_young)


def is_among(thing, found):
    return any(one is thing for one in found)


def test_tensor_from_before():
    x = torch.ones(3)
    gc.collect()
    finder = Reachable()
    assert is_among(x, finder.find())
    gc.callbacks.remove(finder.remember_young)


@pytest.mark.parametrize("collections", [[], [0], [1], [2], [0, 1, 2], [2, 2]])
def test_tensor_of_any_age(reachable, collections):
    x = torch.ones(3)
    parameter = torch.nn.Parameter(x)
    optimizer = torch.optim.SGD([parameter])
    for generation in collections:
        gc.collect(generation)
    for _ in range(2):
        found = reachable.find()
        assert is_among(x, found)
        assert is_among(parameter, found)
        assert is_among(optimizer, found)


def test_tensor_that_only_a_c_function_holds(reachable):
    """Its Python object goes and comes again, like that of a tensor in an autograd graph."""
    y = (torch.ones(3, requires_grad=True) * 2).exp()
    gc.collect()
    found = reachable.find()
    assert is_among(y, found)


def test_many_new_objects_hide_nothing(reachable):
    keep = [[torch.ones(1), [[] for _ in range(100)]] for _ in range(100)]
    found = reachable.find()
    assert not [(tensor, _) for tensor, _ in keep if not is_among(tensor, found)]


def test_what_is_gone_is_not_kept(reachable):
    x = torch.ones(3)
    gc.collect()
    reachable.find()
    count = len(reachable.old)
    del x
    reachable.find()
    assert len(reachable.old) == count - 1


def test_nothing_is_found_twice(reachable):
    gc.collect()
    x = torch.ones(3)
    for _ in range(3):
        gc.collect()
        assert sum(one is x for one in reachable.find()) == 1


def test_saved_by_graphs():
    a, b = torch.ones(3, requires_grad=True), torch.ones(3, requires_grad=True)
    y = (a * b).exp()
    saved = list(find_saved_tensors([y]))
    assert sum(torch.equal(one, y) for one in saved) == 1
    assert sum(one.data_ptr() in (a.data_ptr(), b.data_ptr()) for one in saved) == 2
    y.sum().backward()
    assert list(find_saved_tensors([y])) == []
