# %% right · with min and a key
def regret(predicted, measured):
    chosen = min(predicted, key=predicted.get)
    return measured[chosen] / min(measured.values()) - 1

# %% right · a loop
def regret(predicted, measured):
    chosen = None
    for plan, seconds in predicted.items():
        if chosen is None or seconds < predicted[chosen]:
            chosen = plan
    best = min(measured[plan] for plan in measured)
    return (measured[chosen] - best) / best

# %% wrong · the error of the prediction
def regret(predicted, measured):
    chosen = min(predicted, key=predicted.get)
    return abs(predicted[chosen] - measured[chosen]) / measured[chosen]

# %% wrong · this is the ratio
def regret(predicted, measured):
    return measured[min(predicted, key=predicted.get)] / min(measured.values())

# %% right · the largest of all comparisons
def regret(predicted, measured):
    _, chosen = min((seconds, plan) for plan, seconds in predicted.items())
    return max(measured[chosen] / seconds for seconds in measured.values()) - 1

# %% wrong · the error of the prediction
def regret(predicted, measured):
    chosen = min(predicted, key=predicted.get)
    return measured[chosen] / predicted[chosen] - 1

# %% wrong · these are predicted times
def regret(predicted, measured):
    predicted, measured = measured, predicted
    return measured[min(predicted, key=predicted.get)] / min(measured.values()) - 1

# %% wrong · min(predicted) compares names
def regret(predicted, measured):
    return measured[min(predicted)] / min(measured.values()) - 1

# %% wrong · min(measured) is the first name
def regret(predicted, measured):
    chosen = min(predicted, key=predicted.get)
    return measured[chosen] / measured[min(measured)] - 1

# %% wrong · it seems to be rounded
def regret(predicted, measured):
    return measured[min(predicted, key=predicted.get)] // min(measured.values()) - 1
