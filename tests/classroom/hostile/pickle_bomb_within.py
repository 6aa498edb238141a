# wrong · the same within lists, dictionaries and tensors
import torch


class Bomb:
    def __reduce__(self):
        return exec, (f"open({SECRETS + '/new'!r}, 'w')",)


def house_gradients(*house):
    tensor = torch.ones(3)
    tensor.more = Bomb()
    return [{"x": (Bomb(), tensor)}, Bomb(), tensor]
