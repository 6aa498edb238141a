# wrong · a value that contains itself [early]
def house_gradients(*house):
    value = honest(*house)
    value.append(value)
    return value
