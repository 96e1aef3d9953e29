"""From arrays and tensors of others to the library's views of them, and new arrays for results."""
from __future__ import annotations

from typing import Any, Protocol, Union

import numpy

from . import _core

NUMPY = {"f32": "float32", "f16": "float16", "bf16": "bfloat16", "i8": "int8", "u8": "uint8", "i32": "int32", "i64": "int64",
         "bool": "bool"}
INLAY = {name: dtype for dtype, name in NUMPY.items()}
KNOWN = " ".join([*NUMPY, "i4", "u4"])


class SupportsDLPack(Protocol):
    """A tensor of PyTorch, JAX, CuPy, .. in the memory of the host."""

    def __dlpack__(self) -> Any: ...


class View:
    """The memory of a tensor as elements of a type that numpy lacks: `bf16` of 16-bit integers, `i4` and `u4` of bytes,
    two elements in each, the lower half first. Nothing is copied."""

    def __init__(self, memory: Any, dtype: str) -> None:
        self.memory, self.dtype = memory, dtype


Tensor = Union["numpy.ndarray[Any, Any]", SupportsDLPack, View, memoryview, bytearray]


def why_not(subject: str, value: object, writable: bool) -> Exception:
    """What is wrong with a value that nobody could open, or could not for writing."""
    kind = type(value).__name__
    must = "; it must be a numpy array or a DLPack tensor"
    if kind == "PyCapsule":
        if '"used_dltensor' in repr(value):
            return ValueError("%s is a DLPack capsule that was used before; each can be used once" % subject)
        return TypeError("%s is a capsule %s; it must be one of DLPack" % (subject, repr(value)))
    if writable and _core.tensor(value, False) is not None:
        return ValueError("%s is read-only; it must be writable" % subject)
    try:
        if hasattr(value, "__dlpack__"):
            value.__dlpack__()
        memoryview(value)  # type: ignore[arg-type]
    except TypeError:
        return TypeError("%s is of type %s%s" % (subject, kind, must))
    except Exception as refused:  # a released memoryview, a deleted tensor, one of strange elements
        words = str(refused).rstrip(".")
        if isinstance(value, numpy.ndarray):
            return TypeError("%s is an array of dtype %s (%s)%s" % (subject, value.dtype, words, must))
        return ValueError("%s is a %s that gives no memory: %s" % (subject, kind, words))
    return TypeError("%s is a %s of elements that are unknown%s" % (subject, kind, must))


def open_tensor(subject: str, value: Any, writable: bool) -> _core.Tensor:
    """The view of a value; raises TypeError or ValueError that begins with `subject`."""
    dtype = None
    if isinstance(value, View):
        value, dtype = value.memory, value.dtype
    elif isinstance(value, numpy.ndarray) and value.dtype.kind == "V" and value.dtype.name == "bfloat16":
        value, dtype = value.view(numpy.uint16), "bf16"
    tensor = _core.tensor(value, writable)
    if tensor is None:
        raise why_not(subject, value, writable)
    if dtype is None and " " in tensor.dtype:
        raise TypeError("%s has dtype %s; it must be one of %s" % (subject, getattr(value, "dtype", tensor.dtype), KNOWN))
    if tensor.freed:
        raise ValueError("%s has shape %s and no memory; it must not have been freed" % (subject, list(tensor.shape)))
    if dtype is not None:
        try:
            tensor.reinterpret(dtype)
        except ValueError as wrong:
            raise ValueError("%s: %s" % (subject, wrong)) from None
    return tensor


def name_of_dtype(subject: str, dtype: Any) -> str:
    """The library's name of a type: "f16" of "f16", numpy.float16 and "float16"."""
    if dtype in NUMPY or dtype in ("i4", "u4"):
        return str(dtype)
    try:
        name = dtype if dtype == "bfloat16" else numpy.dtype(dtype).name
    except TypeError:
        name = repr(dtype)
    if name not in INLAY:
        raise TypeError("%s: dtype is %s; it must be one of %s" % (subject, name, KNOWN))
    return INLAY[name]


def allocate(subject: str, shape: list[int], dtype: str) -> tuple[Any, _core.Tensor]:
    """A new array, and the view of it. Elements of four bits come as bytes, two in each."""
    if dtype in ("i4", "u4"):
        if shape[-1] % 2 != 0:
            raise ValueError("%s has %d codes of 4 bits in a row; it must be given where they fill no bytes" % (subject, shape[-1]))
        array = numpy.empty([*shape[:-1], shape[-1] // 2], numpy.uint8)
        return array, open_tensor(subject, View(array, dtype), True)
    if dtype == "bf16":
        try:
            import ml_dtypes
        except ImportError:
            raise ValueError("%s is bf16, which numpy has with the package ml_dtypes only; it must be given without that"
                             % subject) from None
        array = numpy.empty(shape, ml_dtypes.bfloat16)
    else:
        array = numpy.empty(shape, NUMPY[dtype])
    return array, open_tensor(subject, array, True)
