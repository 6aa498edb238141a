"""What torch tells about a backward only through its private parts."""

import torch


def hook_first(parameter, hook):
    """Register a hook to be called when a gradient is complete, before those already there.

    One of those may begin an all-reduce; by then, the gradient must have been noted as ready.
    """
    handle = parameter.register_post_accumulate_grad_hook(hook)
    hooks = parameter._post_accumulate_grad_hooks
    for other in [key for key in hooks if key != handle.id]:
        hooks[other] = hooks.pop(other)  # to the end
    return handle


def in_backward() -> bool:
    return torch._C._current_graph_task_id() != -1
