"""Windows of bases to tensors."""

import torch


class NextBase:
    fields = ("bases",)

    def __init__(self, length):
        self.window = {"length": length + 1, "stride": length, "mode": "never"}

    def __call__(self, rows, draws):
        bases = torch.from_numpy(rows["bases"].astype("int64"))  # (batch, length + 1)
        return {"inputs": bases[:, :-1], "targets": bases[:, 1:]}


def make_reading(store_attributes, section):
    return NextBase(section.tensors.length)
