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
