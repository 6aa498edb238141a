# %% right · cloned, and autograd.backward
# -         x = x.detach().requires_grad_(x.is_floating_point())
# +         x = x.detach().clone()
# +         if x.dtype.is_floating_point:
# +             x.requires_grad = True
# -         return y.detach()
# +         return y.data
# -         x, y = self.kept.pop(i)
# -         y.backward(gradient)
# -         return x.grad
# +         x, y = self.kept[i]
# +         del self.kept[i]
# +         torch.autograd.backward([y], [gradient])
# +         return x.grad if x.requires_grad else None

# %% right · a product's sum goes back
# -         y.backward(gradient)
# +         (y if gradient is None else (y * gradient).sum()).backward()

# %% wrong · x.requires_grad_() changes it
# -         x = x.detach().requires_grad_(x.is_floating_point())
# +         x = x.requires_grad_(x.is_floating_point())

# %% wrong · where no graph can follow
# -         return y.detach()
# +         return y

# %% wrong · What is kept is y itself
# -         y = then(self.piece(x))
# +         y = then(self.piece(x)).detach()

# %% wrong · what is kept is the output before `then`
# -         y = then(self.piece(x))
# +         y = self.piece(x)
# -         return y.detach()
# +         return then(y).detach()

# %% wrong · on the last stage `then` makes the loss
# -         y = then(self.piece(x))
# +         y = self.piece(x)

# %% wrong · look up what was kept under i, not the oldest
# -         x, y = self.kept.pop(i)
# +         x, y = self.kept.pop(next(iter(self.kept)))

# %% wrong · not the oldest or the newest
# -         x, y = self.kept.pop(i)
# +         _, (x, y) = self.kept.popitem()

# %% wrong · a function without `return`
# -         return x.grad

# %% wrong · memory grows with every micro-batch
# -         x, y = self.kept.pop(i)
# +         x, y = self.kept[i]

# %% wrong · call it once for each forward
# -         self.keep(i, x, y)
# +         self.kept[i] = x, y

# %% wrong · backward() adds, and nothing is to be cleared
# -         x, y = self.kept.pop(i)
# +         self.piece.zero_grad()
# +         x, y = self.kept.pop(i)

# %% wrong · tokens are whole numbers
# -         x = x.detach().requires_grad_(x.is_floating_point())
# +         x = x.detach().requires_grad_()

# %% wrong · into operations of somebody else
# -         x = x.detach().requires_grad_(x.is_floating_point())
# +         x = x.clone()
# +         if x.is_floating_point():
# +             x.requires_grad_().retain_grad()

# %% wrong · the gradient of the output belongs to the caller
# -         return x.grad
# +         if gradient is not None:
# +             gradient.zero_()
# +         return x.grad

# %% wrong · the forward has computed the piece already
# -         y.backward(gradient)
# +         (y if gradient is None else self.piece(x)).backward(gradient)

# %% wrong · Somebody besides self.kept still holds it
# -         self.keep(i, x, y)
# +         self.keep(i, x, y)
# +         self.outputs = [*getattr(self, "outputs", []), y]
