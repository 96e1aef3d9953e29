"""Bad input: in each field of each operator in turn, what is no tensor, of another type, rank or device, in pieces, read-only,
freed or used up. Each is one exception of Python's own kind that names the operator and the field, and nothing is written."""
import ctypes
import inspect
import sys

import numpy as np

import inlay
from formulas import CASES, expect


class DlTensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32), ("ndim", ctypes.c_int32),
                ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16), ("shape", ctypes.POINTER(ctypes.c_int64)),
                ("strides", ctypes.c_void_p), ("byte_offset", ctypes.c_uint64), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p)]


class OfDevice:
    """A tensor as another framework would give it: on a device, or without memory."""

    def __init__(self, array, device, data=True):
        self.shape = (ctypes.c_int64 * array.ndim)(*array.shape)
        self.array, self.device = array, device
        kind = {"f": 2, "i": 0, "u": 1, "b": 6}[array.dtype.kind]
        self.tensor = DlTensor(data=array.ctypes.data if data else None, device_type=device, ndim=array.ndim, code=kind,
                               bits=array.dtype.itemsize * 8, lanes=1, shape=self.shape)

    def __dlpack_device__(self):
        return self.device, 0

    def __dlpack__(self, **_):
        new = ctypes.pythonapi.PyCapsule_New
        new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
        return new(ctypes.addressof(self.tensor), b"dltensor", None)


def released(array):
    view = memoryview(array.copy())
    view.release()
    return view


def used(array):
    capsule = array.__dlpack__()
    inlay._core.tensor(capsule, False)
    return capsule


def read_only(array):
    array = array.copy()
    array.flags.writeable = False
    return array


TENSORS = {
    "a list": (TypeError, lambda array: array.tolist()), "a number": (TypeError, lambda array: 3.0),
    "a word": (TypeError, lambda array: "tensor"), "an object": (TypeError, lambda array: object()),
    "doubles": (TypeError, lambda array: array.astype(np.float64)), "complex": (TypeError, lambda array: array.astype(np.complex64)),
    "16-bit integers": (TypeError, lambda array: array.astype(np.int16)), "objects": (TypeError, lambda array: array.astype(object)),
    "foreign bytes": (TypeError, lambda array: array.astype(array.dtype.newbyteorder()) if array.itemsize > 1 else None),
    "a type of ours": (TypeError, lambda array: array.astype(bool)),
    "another rank": (ValueError, lambda array: array[None].copy()),
    "backwards": (ValueError, lambda array: array[..., ::-1] if array.shape[-1] > 1 else None),
    "another shape": (ValueError, lambda array: np.concatenate([array, array, array], axis=-1)),
    "on a device": (ValueError, lambda array: OfDevice(array, 2)), "freed": (ValueError, lambda array: OfDevice(array, 1, False)),
    "a released buffer": (ValueError, released), "a capsule used before": (ValueError, used),
}
SCALARS = {"int": [(TypeError, 1.5), (TypeError, "1"), (TypeError, True), (ValueError, 2 ** 70)],
           "float": [(TypeError, "1"), (TypeError, True), (TypeError, [1.0]), (ValueError, 10.0 ** 300), (ValueError, 10 ** 400)],
           "bool": [(TypeError, 1), (TypeError, "true")], "str": [(TypeError, 1), (ValueError, "no such word")]}
count = 0


def refused(op, field, kind, given, what):
    """Is it refused with that exception, and are all arrays what they were?"""
    global count
    before = {name: value.copy() for name, value in given.items() if isinstance(value, np.ndarray)}
    try:
        getattr(inlay, op)(**given)
    except Exception as wrong:
        expect(type(wrong) is kind, "%s.%s as %s is %s: %s" % (op, field, what, type(wrong).__name__, wrong))
        if field is not None:
            expect(str(wrong).startswith(op) and field in str(wrong), "%s.%s as %s: %s" % (op, field, what, wrong))
    else:
        sys.exit("FAILED: %s.%s as %s was taken" % (op, field, what))
    for name, value in before.items():
        if given[name].dtype != object:
            expect(given[name].tobytes() == value.tobytes(), "%s.%s as %s: %s was written" % (op, field, what, name))
    count += 1


for op, positional, named, _ in CASES:
    function = getattr(inlay, op)
    given = dict(inspect.signature(function).bind(*positional, **named).arguments)
    results = function(**{name: value.copy() if isinstance(value, np.ndarray) else value for name, value in given.items()})
    results = results if isinstance(results, tuple) else (results,)
    description = next(each for each in inlay.operators.describe() if each.name == op)
    for field, result in zip([f for f in description.results] + [f for f in description.on_request if given.get(f.name) is True], results):
        given[field.name] = np.full_like(result, 77)
    for name in description.extents:  # what is given tells them
        given.pop(name, None)
    for field in description.fields:
        value = given.get(field.name)
        if isinstance(value, np.ndarray):
            for what, (kind, make) in TENSORS.items():
                made = make(value)
                if made is None or (what == "another shape" and field.role != "out"):
                    continue
                if what == "a type of ours" and (op, field.name) == ("sampling", "history"):
                    continue
                # Which of two shapes is the wrong one is the operator's to say.
                refused(op, None if what == "another shape" else field.name, kind, {**given, field.name: made}, what)
            if field.role in ("out", "optional_out", "inout"):
                refused(op, field.name, ValueError, {**given, field.name: read_only(value)}, "read-only")
            if field.role in ("in", "inout"):
                refused(op, field.name, TypeError, {**given, field.name: None}, "None")
        elif isinstance(value, list):
            refused(op, field.name, TypeError, {**given, field.name: 3}, "no list")
            refused(op, field.name, TypeError, {**given, field.name: [value[0], "tensor"]}, "a list of words")
            refused(op, field.name, ValueError, {**given, field.name: [value[0], released(value[1])]}, "a list of what is freed")
        elif field.role == "scalar":
            for kind, wrong in SCALARS[type(field.default).__name__]:
                refused(op, field.name, kind, {**given, field.name: wrong}, repr(wrong))
    refused(op, None, TypeError, {**given, "no_such_argument": 1}, "an unknown name")
    refused(op, None, ValueError, {**given, "backend": "no such backend"}, "a backend's name")
    refused(op, None, TypeError, {**given, "backend": 3}, "no backend")
x, weight = np.ones((2, 8), np.float32), np.ones(8, np.float32)
for kind, named, words in (
        (TypeError, {"x": x.astype(np.float64)}, "x has dtype float64; it must be one of"),
        (ValueError, {"x": OfDevice(x, 1, False)}, "x has shape [2, 8] and no memory"),
        (TypeError, {"dtype": "f9"}, "dtype is 'f9'"), (TypeError, {"dtype": np.complex64}, "dtype is complex64"), (TypeError, {"dtype": 3}, "dtype is"),
        (TypeError, {"dtype": "f16"}, "out has dtype f16; it must be one of f32 i8"), (TypeError, {"y_scale": 1}, "y_scale is of type int"),
        (ValueError, {"y_scale": True}, "y_scale must be given with i8 output"), (TypeError, {"residual": True}, "residual is of type bool")):
    refused("rms_norm", None, kind, {"x": x, "weight": weight, **named}, words)
    try:
        inlay.rms_norm(**{"x": x, "weight": weight, **named})
    except Exception as wrong:
        expect(words in str(wrong), "%s in: %s" % (words, wrong))
for named, words in (({}, "n is unknown"), ({"n": -1}, "n is -1; it must be 0 or more"), ({"n": 1.5}, "n is of type float")):
    try:
        inlay.linear(x, weight=np.ones((1, 8, 16), np.float32), **named)
        sys.exit("FAILED: taken: " + words)
    except (TypeError, ValueError) as wrong:
        expect(words in str(wrong), "%s in: %s" % (words, wrong))
for memory, dtype, words in ((x, "bf16", "must have 16 bits"), (x.astype(np.int8).T, "i4", "beside each other"), (x, "q4", "must be one of")):
    try:
        inlay.add(inlay.View(memory, dtype), x)
        sys.exit("FAILED: taken: " + words)
    except ValueError as wrong:
        expect("add: a" in str(wrong) and words in str(wrong), "%s in: %s" % (words, wrong))
print("OK: %d refusals" % count)
