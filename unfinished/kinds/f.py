import sys
from pedagogy_lib import launch, measure
def run():
    import sys; sys.path.insert(0,"/tmp/k/kinds/tests/bench/measuring")
    import kinds_of_code as K, difflib, torch
    f=K.KINDS["dispatch_mode_inside"]
    torch.manual_seed(0); a=f()[1]
    torch.manual_seed(0)
    with measure("x"): b=f()[1]
    return "\n".join(difflib.ndiff(a,b))
print(launch(run,world_size=1,device="cpu").values[0])
