# %% right · one sum that goes back
# -     torch.autograd.backward([y1, key], [slope1, seen.grad])
# +     ((y1 * slope1).sum() + (key * seen.grad).sum()).backward()

# %% right · gradients asked for
# -     y2.backward(slope2)
# -     torch.autograd.backward([y1, key], [slope1, seen.grad])
# -     return x1.grad, x2.grad
# +     of_x2, of_seen = torch.autograd.grad(y2, [x2, seen], slope2)
# +     (of_x1,) = torch.autograd.grad([y1, key], [x1], [slope1, of_seen])
# +     return of_x1, of_x2

# %% wrong · x1 has the gradient through its output alone
# -     torch.autograd.backward([y1, key], [slope1, seen.grad])
# +     y1.backward(slope1)

# %% wrong · that is gone after the first backward
# -     torch.autograd.backward([y1, key], [slope1, seen.grad])
# +     y1.backward(slope1)
# +     key.backward(seen.grad)

# %% wrong · needs no retain_graph
# -     torch.autograd.backward([y1, key], [slope1, seen.grad])
# +     y1.backward(slope1, retain_graph=True)
# +     key.backward(seen.grad)

# %% wrong · has gone back: that one comes first
# -     y2.backward(slope2)
# -     torch.autograd.backward([y1, key], [slope1, seen.grad])
# +     torch.autograd.backward([y1, key], [slope1, seen.grad])
# +     y2.backward(slope2)

# %% wrong · the key goes back with the slope of an output
# -     torch.autograd.backward([y1, key], [slope1, seen.grad])
# +     torch.autograd.backward([y1, key], [slope1, slope1])

# %% wrong · both can go back only together
# -     seen = key.detach().requires_grad_()  # the same numbers, as a leaf
# +     seen = key

# %% wrong · `seen` is where a gradient ends
# -     torch.autograd.backward([y1, key], [slope1, seen.grad])
# +     torch.autograd.backward([y1, key.detach()], [slope1, seen.grad])

# %% wrong · the two are swapped
# -     return x1.grad, x2.grad
# +     return x2.grad, x1.grad

# %% wrong · an output goes back with a gradient of 1
# -     torch.autograd.backward([y1, key], [slope1, seen.grad])
# +     torch.autograd.backward([y1, key], [torch.ones_like(y1), seen.grad])

# %% wrong · through its output alone
# -     torch.autograd.backward([y1, key], [slope1, seen.grad])
# +     torch.autograd.backward([y1, seen], [slope1, seen.grad])

# %% wrong · added as it is. It has to go back
# -     torch.autograd.backward([y1, key], [slope1, seen.grad])
# -     return x1.grad, x2.grad
# +     y1.backward(slope1)
# +     return x1.grad + seen.grad, x2.grad

# %% wrong · belong to the caller
# -     x1, x2 = (x.detach().requires_grad_() for x in (x1, x2))
# +     x1, x2 = (x.requires_grad_() for x in (x1, x2))

# %% wrong · a function without `return`
# -     return x1.grad, x2.grad
