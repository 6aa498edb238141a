# Built from chapters/ch10_choosing_a_strategy/labs/own_models.py by `make build`.
"""A model's shape from a text: a name, a config.json, or a Python file that makes the model.

python labs/own_models.py llama-3-70b path/to/config.json model.py:make_model
"""

import importlib.util
import sys
import traceback
from pathlib import Path

from model_configs import shape_of_config
from model_shapes import Shape, model_named


def load_module(path: Path, name: str):
    """Run a Python file, and return the nn.Module that what it calls `name` makes on "meta".

    Raises  ValueError, in one sentence with the file and the line, for any error
    """
    import torch  # which takes longer to import than all plans take to make
    from torch import nn

    spec = importlib.util.spec_from_file_location(path.stem, path)
    file = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(path.parent))
    try:
        with torch.device("meta"):
            spec.loader.exec_module(file)
            make = getattr(file, name, None)
            model = make() if callable(make) and not isinstance(make, nn.Module) else make
    except (Exception, SystemExit) as error:
        lines = [f.lineno for f in traceback.extract_tb(error.__traceback__)
                 if Path(f.filename) == path]  # fmt: skip
        line = getattr(error, "lineno", None) or (lines or [1])[-1]
        said = str(error).partition("\n")[0]
        raise ValueError(f"{path}:{line}: {type(error).__name__}: {said}") from error
    finally:
        sys.path.remove(str(path.parent))
    if not isinstance(model, nn.Module):
        raise ValueError(f"{path} has no {name} that makes an nn.Module without arguments")
    return model


def shape_from(text, context=None) -> Shape:
    """Return the shape of a model that a text names.

    text     "llama-3-70b", a name of labs/model_shapes.py; "config.json", or a folder with it; or
             "model.py:make_model", a file and a function or class in it, which gets no arguments
    context  tokens in a training sample, if it should be another number
    Raises   ValueError, in one sentence
    """
    text = str(text)
    file, _, name = text.rpartition(":")
    if file.endswith(".py") and name.isidentifier():
        if not Path(file).is_file():
            raise ValueError(f"{file} does not exist")
        from model_modules import shape_of_module

        return shape_of_module(load_module(Path(file).resolve(), name), context)
    if text.endswith(".py"):
        raise ValueError(f'say what makes the model in {text}, as in "{text}:make_model"')
    if text.endswith(".json") or Path(text).is_dir():
        return shape_of_config(text, context)
    try:
        return model_named(text, **{"context": context} if context else {})
    except ValueError as error:
        raise ValueError(f"{error}; or give a config.json, or model.py:make_model") from None


def main():
    for text in sys.argv[1:] or ["llama-3-70b"]:
        try:
            shape = shape_from(text)
        except ValueError as error:
            print(error)
            continue
        print(f"{text}: {int(shape.parameters):,} parameters, of which a token uses "
              f"{int(shape.active_parameters):,}")  # fmt: skip


if __name__ == "__main__":
    main()
