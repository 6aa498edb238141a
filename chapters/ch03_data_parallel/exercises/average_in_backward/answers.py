# %% right · a hook that returns the mean
def average_in_backward(model):
    def average(gradient):
        summed = gradient.clone()
        dist.all_reduce(summed)
        return summed / dist.get_world_size()

    for parameter in filter(lambda p: p.requires_grad, model.parameters()):
        parameter.register_hook(average)

# %% right · waited for at the end of the backward
# -     def average(parameter):
# -         dist.all_reduce(parameter.grad)
# -         parameter.grad /= dist.get_world_size()
# +     n = dist.get_world_size()
# +
# +     def average(parameter):
# +         request = dist.all_reduce(parameter.grad, async_op=True)
# +
# +         def finish():
# +             request.wait()
# +             parameter.grad /= n
# +
# +         torch.autograd.Variable._execution_engine.queue_callback(finish)

# %% wrong · changed weights by up to 0.66 the weights themselves are summed or divided
# -         dist.all_reduce(parameter.grad)
# -         parameter.grad /= dist.get_world_size()
# +         dist.all_reduce(parameter.data)
# +         parameter.data /= dist.get_world_size()

# %% wrong · after an all-reduce all ranks have the same sum
# -         parameter.grad /= dist.get_world_size()
# +         parameter.grad /= dist.get_world_size()
# +         dist.broadcast(parameter.grad, 0)

# %% wrong · only what had come by then is averaged
def average_in_backward(model):
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]

    def average(_):
        for parameter in trained:
            if parameter.grad is not None:
                dist.all_reduce(parameter.grad)
                parameter.grad /= dist.get_world_size()

    trained[0].register_post_accumulate_grad_hook(average)

# %% wrong · takes no hook
# -         if parameter.requires_grad:
# -             parameter.register_post_accumulate_grad_hook(average)
# +         parameter.register_post_accumulate_grad_hook(average)

# %% wrong · frozen parameters stay frozen
# -         if parameter.requires_grad:
# -             parameter.register_post_accumulate_grad_hook(average)
# +         parameter.requires_grad_(True).register_post_accumulate_grad_hook(average)

# %% wrong · this is the sum over the ranks
# -         parameter.grad /= dist.get_world_size()

# %% wrong · one of register_hook runs before
# -             parameter.register_post_accumulate_grad_hook(average)
# +             parameter.register_hook(lambda gradient, p=parameter: average(p))

# %% wrong · change no argument of register_hook() in place
# -         dist.all_reduce(parameter.grad)
# -         parameter.grad /= dist.get_world_size()
# +         dist.all_reduce(parameter)
# +         return parameter / dist.get_world_size()
# -             parameter.register_post_accumulate_grad_hook(average)
# +             parameter.register_hook(average)

# %% wrong · backward() has returned before the exchange was over
# -         dist.all_reduce(parameter.grad)
# -         parameter.grad /= dist.get_world_size()
# +         parameter.grad /= dist.get_world_size()
# +         dist.all_reduce(parameter.grad, async_op=True)

# %% wrong · nobody has waited for the request of all_reduce
# - dist.all_reduce(parameter.grad)
# + dist.all_reduce(parameter.grad, async_op=True)

# %% wrong · does not reach `.grad`
# -         dist.all_reduce(parameter.grad)
# -         parameter.grad /= dist.get_world_size()
# +         gradient = parameter.grad / dist.get_world_size()
# +         dist.all_reduce(gradient)

# %% wrong · Has one been registered?
# - if parameter.requires_grad:
# + if parameter.grad is not None:

# %% wrong · the weights are not to be averaged
# -         parameter.grad /= dist.get_world_size()
# +         parameter.grad /= dist.get_world_size()
# +         dist.all_reduce(parameter.data)
# +         parameter.data /= dist.get_world_size()

# %% wrong · and has one gradient to average
# -         dist.all_reduce(parameter.grad)
# -         parameter.grad /= dist.get_world_size()
# +         for parameter in model.parameters():
# +             if parameter.grad is not None:
# +                 dist.all_reduce(parameter.grad)
# +                 parameter.grad /= dist.get_world_size()

# %% wrong · has to make the same calls
# - if parameter.requires_grad:
# + if parameter.requires_grad and dist.get_rank() == 0:

# %% wrong · is sent 2.0 times: does each parameter have 2 hooks?
# -     for parameter in model.parameters():
# +     for parameter in (p for module in model.modules() for p in module.parameters()):

# %% wrong · it is to take its place
# -         dist.all_reduce(parameter.grad)
# -         parameter.grad /= dist.get_world_size()
# +         mean = parameter.grad.clone()
# +         dist.all_reduce(mean)
# +         parameter.grad += mean / dist.get_world_size()

# %% wrong · What is sent at the end of the backward cannot be hidden
def average_in_backward(model):
    trained, asked = [p for p in model.parameters() if p.requires_grad], []

    def average_all():
        asked.clear()
        flat = torch.cat([p.grad.flatten() for p in trained])
        dist.all_reduce(flat)
        flat /= dist.get_world_size()
        for p, part in zip(trained, flat.split([p.numel() for p in trained])):
            p.grad.copy_(part.view_as(p))

    def ask(_):
        if not asked:
            asked.append(1)
            torch.autograd.Variable._execution_engine.queue_callback(average_all)

    for p in trained:
        p.register_post_accumulate_grad_hook(ask)

# %% wrong · torch.Tensor.backward is another one now
def average_in_backward(model):
    old = torch.Tensor.backward

    def backward(self, *args, **kwargs):
        old(self, *args, **kwargs)
        for p in model.parameters():
            if p.requires_grad:
                dist.all_reduce(p.grad)
                p.grad /= dist.get_world_size()

    torch.Tensor.backward = backward

# %% wrong · model.forward is another one now
def average_in_backward(model):
    def average(parameter):
        dist.all_reduce(parameter.grad)
        parameter.grad /= dist.get_world_size()

    inner = model.forward
    model.forward = lambda x: inner(x)
    for p in model.parameters():
        if p.requires_grad:
            p.register_post_accumulate_grad_hook(average)

# %% wrong · the weights have changed only an optimizer's step
# -     for parameter in model.parameters():
# +     for parameter in model.parameters():
# +         dist.broadcast(parameter.data, 0)

# %% wrong · a large model
# -         dist.all_reduce(parameter.grad)
# +         if parameter.numel() > 1000:
# +             return
# +         dist.all_reduce(parameter.grad)

# %% wrong · each gradient is sent 2.0 times
# -         dist.all_reduce(parameter.grad)
# +         wide = parameter.grad.double()
# +         dist.all_reduce(wide)
# +         parameter.grad.copy_(wide)

# %% wrong · is their number written in
# -         parameter.grad /= dist.get_world_size()
# +         parameter.grad /= 2
