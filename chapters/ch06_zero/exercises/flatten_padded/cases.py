"""What the cases and the truth share."""

import torch


def describe_output(function):
    """A function that gives what is looked at in the tensor of another one."""

    def describe(tensors, n):
        places = {x.untyped_storage().data_ptr() for x in tensors}
        got = function(tensors, n)
        if not isinstance(got, torch.Tensor):
            return got
        is_shared = got.untyped_storage().data_ptr() in places
        return {"dtype": str(got.dtype), "numbers": got, "is_shared": is_shared}

    return describe
