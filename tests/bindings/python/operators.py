"""Every operator of the package against formulas.py: on both backends, on results of one's own, on tensors of DLPack alone,
on arrays in pieces; types that numpy lacks; threads."""
import inspect
import sys
import threading
import time

import ml_dtypes
import numpy as np

import inlay
from formulas import CASES, expect, noise


def near(found, expected, what):
    found = np.asarray(found)
    expect(found.shape == expected.shape, "%s has shape %s; expected %s" % (what, found.shape, expected.shape))
    error = np.abs(found.astype(np.float64) - expected).max()
    expect(error <= 1e-5 * (1 + np.abs(expected).max()), "%s is off by %g" % (what, error))


class OfDlpack:
    """A tensor that offers nothing but DLPack."""

    def __init__(self, array):
        self.array = array

    def __dlpack__(self, **options):
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


def copies(values):
    return [value.copy() if isinstance(value, np.ndarray) else value for value in values]


def call(op, given, named, expected, what):
    """Runs it, and compares what it returns and what it changes."""
    function = getattr(inlay, op)
    named = dict(zip(named, copies(named.values())))
    bound = inspect.signature(function).bind(*copies(given), **named).arguments
    returned = function(**bound)
    returned = list(returned) if isinstance(returned, tuple) else [] if returned is None else [returned]
    for name, value in expected.items():
        changed = isinstance(bound.get(name), np.ndarray) and not any(bound[name] is each for each in returned)
        near(bound[name] if changed else returned.pop(0), value, "%s %s.%s" % (what, op, name))
    expect(not returned, op + " returns more than was expected")


def in_pieces(array):
    """The same numbers, each row with something between it and the next."""
    if array.ndim < 2:
        return array
    wide = np.zeros((*array.shape[:-1], array.shape[-1] + 3), array.dtype)
    wide[..., :array.shape[-1]] = array
    return wide[..., :array.shape[-1]]


expect({op for op, *_ in CASES} == set(inlay.operators.__all__), "each operator has its formula")
for op, given, named, expected in CASES:
    for backend in ("cpu", "reference", inlay.backend("cpu", threads=1)):
        call(op, given, {**named, "backend": backend}, expected, backend)
    function = getattr(inlay, op)
    first = function(*[OfDlpack(each) for each in copies(given)], **dict(zip(named, copies(named.values()))))
    second = function(*copies(given), **dict(zip(named, copies(named.values()))))
    for one, other in zip(*[each if isinstance(each, tuple) else (each,) for each in (first, second)]):
        expect(np.array_equal(one, other), op + " on DLPack")
    if op in ("rms_norm", "linear", "softmax", "flash_attention", "rope", "merge_states", "quantize"):
        call(op, [in_pieces(each) if i == 0 else each for i, each in enumerate(given)], named, expected, "in pieces")
    expect(function.__doc__ and "Returns" in function.__doc__ and "[" in function.__doc__, op + " has a docstring")

# A result of one's own is what comes back, and no memory of another is.
x, weight = noise(5, 32), noise(32)
mine, tokens = np.empty_like(x), np.empty(5, np.int64)
expect(inlay.rms_norm(x, weight, out=mine) is mine and inlay.sampling(x, tokens=tokens, temperature=0) is tokens, "it is given back")
expect(np.array_equal(tokens, x.argmax(axis=1)), "and written")
expect(inlay.rms_norm(x, weight, out=x) is x and np.array_equal(x, mine), "in place")

# Read-only arrays are read.
frozen = noise(5, 32)
frozen.flags.writeable = False
expect(np.array_equal(inlay.rms_norm(frozen, weight), inlay.rms_norm(frozen.copy(), weight)), "read-only")
expect(inlay.rms_norm(memoryview(frozen), weight).shape == (5, 32), "a buffer")

# Types: those of the first input, one that is asked for, and those that numpy lacks.
half = frozen.astype(np.float16)
expect(inlay.rms_norm(half, weight).dtype == np.float16 and inlay.softmax(half[None], dtype="f32").dtype == np.float32, "types")
expect(inlay.dequantize(np.ones((2, 4), np.int8), np.ones((1, 1), np.float32), dtype=np.float16).dtype == np.float16, "as asked")
expect(inlay.linear(half, weight_rows=frozen).dtype == np.float16, "as the input, not as the first that may be")
short = frozen.astype(ml_dtypes.bfloat16)
normed = inlay.rms_norm(short, weight.astype(ml_dtypes.bfloat16))
expect(normed.dtype == ml_dtypes.bfloat16, "bf16")
error = np.abs(normed.astype(np.float32) - inlay.rms_norm(short.astype(np.float32), weight)).max()
expect(error <= 2 ** -6 * np.abs(normed.astype(np.float32)).max(), "bf16 is off by %g" % error)
bits = inlay.View(short.view(np.uint16), "bf16")
expect(np.array_equal(inlay.add(bits, bits).view(np.uint16), (short + short).view(np.uint16)), "bf16 of 16-bit integers")
codes, scale = inlay.quantize(frozen, dtype="i4", row_scale=True)
expect(codes.shape == (5, 16) and codes.dtype == np.uint8, "two codes to a byte")
expect(np.abs(inlay.dequantize(inlay.View(codes, "i4"), scale[:, None]) - frozen).max() <= scale.max() * 0.51, "and back")

# Two sequences side by side in q, and blocks of 2 in k: the result has q's extents.
q, blocks = noise(1, 5, 2, 8), noise(4, 2, 2, 8)
out, lse = inlay.flash_attention(q, blocks, blocks, q_indptr=np.array([0, 3, 5], np.int32), kv_lens=np.array([4, 2], np.int32),
                                 block_table=np.array([[2, 0], [3, 1]], np.int32), lse=True)
expect(out.shape == (1, 5, 2, 8) and lse.shape == (1, 5, 2), "ragged and paged")

# The interpreter's lock is not held while an operator runs: with this interval nobody takes it from a thread that keeps it.
sys.setswitchinterval(1000)
turns, running = [0], True


def count():
    while running:
        turns[0] += 1
        time.sleep(0)


thread = threading.Thread(target=count)
thread.start()
big, result, moved = noise(256, 1024), np.empty((256, 1024), np.float32), False
rows = noise(1024, 1024)
for _ in range(200):
    before = turns[0]
    inlay.linear(big, weight_rows=rows, out=result)
    moved = turns[0] != before
    if moved:
        break
running = False
thread.join()
sys.setswitchinterval(0.005)
expect(moved, "another thread runs beside an operator")

# Several threads at once, with one backend.
wanted, wrong = inlay.rms_norm(frozen, weight), []


def compare():
    for _ in range(200):
        if not np.array_equal(inlay.rms_norm(frozen, weight), wanted):
            wrong.append("differs")


threads = [threading.Thread(target=compare) for _ in range(8)]
for each in threads:
    each.start()
for each in threads:
    each.join()
expect(not wrong, "threads at once")
print("OK: %d operators" % len(CASES))
