# wrong · a value that grows when it is written down
def house_gradients(*house):
    value = ["x" * 100]
    for _ in range(40):
        value = [value, value]
    return value
