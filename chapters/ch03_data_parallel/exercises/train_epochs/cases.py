"""The cases, and the code that runs next to the answer."""

import torch.distributed as dist
import torch.nn.functional as F
from torch.utils.data import Dataset

from coursekit.kit import Rejection, measure_answer
from coursekit.kit.reference_training import batch_of, flat, model_of

from ..shared.state_snapshot import StateSnapshot

EPOCHS = 3

EVALUATED = (
    "the forwards of the training are in evaluation mode",
    "dropout and BatchNorm compute something else then: a model that is trained is in training "
    "mode, as the one that was given",
)


class Samples(Dataset):
    """A dataset that counts how many samples are read."""

    def __init__(self, length):
        self.inputs, self.labels = batch_of(0, 0, size=length)
        self.read = 0

    def __len__(self):
        return len(self.inputs)

    def __getitem__(self, index):
        labels = self.labels[index]
        self.read += labels.numel()
        return self.inputs[index], labels


def train(answer, group, case):
    """Return the samples of each step, the number of samples read and the final weights."""
    length, samples = case.args
    model, dataset, batches, modes = model_of(dist.get_rank()), Samples(length), [], []
    alone = StateSnapshot(model, [dataset.inputs, dataset.labels], seed=False)

    def loss_fn(outputs, labels):
        if labels.requires_grad:
            what, why = "loss_fn gets outputs of the model as labels", "loss_fn(outputs, labels)"
            raise Rejection(what, f"the order is {why}: what the model gives comes first")
        modes.append(model.training)
        distances = labels.detach().reshape(-1, 1) - dataset.labels.view(1, -1)
        batches.append(distances.abs().argmin(1).tolist())
        return F.mse_loss(outputs, labels)

    with measure_answer():
        answer(model, dataset, loss_fn, EPOCHS, samples)
    touched = ([] if all(modes) else [EVALUATED]) + alone.find_changes()
    return {"batches": batches, "read": dataset.read, "weights": flat(model.parameters()),
            "touched": touched}  # fmt: skip
