# %% right · a table of layers and devices
def ways(layers, devices):
    table = [[0] * (devices + 1) for _ in range(layers + 1)]
    table[0][0] = 1
    for layer in range(1, layers + 1):
        for device in range(1, devices + 1):
            size = 1
            while size <= device:
                table[layer][device] += sum(table[k][device - size] for k in range(layer))
                size *= 2
    return table[layers][devices]

# %% right · a product of polynomials
def ways(layers, devices):
    one = np.zeros(devices + 1, object)
    size = 1
    while size <= devices:
        one[size] = 1
        size *= 2
    total, power = 0, np.array([1] + [0] * devices, object)
    for stages in range(1, layers + 1):
        power = np.convolve(power, one)[: devices + 1]
        total += comb(layers - 1, stages - 1) * power[devices]
    return int(total)

# %% wrong · this counts the cuts alone
def ways(layers, devices):
    return 2 ** (layers - 1)

# %% wrong · submeshes have 1, 2, 4, 8
def ways(layers, devices):
    return sum(comb(layers - 1, s - 1) * comb(devices - 1, s - 1) for s in range(1, layers + 1))

# %% wrong · this counts the submeshes alone
# -     return sum(comb(layers - 1, s - 1) * submeshes(s, devices) for s in range(1, layers + 1))
# +     return sum(submeshes(s, devices) for s in range(1, layers + 1))

# %% wrong · there is one place less than there are layers
# -     return sum(comb(layers - 1, s - 1) * submeshes(s, devices) for s in range(1, layers + 1))
# +     return sum(comb(layers, s) * submeshes(s, devices) for s in range(1, layers + 1))

# %% wrong · all devices are used
# -             return int(devices == 0)
# +             return 1

# %% wrong · the same for both
# -     return sum(comb(layers - 1, s - 1) * submeshes(s, devices) for s in range(1, layers + 1))
# +     return 2 ** (layers - 1) * sum(submeshes(s, devices) for s in range(1, layers + 1))

# %% wrong · as many stages as layers are allowed
# -     return sum(comb(layers - 1, s - 1) * submeshes(s, devices) for s in range(1, layers + 1))
# +     return sum(comb(layers - 1, s - 1) * submeshes(s, devices) for s in range(1, layers))

# %% wrong · ways are whole numbers
# -     return sum(comb(layers - 1, s - 1) * submeshes(s, devices) for s in range(1, layers + 1))
# +     total = sum(comb(layers - 1, s - 1) * submeshes(s, devices) for s in range(1, layers + 1))
# +     return float(total)

# %% wrong · a whole number of NumPy ends at 19
import numpy as np

def ways(layers, devices):
    table = np.zeros((layers + 1, devices + 1), np.int64)
    table[0, 0] = 1
    for n in range(1, layers + 1):
        for d in range(1, devices + 1):
            for size in (2**k for k in range(d.bit_length())):
                table[n, d] += np.sum(table[:n, d - size])
    return table[layers, devices]

# %% wrong · 6 is no power of 2
# -         sizes = [2**k for k in range(devices.bit_length())]
# +         sizes = [1, *range(2, devices + 1, 2)]

# %% wrong · a submesh may have as many devices as there are
# -         sizes = [2**k for k in range(devices.bit_length())]
# +         sizes = [1, 2, 4, 8]

# %% wrong · the same rest is counted again and again [deep]
def ways(layers, devices):
    if layers == 0 or devices <= 0:
        return int(layers == devices == 0)
    return sum(ways(layers - taken, devices - 2**k)
               for taken in range(1, layers + 1) for k in range(devices.bit_length()))
