# wrong · a value nested a million times
def house_gradients(*house):
    value = []
    for _ in range(10**6):
        value = [value]
    return value
