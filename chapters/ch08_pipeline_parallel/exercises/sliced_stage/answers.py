# %% right · in two lists of their own
# -         outputs, gradients = [y], [gradient]
# +         pairs = [(y, gradient)]
# -             for made, seen in zip(past.made[i], past.seen[i]):
# -                 if seen.grad is not None:
# -                     outputs.append(made)
# -                     gradients.append(seen.grad)
# -         torch.autograd.backward(outputs, gradients)
# +             made, seen = past.made.pop(), past.seen.pop()
# +             pairs += [(m, s.grad) for m, s in zip(made, seen) if s.grad is not None]
# +         torch.autograd.backward(*map(list, zip(*pairs)))

# %% right · zeros for None, and a product
# -         outputs, gradients = [y], [gradient]
# +         total = y if gradient is None else (y * gradient).sum()
# -             for made, seen in zip(past.made[i], past.seen[i]):
# -                 if seen.grad is not None:
# -                     outputs.append(made)
# -                     gradients.append(seen.grad)
# -         torch.autograd.backward(outputs, gradients)
# +             for j in (0, 1):
# +                 got = past.seen[i][j].grad
# +                 if got is not None:
# +                     total = total + (past.made[i][j] * got).sum()
# +         total.backward()

# %% wrong · y's backward alone
# -         outputs, gradients = [y], [gradient]
# -         for past in self.pasts.values():
# -             for made, seen in zip(past.made[i], past.seen[i]):
# -                 if seen.grad is not None:
# -                     outputs.append(made)
# -                     gradients.append(seen.grad)
# -         torch.autograd.backward(outputs, gradients)
# +         y.backward(gradient)

# %% wrong · are leaves
# -                     outputs.append(made)
# +                     outputs.append(seen)

# %% wrong · come in their own turn
# -             for made, seen in zip(past.made[i], past.seen[i]):
# +             for made, seen in zip(sum(past.made, ()), sum(past.seen, ())):

# %% wrong · that is gone after the first backward
# -         outputs, gradients = [y], [gradient]
# +         y.backward(gradient)
# +         outputs, gradients = [], []
# -         torch.autograd.backward(outputs, gradients)
# +         if outputs:
# +             torch.autograd.backward(outputs, gradients)

# %% wrong · leave an output out
# -                 if seen.grad is not None:
# +                 if True:

# %% wrong · all gradients are there twice
# -         outputs, gradients = [y], [gradient]
# +         y.backward(gradient, retain_graph=True)
# +         outputs, gradients = [y], [gradient]

# %% wrong · needs no retain_graph
# -         outputs, gradients = [y], [gradient]
# +         y.backward(gradient, retain_graph=True)
# +         outputs, gradients = [], []
# -         torch.autograd.backward(outputs, gradients)
# +         if outputs:
# +             torch.autograd.backward(outputs, gradients)
