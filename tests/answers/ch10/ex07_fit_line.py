# %% right · with numpy
import numpy as np
def fit_line(sizes, seconds):
    slope, latency = np.polyfit(sizes, seconds, 1)
    return latency, 1 / slope

# %% right · by hand
def fit_line(sizes, seconds):
    n = len(sizes)
    mean_x, mean_y = sum(sizes) / n, sum(seconds) / n
    over = sum((x - mean_x) * (y - mean_y) for x, y in zip(sizes, seconds))
    slope = over / sum((x - mean_x) ** 2 for x in sizes)
    return [mean_y - slope * mean_x, 1 / slope]

# %% right · least squares of a matrix
import numpy as np
def fit_line(sizes, seconds):
    a = np.stack([np.ones(len(sizes)), np.array(sizes, float)], 1)
    found = np.linalg.lstsq(a, np.array(seconds), rcond=None)[0]
    return found[0], 1 / found[1]

# %% wrong · asked are bytes for a second
import numpy as np
def fit_line(sizes, seconds):
    slope, latency = np.polyfit(sizes, seconds, 1)
    return latency, slope

# %% wrong · in the other order
import numpy as np
def fit_line(sizes, seconds):
    slope, latency = np.polyfit(sizes, seconds, 1)
    return 1 / slope, latency
