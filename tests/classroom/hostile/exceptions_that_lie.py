# wrong · an error whose text and class are its own
class Strange(BaseException):
    def __str__(self):
        raise SystemExit(0)

    __repr__ = __str__

    @property
    def __traceback__(self):
        raise KeyboardInterrupt


def house_gradients(*house):
    raise Strange
