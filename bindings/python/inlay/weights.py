"""Weights of linears, packed once. A packed weight is called with x, or is given to its operator as arguments."""
from __future__ import annotations

from typing import Any, Literal, Union

from . import _core, operators
from ._backend import Backend, resolve
from ._tensors import Tensor, View, open_tensor

__all__ = ["Weight", "import_awq", "import_gguf", "import_gptq", "import_onnx", "pack_linear", "pack_linear_int8", "quantize_int8",
           "quantize_w4a16"]

Floats = Literal["own", "f32", "f16", "bf16"]
Computing = Union[Backend, str, None]


class Weight:
    """A weight [n, k] in the form that its operator reads: `weight(x)` is y [tokens, n].

    op          the operator's name, "linear_w4a16"
    arguments   what the weight is to it, by the names of its fields: inlay.linear_w4a16(x, n=weight.n, **weight.arguments).
                Arrays over the weight's memory, which lives as long as one of them"""

    def __init__(self, packed: _core.Weight) -> None:
        self.op: str = packed.op
        self.n: int = packed.n
        self.k: int = packed.k
        self.nbytes: int = packed.bytes
        self.arguments: dict[str, Any] = {}
        for name, value in packed.arguments().items():
            if isinstance(value, tuple):
                array, dtype = value
                value = View(array, "bf16") if dtype == "bf16" else array
            self.arguments[name] = value

    def __call__(self, x: Tensor, **named: Any) -> Any:
        """y = x W^T; `named` are the operator's other arguments: bias, out, dtype, compute, .."""
        function = getattr(operators, self.op)
        if "n" in function.__kwdefaults__ and named.get("out") is None:
            named["n"] = self.n
        return function(x, **self.arguments, **named)

    def __repr__(self) -> str:
        return "inlay.Weight(op=%r, n=%d, k=%d, nbytes=%d)" % (self.op, self.n, self.k, self.nbytes)


def pack(packer: str, tensors: dict[str, Any], scalars: dict[str, object], backend: Computing) -> Weight:
    given: dict[str, object] = dict(scalars)
    for name, value in tensors.items():
        if value is not None:
            given[name] = open_tensor("%s: %s" % (packer, name), value, False)
    return Weight(_core.pack(resolve(backend), packer, given))


def pack_linear(weight: Tensor, *, dtype: Floats = "own", backend: Computing = None) -> Weight:
    """Rows of floats [n, k] (f32 f16 bf16) for inlay.linear; `dtype`: that of the packed form, rounded to nearest even."""
    return pack("pack_linear", {"weight": weight}, {"dtype": dtype}, backend)


def pack_linear_int8(weight: Tensor, *, backend: Computing = None) -> Weight:
    """Codes [n, k] (i8 u8) for inlay.linear_int8, which wants a weight_scale besides. Of u8 the packed zero point is 128 less."""
    return pack("pack_linear_int8", {"weight": weight}, {}, backend)


def quantize_int8(weight: Tensor, *, backend: Computing = None) -> Weight:
    """Floats [n, k] for inlay.linear_int8, rounded to nearest: a scale s = max|w| / 127 for each channel."""
    return pack("quantize_int8", {"weight": weight}, {}, backend)


def quantize_w4a16(weight: Tensor, *, group: int = 0, bits: int = 4, symmetric: bool = True, scales: Floats = "f16",
                   backend: Computing = None) -> Weight:
    """Floats [n, k] for inlay.linear_w4a16, rounded to codes of 4, 5, 6 or 8 bits.

    group       inputs that share a scale: a multiple of 8, or 0 for the whole row
    symmetric   else an integer zero point lets the codes span the smallest to the largest element of a group
    scales      their type; "own": the weight's"""
    return pack("quantize_w4a16", {"weight": weight}, {"group": group, "bits": bits, "symmetric": symmetric, "scales": scales}, backend)


def import_gptq(qweight: Tensor, qzeros: Tensor, scales: Tensor, *, g_idx: Union[Tensor, None] = None, group: int = 0, bits: int = 4,
                v2: bool = False, backend: Computing = None) -> Weight:
    """The tensors of AutoGPTQ and GPTQModel, codes as they are.

    qweight     [k * bits / 32, n]       i32
    qzeros      [groups, n * bits / 32]  i32
    scales      [groups, n]              f32 f16 bf16
    g_idx       [k] i32: the group of each input (act-order)
    group       group_size of the checkpoint; 0 (theirs: -1): the whole row
    v2          checkpoint_format "gptq_v2": zero points are stored as they are, not less one"""
    return pack("import_gptq", {"qweight": qweight, "qzeros": qzeros, "scales": scales, "g_idx": g_idx},
                {"group": group, "bits": bits, "v2": v2}, backend)


def import_awq(qweight: Tensor, qzeros: Tensor, scales: Tensor, *, group: int = 0, backend: Computing = None) -> Weight:
    """AutoAWQ's GEMM tensors, codes as they are: qweight [k, n / 8] i32, qzeros [groups, n / 8] i32, scales [groups, n]."""
    return pack("import_awq", {"qweight": qweight, "qzeros": qzeros, "scales": scales}, {"group": group}, backend)


def import_gguf(rows: Tensor, *, type: str, scales: Floats = "own", backend: Computing = None) -> Weight:
    """Rows of a GGUF tensor as they lie in the file, [n, bytes of a row] u8, codes as they are.

    type        that of the blocks: "Q4_0", "Q4_K", "MXFP4", ..
    scales      their type; "own": the one that holds them exactly"""
    return pack("import_gguf", {"rows": rows}, {"type": type, "scales": scales}, backend)


def import_onnx(b: Tensor, scales: Tensor, *, k: int, zero_points: Union[Tensor, None] = None, group: int = 32, bits: int = 4,
                backend: Computing = None) -> Weight:
    """B of com.microsoft's MatMulNBits, codes as they are.

    b             [n, blocks, group * bits / 8]  u8
    scales        [n, blocks]                    f32 f16 bf16
    zero_points   [n, (blocks * bits + 7) / 8]   u8, or [n, blocks] of floats
    k             inputs; the last block may be filled up"""
    return pack("import_onnx", {"b": b, "scales": scales, "zero_points": zero_points}, {"k": k, "group": group, "bits": bits}, backend)
