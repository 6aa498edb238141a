# %% right · scaled losses
# -         loss = loss_fn(model(inputs), targets)
# -         (loss / every).backward()
# +         (loss_fn(model(inputs), targets) / every).backward()

# %% right · scaled gradients
def train_accumulated(model, loss_fn, micro_batches, optimizer, every):
    for first in range(0, len(micro_batches), every):
        optimizer.zero_grad(set_to_none=False)
        for inputs, targets in micro_batches[first : first + every]:
            loss_fn(model(inputs), targets).backward()
        for parameter in model.parameters():
            parameter.grad /= every
        optimizer.step()
    optimizer.zero_grad(set_to_none=False)

# %% wrong · one backward for each micro-batch
def train_accumulated(model, loss_fn, micro_batches, optimizer, every):
    for first in range(0, len(micro_batches), every):
        some = micro_batches[first : first + every]
        sum(loss_fn(model(inputs), targets) / every for inputs, targets in some).backward()
        optimizer.step()
        optimizer.zero_grad()

# %% wrong · one backward for each micro-batch
def train_accumulated(model, loss_fn, micro_batches, optimizer, every):
    for first in range(0, len(micro_batches), every):
        inputs, targets = map(torch.cat, zip(*micro_batches[first : first + every]))
        loss_fn(model(inputs), targets).backward()
        optimizer.step()
        optimizer.zero_grad()

# %% wrong · the gradients are summed
# -         (loss / every).backward()
# +         loss.backward()

# %% wrong · divided by `every`: zero_grad()
# -     for number, (inputs, targets) in enumerate(micro_batches, 1):
# +     for number, (inputs, targets) in enumerate(micro_batches, 1):
# +         optimizer.zero_grad()

# %% wrong · nothing has moved: is there a backward()
def train_accumulated(model, loss_fn, micro_batches, optimizer, every):
    pass

# %% wrong · you clear before the step
def train_accumulated(model, loss_fn, micro_batches, optimizer, every):
    for number, (inputs, targets) in enumerate(micro_batches, 1):
        loss = loss_fn(model(inputs), targets)
        (loss / every).backward()
        if number % every == 0:
            optimizer.zero_grad()
            optimizer.step()

# %% wrong · belong together
# -         (loss / every).backward()
# +         (loss / every).backward()
# +         optimizer.step()
# -             optimizer.step()

# %% right · closure
def train_accumulated(model, loss_fn, micro_batches, optimizer, every):
    for first in range(0, len(micro_batches), every):
        def closure():
            optimizer.zero_grad()
            total = 0
            for inputs, targets in micro_batches[first : first + every]:
                loss = loss_fn(model(inputs), targets) / every
                loss.backward()
                total += loss.item()
            return total
        optimizer.step(closure)
    optimizer.zero_grad()

# %% right · gradients by autograd.grad, put into .grad
def train_accumulated(model, loss_fn, micro_batches, optimizer, every):
    parameters = list(model.parameters())
    for first in range(0, len(micro_batches), every):
        for parameter in parameters:
            parameter.grad = torch.zeros_like(parameter)
        for inputs, targets in micro_batches[first : first + every]:
            for p, g in zip(parameters, torch.autograd.grad(loss_fn(model(inputs), targets), parameters)):
                p.grad += g / every
        optimizer.step()
        optimizer.zero_grad()

# %% right · consumes its list
def train_accumulated(model, loss_fn, micro_batches, optimizer, every):
    micro_batches = list(micro_batches)
    while micro_batches:
        for _ in range(every):
            inputs, targets = micro_batches.pop(0)
            (loss_fn(model(inputs), targets) / every).backward()
        optimizer.step()
        optimizer.zero_grad()

# %% wrong · clear after the last step
def train_accumulated(model, loss_fn, micro_batches, optimizer, every):
    for number, (inputs, targets) in enumerate(micro_batches):
        if number % every == 0:
            optimizer.zero_grad()
        (loss_fn(model(inputs), targets) / every).backward()
        if number % every == every - 1:
            optimizer.step()

# %% wrong · Adam would not notice
def train_accumulated(model, loss_fn, micro_batches, optimizer, every):
    for group in optimizer.param_groups:
        group["lr"] /= every
    for number, (inputs, targets) in enumerate(micro_batches, 1):
        loss_fn(model(inputs), targets).backward()
        if number % every == 0:
            optimizer.step()
            optimizer.zero_grad()

# %% wrong · 12 forwards and 6 backwards
def train_accumulated(model, loss_fn, micro_batches, optimizer, every):
    for number, (inputs, targets) in enumerate(micro_batches, 1):
        (loss_fn(model(inputs), targets) / every).backward()
        with torch.no_grad():
            print(loss_fn(model(inputs), targets).item())
        if number % every == 0:
            optimizer.step()
            optimizer.zero_grad()

# %% wrong · 6 forwards and 12 backwards
def train_accumulated(model, loss_fn, micro_batches, optimizer, every):
    for number, (inputs, targets) in enumerate(micro_batches, 1):
        loss = loss_fn(model(inputs), targets) / every / 2
        loss.backward(retain_graph=True)
        loss.backward()
        del loss
        if number % every == 0:
            optimizer.step()
            optimizer.zero_grad()

# %% wrong · what costs time
def train_accumulated(model, loss_fn, micro_batches, optimizer, every):
    for number, (inputs, targets) in enumerate(micro_batches, 1):
        for i in range(len(inputs)):
            (loss_fn(model(inputs[i : i + 1]), targets[i : i + 1]) / every / len(inputs)).backward()
        if number % every == 0:
            optimizer.step()
            optimizer.zero_grad()

# %% wrong · belongs to the caller
def train_accumulated(model, loss_fn, micro_batches, optimizer, every):
    while micro_batches:
        for _ in range(every):
            inputs, targets = micro_batches.pop(0)
            (loss_fn(model(inputs), targets) / every).backward()
        optimizer.step()
        optimizer.zero_grad()

# %% wrong · is it loss_fn that you call
import torch.nn.functional as F
def train_accumulated(model, loss_fn, micro_batches, optimizer, every):
    for number, (inputs, targets) in enumerate(micro_batches, 1):
        (F.mse_loss(model(inputs), targets) / every).backward()
        if number % every == 0:
            optimizer.step()
            optimizer.zero_grad()

# %% wrong · was not what moved them
def train_accumulated(model, loss_fn, micro_batches, optimizer, every):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for number, (inputs, targets) in enumerate(micro_batches, 1):
        (loss_fn(model(inputs), targets) / every).backward()
        if number % every == 0:
            optimizer.step()
            optimizer.zero_grad()

# %% wrong · never come to a step
def train_accumulated(model, loss_fn, micro_batches, optimizer, every):
    for number, (inputs, targets) in enumerate(micro_batches):
        if number and number % every == 0:
            optimizer.step()
            optimizer.zero_grad()
        (loss_fn(model(inputs), targets) / every).backward()
