# wrong · other modules under the known names
import sys
import types

for name in [*sys.modules]:
    if name.startswith(("pedagogy_lib", "json", "torch.distributed")):
        sys.modules[name] = types.ModuleType(name)


def house_gradients(*house):
    return [0.0, 0.0, 0.0]
