# Built from chapters/ch10_choosing_a_strategy/labs/documents_configurations.py by `make build`.
"""Configurations printed on web pages, as data, and what a shell makes of a command line.

python labs/documents_configurations.py
"""

import subprocess

OFFLOADED = {"device": "cpu", "pin_memory": True}
DEEPSPEED = {  # from the page "Distributed Parallelism in Deep Learning"
    "ZeRO 3, offloaded": {
        "zero_optimization": {
            "stage": 3,
            "offload_optimizer": {"device": "cpu"},
            "offload_param": {"device": "cpu"},
            "overlap_comm": True,
            "contiguous_gradients": True,
        }
    },
    "ZeRO 3, more options": {
        "zero_optimization": {
            "stage": 3,
            "offload_optimizer": OFFLOADED,
            "offload_param": OFFLOADED,
            "overlap_comm": True,
            "contiguous_gradients": True,
            "sub_group_size": 1e9,
            "reduce_bucket_size": "auto",
            "stage3_prefetch_bucket_size": "auto",
            "stage3_param_persistence_threshold": "auto",
        },
        "fp16": {"enabled": True, "loss_scale_window": 100},
    },
}
MEGATRON = r"""python train.py \
    --tensor-model-parallel-size 8 \ # TP=8 within node (NVLink)
    --pipeline-model-parallel-size 4 \ # PP=4 across nodes
    --data-parallel-size 2 \ # DP=2 for larger batches
    --micro-batch-size 1 \
    --global-batch-size 1024 \
    --num-layers 80 \
    --hidden-size 8192 \
    --num-attention-heads 64
"""


def parse_python_arguments(line) -> tuple[list[str], str]:
    """Return the words that bash passes to `python` when it runs these lines; nothing else runs.

    A function that prints its words replaces `python`. Where a line begins with another word, bash
    would look for a program of that name, and here it finds none.

    Returns  the words, and bash's first complaint: "" if it has none
    """
    script = "python() { printf '%s\\n' \"$@\"; }\nPATH=/nowhere\n" + line
    done = subprocess.run(["/bin/bash", "-c", script], capture_output=True, text=True, check=False,
                          env={"LC_ALL": "C"})  # fmt: skip
    first, *_ = [*done.stderr.splitlines(), ""]
    return done.stdout.splitlines(), first.rpartition(": ")[2]


def main():
    for line in (MEGATRON, MEGATRON.replace(" (NVLink)", "")):
        words, complaint = parse_python_arguments(line)
        print(f"bash gives {len(words)} words to python: {words}; it says: {complaint}")


if __name__ == "__main__":
    main()
