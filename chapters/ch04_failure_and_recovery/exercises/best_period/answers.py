# %% right · the square root of a product
def best_period(saving_seconds, failure_seconds):
    return (2 * saving_seconds * failure_seconds) ** 0.5

# %% right · by looking
def best_period(saving_seconds, failure_seconds):
    low, high = 0.0, failure_seconds * 10
    for _ in range(200):
        third = (high - low) / 3
        cost = lambda period: saving_seconds / period + period / (2 * failure_seconds)
        if cost(low + third) < cost(high - third):
            high -= third
        else:
            low += third
    return low

# %% wrong · it returned None
def best_period(saving_seconds, failure_seconds):
    math.sqrt(2 * saving_seconds * failure_seconds)
