"""Operators of language models on the CPU, and models over them.

    import inlay, numpy
    y = inlay.rms_norm(x, weight, eps=1e-6)              # numpy arrays, or any DLPack tensor; nothing is copied
    print(inlay.Model("model.gguf").generate("Once upon a time"))

docs/python.md is the introduction; help(inlay.rms_norm) has an operator's equation, shapes and types."""
from . import _core, operators, weights
from ._backend import Backend, backend
from ._tensors import Tensor, View
from .model import Model, Text
from .operators import *  # noqa: F403
from .weights import *  # noqa: F403

__version__: str = _core.version()
__all__ = ["Backend", "Model", "Tensor", "Text", "View", "backend"]
__all__ += operators.__all__ + weights.__all__
