# wrong · a whole number with a million digits
def house_gradients(*house):
    return [10**1_000_000] * 3
