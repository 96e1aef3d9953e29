"""torch.nn.Linear by weights of 4 or 8 bits."""
# mypy: disable-error-code="import-not-found,import-untyped,misc,unused-ignore,no-any-return"
from __future__ import annotations

from typing import Any, Collection

import torch

from .. import _tensors, operators

PANEL = 16  # output channels that lie side by side


def in_panels(rows: Any, word: int) -> Any:
    """[n, bytes] to [panels, steps, 16 * word]: in a step, a word of each of a panel's channels."""
    padded = torch.nn.functional.pad(rows, (0, -rows.shape[1] % word, 0, -rows.shape[0] % PANEL))
    return padded.reshape(-1, PANEL, padded.shape[1] // word, word).transpose(1, 2).reshape(-1, padded.shape[1] // word, PANEL * word).contiguous()


class Quantized(torch.nn.Module):
    """y = x W^T + b over a weight that is codes: all of its state is buffers."""

    def __init__(self, linear: Any) -> None:
        super().__init__()
        self.in_features, self.out_features = linear.in_features, linear.out_features
        self.register_buffer("bias", None if linear.bias is None else linear.bias.detach().clone())
        self.train(linear.training)

    def rows(self, x: Any) -> Any:
        return x.reshape(-1, self.in_features).contiguous()

    def extra_repr(self) -> str:
        return "in_features=%d, out_features=%d, bias=%s" % (self.in_features, self.out_features, self.bias is not None)


class LinearW4a16(Quantized):
    """Codes of 4 bits, with a scale for `group_size` inputs of a channel: s = max|w| / 7, w' = s round(w / s), thus
    |w' - w| <= s / 2. The product is that of the operator linear_w4a16 on w': of x itself, summed in f32, or of x whose groups (of
    128 inputs at most) are rounded to 8 bits in the same way, in integers."""

    def __init__(self, linear: Any, group_size: int, rounds_x: bool = False) -> None:
        super().__init__(linear)
        self.group_size, self.compute = group_size, "int8_activations" if rounds_x else "exact_float"
        weight = linear.weight.detach()
        n, k = weight.shape
        padded = torch.nn.functional.pad(weight, (0, -k % group_size)).reshape(-1, group_size)
        codes, scales = torch.empty(padded.shape[0], group_size // 2, dtype=torch.uint8), torch.empty(padded.shape[0])
        operators.quantize(padded, out=_tensors.View(codes, "i4"), row_scale=scales)  # type: ignore[attr-defined]
        # The operator's codes are unsigned: 8 more.
        self.register_buffer("codes", in_panels(codes.reshape(n, -1)[:, :-(-k // 8) * 4] ^ 0x88, 4))
        self.register_buffer("scales", in_panels(scales.reshape(n, -1), 1))

    def forward(self, x: Any) -> Any:
        y = torch.ops.inlay.linear_w4a16(self.rows(x), self.codes, self.scales, bias=self.bias, group=self.group_size,
                                           compute=self.compute, n=self.out_features)
        return y.reshape(*x.shape[:-1], self.out_features)

    def extra_repr(self) -> str:
        rounds_x = "" if self.compute == "exact_float" else ", compute=" + self.compute
        return super().extra_repr() + ", group_size=%d%s" % (self.group_size, rounds_x)


class LinearInt8(Quantized):
    """Codes of 8 bits, with a scale for each channel: s = max|w| / 127, w' = s round(w / s), thus |w' - w| <= s / 2. Each row of
    x is rounded to 8 bits in the same way; the product of both is that of the operator linear_int8, in integers."""

    def __init__(self, linear: Any) -> None:
        super().__init__(linear)
        weight = linear.weight.detach()
        codes, scale = torch.empty(weight.shape, dtype=torch.int8), torch.empty(weight.shape[0])
        operators.quantize(weight, out=codes, row_scale=scale)  # type: ignore[attr-defined]
        self.register_buffer("weight_codes", in_panels(codes, 4))
        self.register_buffer("weight_sum", codes.sum(dim=1, dtype=torch.int32))
        self.register_buffer("weight_scale", scale)

    def forward(self, x: Any) -> Any:
        rows = self.rows(x)
        y = torch.ops.inlay.linear_int8(rows, self.weight_codes, self.weight_sum, weight_scale=self.weight_scale, bias=self.bias, dtype=rows.dtype)
        return y.reshape(*x.shape[:-1], self.out_features)


def refuse(name: str, linear: Any) -> None:
    weight = linear.weight
    if weight.device.type != "cpu":
        raise ValueError("quantize_: %s.weight is on device %s; it must be on cpu" % (name, weight.device))
    for what, tensor in (("weight", weight), ("bias", linear.bias)):
        if tensor is not None and tensor.dtype not in (torch.float32, torch.float16, torch.bfloat16):
            raise TypeError("quantize_: %s.%s has dtype %s; it must be float32, float16 or bfloat16"
                            % (name, what, str(tensor.dtype).replace("torch.", "")))
    if weight.numel() == 0:
        raise ValueError("quantize_: %s.weight has shape %s; it must have elements" % (name, list(weight.shape)))
    if weight.stride(1) != 1:
        raise ValueError("quantize_: %s.weight has strides %s; it must be 1 in the innermost dimension" % (name, list(weight.stride())))
    if not bool(torch.isfinite(weight.detach()).all()):
        raise ValueError("quantize_: %s.weight holds NaN or infinity; it must be finite" % name)


def quantize_(module: Any, kind: str = "w4a16", *, group_size: int = 32, skip: Collection[str] = ()) -> Any:
    """Replaces each torch.nn.Linear within `module` in place, and returns the module.

        kind         "w4a16": LinearW4a16, 4-bit weights; "w4a8": the same with 8-bit activations, several times as fast
                     for many rows; "int8": LinearInt8, 8-bit weights and activations
        group_size   inputs that share a scale, of 4-bit weights: a multiple of 8
        skip         names of what is left as it is, and all within it, as named_modules() has them: ("lm_head",)

    Subclasses of Linear are left: others read their weight. Raises TypeError and ValueError, which name the layer, before anything is
    replaced: for what is on a device or not of float32, float16 or bfloat16, and for what is not finite."""
    if not isinstance(module, torch.nn.Module):
        raise TypeError("quantize_: module is of type %s; it must be a torch.nn.Module" % type(module).__name__)
    if type(module) is torch.nn.Linear:
        raise ValueError("quantize_: module is a Linear itself; it must be what holds it")
    if kind not in ("w4a16", "w4a8", "int8"):
        raise ValueError("quantize_: kind is %r; it must be one of w4a16 w4a8 int8" % (kind,))
    if isinstance(group_size, bool) or not isinstance(group_size, int):
        raise TypeError("quantize_: group_size is of type %s; it must be an int" % type(group_size).__name__)
    if group_size <= 0 or group_size % 8 != 0:
        raise ValueError("quantize_: group_size is %d; it must be a multiple of 8" % group_size)
    if isinstance(skip, str):
        raise TypeError("quantize_: skip is a str; it must be a collection of names")
    names = {name for name, _ in module.named_modules(remove_duplicate=False)}
    for name in skip:
        if name not in names:
            raise ValueError("quantize_: skip names %r; it must be names of modules within" % (name,))
    found = [(name, each) for name, each in module.named_modules(remove_duplicate=False) if type(each) is torch.nn.Linear
             and not any(name == other or name.startswith(other + ".") for other in skip)]
    for name, linear in found:
        refuse(name, linear)
    made: dict[int, Quantized] = {}  # one that stands in several places stays one
    for name, linear in found:
        if id(linear) not in made:
            made[id(linear)] = LinearInt8(linear) if kind == "int8" else LinearW4a16(linear, group_size, kind == "w4a8")
        parent, _, child = name.rpartition(".")
        setattr(module.get_submodule(parent), child, made[id(linear)])
    return module
