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
# -     numbers, is_known = saved[0][1].new_zeros(last + 1), torch.zeros(last + 1, dtype=torch.bool)
# +     numbers = torch.zeros(last + 1, dtype=torch.float64)
# +     is_known = torch.zeros(last + 1, dtype=torch.bool)
# -     return numbers[wanted]
# +     return numbers[wanted] if saved[0][1].dtype != torch.float32 else numbers[wanted].float()

# %% wrong · torch.zeros makes float32
# -     numbers, is_known = saved[0][1].new_zeros(last + 1), torch.zeros(last + 1, dtype=torch.bool)
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
# -     last = max(int(x.max()) for x in (wanted, *(of for of, _ in saved)) if len(x))
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
