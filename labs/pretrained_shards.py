# Built from chapters/ch06_zero/labs/pretrained_shards.py by `make build`.
"""Pretrained weights: every rank reads its shards from safetensors files, and no rank reads all.

torchrun --nproc-per-node 2 labs/pretrained_shards.py
"""

import importlib.util
import shutil
import tempfile
from pathlib import Path

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as files
from torch.distributed.checkpoint.state_dict import set_model_state_dict
from train_fsdp2 import FROM_RANK_0, make_model, mesh_for, options_of, shard

HAS_SAFETENSORS = importlib.util.find_spec("safetensors") is not None
NO_SAFETENSORS = (
    "The package safetensors is not installed here: `python3 tools/setup.py` in the course's "
    "folder installs it (half a megabyte). Without it, no weights are read from files."
)
# Ours, and in the file: such as most models on Hugging Face have. The course's layers are fused,
# and no table of prefixes joins matrices that are separate in a file.
PREFIXES = {
    "letters.": "model.embed_tokens.",
    "places.": "model.embed_positions.",
    "blocks.": "model.layers.",
    "norm.": "model.norm.",
    "output.": "lm_head.",
}

# ---- Names ---------------------------------------------------------------------------------------


def rename_for_file(name) -> str:
    """Return the name that a weight of our model has in the files (a "state dict adapter").

    Raises  ValueError if the table of prefixes has none for this name
    """
    for ours, in_file in PREFIXES.items():
        if name.startswith(ours):
            return in_file + name.removeprefix(ours)
    raise ValueError(f"PREFIXES has no name in the files for {name}")


def names_in_files(model) -> dict[str, str]:
    """Return {name: name in the files} of a model's weights; a tied weight has one in the files."""
    first = {}
    return {
        name: first.setdefault(id(weight), rename_for_file(name))
        for name, weight in model.state_dict(keep_vars=True).items()
    }


def write_weights(model, folder):
    """Write a whole model's weights into two safetensors files, under other names."""
    from safetensors.torch import save_file

    weights = model.state_dict()
    named = {to: weights[name].cpu() for name, to in names_in_files(model).items()}
    named, half = list(named.items()), len(named) // 2
    for number, part in enumerate((named[:half], named[half:]), 1):
        save_file(dict(part), Path(folder, f"model-{number:05}-of-00002.safetensors"))


def write_files(folder, words):
    """Write the weights that a model with these options of labs/train_fsdp2.py starts from."""
    torch.manual_seed(0)
    write_weights(make_model(options_of(words)), folder)


# ---- Two ways to read ----------------------------------------------------------------------------


def read_own_shards(model, folder):
    """Fill this rank's shards: it reads its rows of each tensor, and nothing is sent but the plan.

    Raises  RuntimeError or CheckpointException if the files lack a name, or have another shape
    """
    weights = model.state_dict()
    weights = {to: weights[name] for name, to in names_in_files(model).items()}
    files.load(weights, storage_reader=files.HuggingFaceStorageReader(path=str(folder)))


def read_on_rank_0(model, folder):
    """Fill all ranks' shards: rank 0 reads the whole model, and sends each rank its part."""
    from safetensors.torch import load_file

    found, weights = {}, {}
    if dist.get_rank() == 0:
        for path in sorted(Path(folder).glob("*.safetensors")):
            found |= load_file(path)
        weights = {name: found[to] for name, to in names_in_files(model).items()}
    set_model_state_dict(model, weights, options=FROM_RANK_0)


WAYS = {"rank 0 reads all": read_on_rank_0, "every rank reads its part": read_own_shards}


def start_from_shapes(words):
    """Return a sharded model that has memory and no values yet."""
    options, device = options_of(words), torch.get_default_device()
    with torch.device("meta"):
        model = make_model(options)
    shard(model, mesh_for(device.type), options)
    return model.to_empty(device=device)


def read_in_each_way(folder, words) -> tuple[dict[str, bool], int]:
    """Start a sharded model from files in each way; measure it under the way's name.

    Returns  {way: whether all weights are those of the model that was written, bit by bit}, and
             the bytes of that model
    """
    from pedagogy_lib import measure

    equal, models = {}, {way: start_from_shapes(words) for way in WAYS}
    torch.manual_seed(0)
    whole = make_model(options_of(words)).cpu()
    for way, model in models.items():
        with measure(way):
            WAYS[way](model, folder)
        pairs = zip(model.parameters(), whole.parameters(), strict=True)
        equal[way] = all(torch.equal(p.full_tensor().cpu(), q) for p, q in pairs)
    return equal, sum(p.nbytes for p in whole.parameters())


def compare_ways(run) -> list[list]:
    """Return a row for each way of a run of read_in_each_way: name, sent, held, equal.

    "sent" is by rank 0, and "held" is its most memory besides the shards, both in models.
    """
    equal, model_bytes = run.values[0]
    rows = []
    for way in WAYS:
        peak = run[way].peak_bytes[0]
        held = (peak["total"] - peak["parameters"]) / model_bytes
        rows.append([way, f"{run[way].sent_bytes[0] / model_bytes:.2f}", f"{held:.2f}", equal[way]])
    return rows


def write_and_read() -> dict[str, bool]:
    """Write files on rank 0 into a folder that all ranks of this machine see, and read them."""
    folder = [tempfile.mkdtemp() if dist.get_rank() == 0 else None]
    dist.broadcast_object_list(folder)
    if dist.get_rank() == 0:
        write_files(folder[0], [])
    dist.barrier()
    equal, _ = read_in_each_way(folder[0], [])
    if dist.get_rank() == 0:
        shutil.rmtree(folder[0])
    return equal


# ---- The program ---------------------------------------------------------------------------------


def main():
    from pedagogy_lib import launch
    from pedagogy_lib.unwritten import misses_something

    if misses_something(__file__):
        return
    if not HAS_SAFETENSORS:
        print(NO_SAFETENSORS)
        return
    run = launch(write_and_read, world_size=2)
    if run.rank == 0:
        for way, equal in run.values[0].items():
            print(f"{way}: as in the files: {equal}")


if __name__ == "__main__":
    main()
