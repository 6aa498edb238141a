# wrong · returns a value of gigabytes
def house_gradients(*house):
    return ["x" * 2**20] * 5000
