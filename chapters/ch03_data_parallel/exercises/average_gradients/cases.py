"""The argument of the answer."""


def whole_model(model):
    return model
