"""Packed weights: what each packer makes, as its operator computes with it, against numpy; its parameters against the library's
fields; what is wrong, as one exception."""
import gc
import inspect

import numpy as np

import inlay
from formulas import expect, noise, rng

n, k, group = 37, 96, 32
x = noise(3, k)
w = noise(n, k)


def near(found, expected, bound, what):
    expect(np.abs(np.asarray(found, np.float64) - expected).max() <= bound * max(1, np.abs(expected).max()), what)


def refuses(error, words, call):
    try:
        call()
    except error as refused:
        expect(type(refused) is error and words in str(refused), (words, str(refused)))
    else:
        expect(False, "not refused: " + words)


# Each packer is a function whose parameters are its fields.
for packer in inlay._core.packers():
    parameters = inspect.signature(getattr(inlay, packer)).parameters
    fields = {field["name"]: field for field in inlay._core.fields(packer)}
    expect(set(parameters) - {"backend"} == set(fields), (packer, set(parameters), set(fields)))
    for name, field in fields.items():
        default = parameters[name].default
        if field["role"] == "scalar" and default is not inspect.Parameter.empty:
            expect(default == field["default"], (packer, name, default, field["default"]))

exact = x.astype(np.float64) @ w.astype(np.float64).T
packed = inlay.pack_linear(w)
expect((packed.op, packed.n, packed.k) == ("linear", n, k), packed)
near(packed(x), exact, 1e-5, "pack_linear")
near(inlay.pack_linear(w, dtype="bf16")(x), exact, 2e-2, "pack_linear to bf16")
near(packed(x, bias=w[:, 0].copy()), exact + w[:, 0], 1e-5, "a bias")
out = np.zeros((3, n), np.float32)
expect(packed(x, out=out) is out and np.array_equal(out, packed(x)), "a result that is given")

near(inlay.quantize_int8(w)(x), exact, 2e-2, "quantize_int8")
codes, integers = rng.integers(-128, 128, (n, k), np.int8), rng.integers(-128, 128, (3, k), np.int8)
found = inlay.pack_linear_int8(codes)(integers, dtype=np.int32)
expect(np.array_equal(found, integers.astype(np.int32) @ codes.astype(np.int32).T), "pack_linear_int8")
near(inlay.quantize_w4a16(w, group=group)(x), exact, 0.1, "quantize_w4a16")
for bits, off in (5, 0.05), (6, 0.025):
    near(inlay.quantize_w4a16(w, group=group, bits=bits)(x), exact, off, "quantize_w4a16 of %d bits" % bits)
near(inlay.quantize_w4a16(w, group=8, bits=8, symmetric=False, scales="own")(x), exact, 4e-3, "quantize_w4a16 of 8 bits")

# GGUF's Q4_0: a scale of f16, then the codes of elements i and i + 16 in a byte.
nibbles, scales = rng.integers(0, 16, (n, k), np.uint8), (0.01 + 0.01 * rng.random((n, k // 32))).astype(np.float16)
blocks = nibbles.reshape(n, -1, 2, 16)
rows = np.concatenate([scales[..., None].view(np.uint8), blocks[:, :, 0] | blocks[:, :, 1] << 4], axis=2).reshape(n, -1)
meant = (nibbles.astype(np.float64) - 8) * np.repeat(scales.astype(np.float64), 32, axis=1)
weight = inlay.import_gguf(rows, type="Q4_0")
near(weight(x), x.astype(np.float64) @ meant.T, 1e-5, "import_gguf")
by_hand = inlay.linear_w4a16(x, n=n, **weight.arguments)
expect(np.array_equal(by_hand, weight(x)), "its arguments by hand")
near(inlay.import_gguf(rows, type="Q4_0", scales="bf16")(x), x.astype(np.float64) @ meant.T, 2e-2, "scales of bf16")

# ONNX: the even input in the low nibble.
b = (nibbles[:, 0::2] | nibbles[:, 1::2] << 4).reshape(n, k // 32, 16)
near(inlay.import_onnx(b, scales.astype(np.float32), k=k)(x), x.astype(np.float64) @ meant.T, 1e-5, "import_onnx")

# GPTQ: eight inputs of a channel in a word; zero points less one.
words = np.ascontiguousarray(sum(nibbles.T.reshape(k // 8, 8, n)[:, i].astype(np.uint32) << 4 * i for i in range(8)).astype(np.uint32)).view(np.int32)
zeros = np.full((k // group, 5), 0x77777777, np.uint32).view(np.int32)
gptq = inlay.import_gptq(words, zeros, np.ascontiguousarray(scales.T), group=group)
near(gptq(x), x.astype(np.float64) @ meant.T, 1e-5, "import_gptq")

# AWQ: channels 0 2 4 6 1 3 5 7 of an input, from the lowest nibble on.
m = 40
nibbles = rng.integers(0, 16, (m, k), np.uint8)
order = [0, 2, 4, 6, 1, 3, 5, 7]
words = np.ascontiguousarray(sum(nibbles.T.reshape(k, m // 8, 8)[:, :, channel].astype(np.uint32) << 4 * i for i, channel in enumerate(order)).astype(np.uint32)).view(np.int32)
scales = (0.01 + 0.01 * rng.random((k // group, m))).astype(np.float16)
zeros = np.full((k // group, m // 8), 0x88888888, np.uint32).view(np.int32)
meant = (nibbles.astype(np.float64) - 8) * np.repeat(scales.T.astype(np.float64), group, axis=1)
near(inlay.import_awq(words, zeros, scales, group=group)(x), x.astype(np.float64) @ meant.T, 1e-5, "import_awq")

# The memory lives as long as an array over it, and nobody writes it.
array = inlay.pack_linear(w).arguments["weight"]
gc.collect()
expect(array[0, 0, 0] == w[0, 0] and not array.flags.writeable, "an array outlives the weight, and is read-only")

refuses(TypeError, "pack_linear: weight is of type list", lambda: inlay.pack_linear([[1.0]]))
refuses(TypeError, "pack_linear: weight has dtype", lambda: inlay.pack_linear(w.astype(np.float64)))
refuses(TypeError, "pack_linear: weight has dtype i8; it must be one of f32 f16 bf16", lambda: inlay.pack_linear(codes))
refuses(ValueError, "quantize_w4a16: group is 12; it must be a multiple of 8", lambda: inlay.quantize_w4a16(w, group=12))
refuses(TypeError, "quantize_w4a16: group is of type float; it must be an int", lambda: inlay.quantize_w4a16(w, group=8.0))
refuses(ValueError, "import_gguf: type is 'Q9'; it must be one of", lambda: inlay.import_gguf(rows, type="Q9"))
refuses(ValueError, "a multiple of 18, the bytes of a block", lambda: inlay.import_gguf(rows[:, :-1].copy(), type="Q4_0"))
refuses(ValueError, "import_gptq: qzeros has shape", lambda: inlay.import_gptq(words, zeros[:1], scales, group=group))
print("OK")
