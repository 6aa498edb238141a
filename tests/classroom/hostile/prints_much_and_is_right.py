# right · prints 20 MB, and answers
def house_gradients(*house):
    print("x" * 20_000_000)
    return honest(*house)
