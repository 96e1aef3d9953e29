"""Inlay in PyTorch, on the CPU.

    import torch, inlay.torch
    y = torch.ops.inlay.rms_norm(x, weight, eps=1e-6)    # each operator of the library; torch.compile and torch.export see it
    inlay.torch.quantize_(model, kind="w4a16")           # each torch.nn.Linear of a model by one of 4-bit weights

docs/python.md#pytorch is the introduction."""
from . import _operators
from ._linear import LinearInt8, LinearW4a16, quantize_

__all__ = ["LinearInt8", "LinearW4a16", "quantize_"]

_operators.register()
