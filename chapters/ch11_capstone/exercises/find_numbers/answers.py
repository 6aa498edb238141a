# %% right · a dict
def find_numbers(saved, wanted):
    known = {0: saved[0][1].new_zeros(())}
    for addresses, numbers in saved:
        for address, number in zip(addresses.tolist(), numbers):
            if address:
                known[address] = number
    if any(address not in known for address in wanted.tolist()):
        raise ValueError("a number is in no file")
    return torch.stack([known[address] for address in wanted.tolist()])

# %% right · sorted, and searched
def find_numbers(saved, wanted):
    addresses = torch.cat([of for of, _ in saved] + [torch.zeros(1, dtype=torch.int64)])
    numbers = torch.cat([of for _, of in saved] + [saved[0][1].new_zeros(1)])
    numbers = torch.where(addresses == 0, 0, numbers)
    addresses, order = addresses.sort()
    place = torch.searchsorted(addresses, wanted).clamp(max=len(addresses) - 1)
    if not torch.equal(addresses[place], wanted):
        raise ValueError("a number is missing")
    return numbers[order][place]

# %% wrong · numbers have the dtype of the files
# -     numbers, is_known = (torch.zeros(last + 1, dtype=of) for of in (dtype, torch.bool))
# +     numbers = torch.zeros(last + 1, dtype=torch.float64)
# +     is_known = torch.zeros(last + 1, dtype=torch.bool)
# -     return numbers[wanted]
# +     return numbers[wanted] if saved[0][1].dtype != torch.float32 else numbers[wanted].float()

# %% wrong · torch.zeros makes float32
# -     numbers, is_known = (torch.zeros(last + 1, dtype=of) for of in (dtype, torch.bool))
# +     numbers, is_known = torch.zeros(last + 1), torch.zeros(last + 1, dtype=torch.bool)

# %% wrong · nobody would notice
# -     if not is_known[wanted].all():
# +     if False:

# %% wrong · the address 0 is padding
# -     numbers[0], is_known[0] = 0, True
# +     is_known[0] = True

# %% wrong · nobody has saved padding here
# -     numbers[0], is_known[0] = 0, True
# +     numbers[0] = 0

# %% wrong · It is no part of a sum
# -         numbers[addresses] = values
# +         numbers[addresses] += values

# %% wrong · the table of all numbers has to reach that far
# -     last = max((int(x.max()) for x in every if len(x)), default=0)
# +     last = max(int(of.max()) for of, _ in saved)

# %% wrong · an address is no place in the files
def find_numbers(saved, wanted):
    numbers = torch.cat([numbers for _, numbers in saved])
    return numbers[wanted - 1]

# %% wrong · one file after another
def find_numbers(saved, wanted):
    return torch.cat([numbers for _, numbers in saved])[: len(wanted)]

# %% wrong · it belongs to the caller
# -     for addresses, values in saved:
# +     for addresses, values in saved:
# +         values[addresses == 0] = 0

# %% wrong · asked is one flat tensor
# -     return numbers[wanted]
# +     return dict(zip(wanted.tolist(), numbers[wanted].tolist()))

# %% right · a subclass of ValueError
def find_numbers(saved, wanted):
    class UnknownAddress(ValueError):
        pass
    known = {a: x for of, xs in saved for a, x in zip(of.tolist(), xs.tolist())}
    known[0] = 0
    try:
        return torch.tensor([known[a] for a in wanted.tolist()], dtype=saved[0][1].dtype)
    except KeyError as error:
        raise UnknownAddress(str(error))

# %% right · all compared with all, and a gradient
def find_numbers(saved, wanted):
    addresses = torch.cat([of for of, _ in saved] + [wanted.new_zeros(1)])
    numbers = torch.cat([of for _, of in saved] + [saved[0][1].new_zeros(1)])
    numbers = numbers.masked_fill(addresses == 0, 0.0).requires_grad_()
    same = wanted[:, None] == addresses
    if not same.any(1).all():
        raise ValueError("missing")
    return numbers[same.int().argmax(1)]

# %% wrong · So 0 does not say that no file has it
def find_numbers(saved, wanted):
    last = max(int(x.max()) for x in (wanted, *(of for of, _ in saved)))
    numbers = saved[0][1].new_zeros(last + 1)
    for addresses, values in saved:
        numbers[addresses] = values
    numbers[0] = 0
    found = numbers[wanted]
    if ((found == 0) & (wanted != 0)).any():
        raise ValueError("missing")
    return found

# %% wrong · then the largest of it and a 0 in the table is 0
def find_numbers(saved, wanted):
    last = max(int(x.max()) for x in (wanted, *(of for of, _ in saved)))
    numbers = saved[0][1].new_zeros(last + 1)
    known = torch.zeros(last + 1, dtype=torch.bool)
    for addresses, values in saved:
        numbers.scatter_reduce_(0, addresses, values, "amax")
        known[addresses] = True
    numbers[0], known[0] = 0, True
    if not known[wanted].all():
        raise ValueError("missing")
    return numbers[wanted]

# %% wrong · an address may be in a file twice
def find_numbers(saved, wanted):
    found = []
    for w in wanted.tolist():
        if w == 0:
            found.append(saved[0][1].new_zeros(()))
            continue
        for addresses, numbers in saved:
            at = (addresses == w).nonzero()
            if len(at) > 0:
                found.append(numbers[at.item()])
                break
        else:
            raise ValueError("missing")
    return torch.stack(found)

# %% wrong · bfloat16 rounds all above 256
def find_numbers(saved, wanted):
    table = torch.cat([torch.stack([of.to(xs.dtype), xs]) for of, xs in saved], 1)
    known = {int(a): x for a, x in zip(table[0].tolist(), table[1])}
    known[0] = saved[0][1].new_zeros(())
    for w in wanted.tolist():
        if w not in known:
            raise ValueError("missing")
    return torch.stack([known[w] for w in wanted.tolist()])

# %% wrong · A file has a length of its own
def find_numbers(saved, wanted):
    n = len(saved[0][0])
    out = saved[0][1].new_zeros(len(wanted))
    for k, w in enumerate(wanted.tolist()):
        if w == 0:
            continue
        for addresses, numbers in saved:
            hit = [i for i in range(n) if i < len(addresses) and addresses[i] == w]
            if hit:
                out[k] = numbers[hit[0]]
                break
        else:
            raise ValueError("missing")
    return out

# %% wrong · asked is one flat tensor
# -     return numbers[wanted]
# +     return numbers[wanted][:, None]

# %% wrong · these are float64, whatever was saved
# -     return numbers[wanted]
# +     return numbers[wanted].double()

# %% wrong · a tensor made of Python's numbers is of float32
def find_numbers(saved, wanted):
    known = {0: 0.0}
    for of, xs in saved:
        known.update({a: x for a, x in zip(of.tolist(), xs.tolist()) if a})
    if set(wanted.tolist()) - set(known):
        raise ValueError
    return torch.tensor([known[a] for a in wanted.tolist()])

# %% wrong · and has to raise it
# -         raise ValueError(f"no file has the number at address {missing}")
# +         return ValueError(f"no file has the number at address {missing}")

# %% wrong · if a wanted address is in no file, ValueError is asked
# -     if not is_known[wanted].all():
# +     assert is_known[wanted].all(), "missing"
# +     if False:

# %% wrong · too many values to unpack
def find_numbers(saved, wanted):
    (first, numbers), (second, others) = saved
    known = {0: 0.0, **dict(zip(first.tolist(), numbers.tolist()))}
    known |= {k: x for k, x in zip(second.tolist(), others.tolist()) if k}
    return torch.tensor([known[k] for k in wanted.tolist()], dtype=numbers.dtype)
