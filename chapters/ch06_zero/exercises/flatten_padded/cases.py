"""A description of the result, which the check and the truth share."""

import torch


def describe_output(function):
    """Return a function that describes the tensor that another function returns."""

    def describe(tensors, n):
        places = {x.untyped_storage().data_ptr() for x in tensors}
        got = function(tensors, n)
        if not isinstance(got, torch.Tensor):
            return got
        is_shared = got.untyped_storage().data_ptr() in places
        return {"dtype": str(got.dtype), "numbers": got, "is_shared": is_shared}

    return describe
