"""Operators from Python, with nothing but ctypes and the library: what there is, and some of them on both backends against
sums written out here in double.

  operators.py LIBRARY
"""
import math
import random
import sys

from inlay_ctypes import FLAG, IN, INTEGER, LIST, NUMBER, OUT, SCALAR, TENSOR, WORD, Failed, Inlay, Tensor

inlay = Inlay(sys.argv[1])
rng = random.Random(1)


def expect(holds, what):
    if not holds:
        sys.exit("FAILED: %s" % (what,))


def noise(*shape, low=-1.0, high=1.0):
    return Tensor(shape, [rng.uniform(low, high) for _ in range(math.prod(shape))])


def rows(tensor):
    columns = tensor.shape[len(tensor.shape) - 1]
    return [list(tensor.values[i:i + columns]) for i in range(0, len(tensor.values), columns)]


def near(found, expected, bound, what):
    flat = [value for row in expected for value in row]
    expect(len(found.values) == len(flat), what + ": as many elements")
    for i, (a, b) in enumerate(zip(found.values, flat)):
        expect(abs(a - b) <= bound, "%s[%d] is %r; expected %r" % (what, i, a, b))


def list_operators():
    names = inlay.operators()
    expect(len(names) == 24 and "rms_norm" in names and "paged_attention" in names, names)
    kinds = set()
    for op in names:
        for field in inlay.fields(op):
            kinds.add(field.kind)
            expect((field.kind in (TENSOR, LIST)) == (field.rank > 0), "%s.%s has a rank" % (op, field.name))
            expect((field.role == SCALAR) == (field.kind in (INTEGER, NUMBER, FLAG, WORD)), "%s.%s" % (op, field.name))
    expect(kinds == {TENSOR, LIST, INTEGER, NUMBER, FLAG, WORD}, "every kind occurs: %s" % kinds)
    forms = [field for field in inlay.fields("gelu") if field.name == b"form"][0]
    expect(forms.default_word == b"erf" and forms.words[0] == b"erf" and forms.words[5] == b"xielu" and not forms.words[6],
           "the words of gelu's form")


def run_rows(backend):
    x, weight, residual, y = noise(5, 33), noise(33), noise(5, 33), Tensor((5, 33))
    sums = [[a + b for a, b in zip(one, other)] for one, other in zip(rows(x), rows(residual))]
    inlay.run(backend, "rms_norm", x=x, weight=weight, residual=residual, y=y, eps=0.01)
    near(y, [[v / math.sqrt(sum(u * u for u in row) / 33 + 0.01) * w for v, w in zip(row, weight.values)] for row in sums], 4e-6,
         "rms_norm")
    near(residual, sums, 2e-7, "rms_norm's residual")

    bias = noise(33)
    inlay.run(backend, "layer_norm", x=x, weight=weight, bias=bias, y=y)
    expected = []
    for row in rows(x):
        mean = sum(row) / 33
        scale = 1 / math.sqrt(sum((v - mean) ** 2 for v in row) / 33 + 1e-5)
        expected.append([(v - mean) * scale * w + b for v, w, b in zip(row, weight.values, bias.values)])
    near(y, expected, 4e-6, "layer_norm")

    for form, f in (("erf", lambda v: v / 2 * (1 + math.erf(v / math.sqrt(2)))), ("relu_squared", lambda v: max(v, 0) ** 2)):
        inlay.run(backend, "gelu", x=x, y=y, form=form)
        near(y, [[f(v) for v in row] for row in rows(x)], 1e-6, "gelu " + form)

    gate, up = noise(5, 33, low=-4, high=4), noise(5, 33)
    inlay.run(backend, "swiglu", gate=gate, up=up, y=y)
    near(y, [[g / (1 + math.exp(-g)) * u for g, u in zip(*pair)] for pair in zip(rows(gate), rows(up))], 2e-6, "swiglu")

    inlay.run(backend, "add", a=x, b=up, y=y)
    near(y, [[a + b for a, b in zip(*pair)] for pair in zip(rows(x), rows(up))], 2e-7, "add")


def run_others(backend):
    x, y = noise(2, 3, 17, low=-4, high=4), Tensor((2, 3, 17))
    for log in (0, 1):
        inlay.run(backend, "softmax", x=x, y=y, scale=0.5, log=log)
        expected = []
        for row in rows(x):
            total = sum(math.exp(v / 2) for v in row)
            expected.append([v / 2 - math.log(total) if log else math.exp(v / 2) / total for v in row])
        near(y, expected, 2e-6, "softmax")

    x, weight, bias, y = noise(4, 19), noise(7, 19), noise(7), Tensor((4, 7))
    inlay.run(backend, "linear", x=x, weight_rows=weight, bias=bias, y=y)
    near(y, [[sum(a * b for a, b in zip(row, channel)) + c for channel, c in zip(rows(weight), bias.values)] for row in rows(x)],
         1e-5, "linear")

    table, ids, y = noise(6, 9), Tensor((4,), [5, 0, 3, 3], "i32"), Tensor((4, 9))
    inlay.run(backend, "embedding", table=table, ids=ids, y=y, scale=2.0)
    near(y, [[2 * v for v in rows(table)[i]] for i in ids.values], 1e-6, "embedding")

    logits, tokens = noise(3, 11), Tensor((3,), dtype="i32")
    inlay.run(backend, "sampling", logits=logits, tokens=tokens, temperature=0.0)
    expect(list(tokens.values) == [row.index(max(row)) for row in rows(logits)], "greedy sampling")

    # A sequence of its own K and V each, as a list.
    lengths = (3, 1)
    q, out = noise(2, 1, 2, 8), Tensor((2, 1, 2, 8))
    keys, values = [noise(n, 2, 8) for n in lengths], [noise(n, 2, 8) for n in lengths]
    inlay.run(backend, "incre_flash_attention", q=q, k_list=keys, v_list=values, out=out)
    expected = []
    for b, n in enumerate(lengths):
        for h in range(2):
            query = rows(q)[2 * b + h]
            weights = [math.exp(sum(a * c for a, c in zip(query, rows(keys[b])[2 * j + h])) / math.sqrt(8)) for j in range(n)]
            expected.append([sum(w * rows(values[b])[2 * j + h][d] for j, w in enumerate(weights)) / sum(weights) for d in range(8)])
    near(out, expected, 2e-6, "incre_flash_attention over lists")

    try:
        inlay.run(backend, "embedding", table=table, ids=Tensor((4,), [5, 0, 6, 3], "i32"), y=y)
        sys.exit("an id beyond the table was taken")
    except Failed as failed:
        expect("embedding: ids" in str(failed) and "6" in str(failed), failed)


list_operators()
for name in ("cpu", "reference"):
    backend = inlay.open(name)
    run_rows(backend)
    run_others(backend)
    inlay.close(backend)
print("OK")
