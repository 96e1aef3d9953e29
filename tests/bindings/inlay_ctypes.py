"""libinlay.so for Python's ctypes: the structs of inlay.h, and a call of an operator with arrays and numbers."""
import ctypes as c


class Device(c.Structure):
    _fields_ = [("device_type", c.c_int32), ("device_id", c.c_int32)]


class DataType(c.Structure):
    _fields_ = [("code", c.c_uint8), ("bits", c.c_uint8), ("lanes", c.c_uint16)]


class DLTensor(c.Structure):
    _fields_ = [("data", c.c_void_p), ("device", Device), ("ndim", c.c_int32), ("dtype", DataType),
                ("shape", c.POINTER(c.c_int64)), ("strides", c.POINTER(c.c_int64)), ("byte_offset", c.c_uint64)]


class TensorList(c.Structure):
    _fields_ = [("tensors", c.POINTER(c.POINTER(DLTensor))), ("count", c.c_size_t)]


class Value(c.Union):
    _fields_ = [("tensor", c.POINTER(DLTensor)), ("list", TensorList), ("integer", c.c_int64), ("number", c.c_double),
                ("word", c.c_char_p)]


class Argument(c.Structure):
    _anonymous_ = ["value"]
    _fields_ = [("name", c.c_char_p), ("kind", c.c_int32), ("reserved", c.c_int32), ("value", Value)]


class Field(c.Structure):
    _fields_ = [("size", c.c_size_t), ("name", c.c_char_p), ("role", c.c_int32), ("kind", c.c_int32), ("rank", c.c_int32),
                ("reserved", c.c_int32), ("default_integer", c.c_int64), ("default_number", c.c_double),
                ("default_word", c.c_char_p), ("words", c.POINTER(c.c_char_p))]


class BackendOptions(c.Structure):
    _fields_ = [("size", c.c_size_t), ("name", c.c_char_p), ("isa", c.c_char_p), ("threads", c.c_int32), ("width", c.c_int32),
                ("run", c.c_void_p), ("context", c.c_void_p)]


TENSOR, LIST, INTEGER, NUMBER, FLAG, WORD = range(1, 7)
IN, OPTIONAL_IN, OUT, OPTIONAL_OUT, INOUT, IN_LIST, SCALAR = range(1, 8)
TYPES = {"f32": (c.c_float, 2, 32), "i8": (c.c_int8, 0, 8), "u8": (c.c_uint8, 1, 8), "i32": (c.c_int32, 0, 32),
         "i64": (c.c_int64, 0, 64)}


class Failed(Exception):
    pass


class Tensor:
    """Values row by row, and a DLTensor over them."""

    def __init__(self, shape, values=None, dtype="f32"):
        element, code, bits = TYPES[dtype]
        count = 1
        for extent in shape:
            count *= extent
        self.values = (element * count)(*([0] * count if values is None else values))
        self.shape = (c.c_int64 * len(shape))(*shape)
        self.dl = DLTensor(data=c.cast(self.values, c.c_void_p), device=Device(1, 0), ndim=len(shape),
                           dtype=DataType(code, bits, 1), shape=self.shape)


class Inlay:
    def __init__(self, path):
        self.library = c.CDLL(path)
        for name, result in (("message", c.c_char_p), ("version", c.c_char_p), ("op_name", c.c_char_p), ("op_count", c.c_size_t),
                             ("backend_close", None)):
            getattr(self.library, "inlay_" + name).restype = result
        self.library.inlay_op_name.argtypes = [c.c_size_t]
        self.library.inlay_backend_close.argtypes = [c.c_void_p]
        self.library.inlay_run.argtypes = [c.c_void_p, c.c_char_p, c.POINTER(Argument), c.c_size_t, c.c_void_p, c.c_size_t]

    def check(self, code):
        if code != 0:
            raise Failed("%d: %s" % (code, self.library.inlay_message().decode()))

    def operators(self):
        return [self.library.inlay_op_name(i).decode() for i in range(self.library.inlay_op_count())]

    def fields(self, op):
        count = c.c_size_t()
        self.check(self.library.inlay_field_count(op.encode(), c.byref(count)))
        fields = []
        for i in range(count.value):
            fields.append(Field(size=c.sizeof(Field)))
            self.check(self.library.inlay_field_at(op.encode(), c.c_size_t(i), c.byref(fields[-1])))
        return fields

    def open(self, name="cpu", **options):
        backend = c.c_void_p()
        options = BackendOptions(size=c.sizeof(BackendOptions), name=name.encode(), **options)
        self.check(self.library.inlay_backend_open(c.byref(options), c.byref(backend)))
        return backend

    def close(self, backend):
        self.library.inlay_backend_close(backend)

    def run(self, backend, op, **given):
        kinds = {field.name.decode(): field.kind for field in self.fields(op)}
        arguments, keep = (Argument * len(given))(), []
        for argument, (name, value) in zip(arguments, given.items()):
            argument.name, argument.kind = name.encode(), kinds.get(name, INTEGER)
            if isinstance(value, Tensor):
                argument.tensor = c.pointer(value.dl)
            elif argument.kind == LIST:
                keep.append((c.POINTER(DLTensor) * len(value))(*[c.pointer(each.dl) for each in value]))
                argument.list = TensorList(keep[-1], len(value))
            elif argument.kind == WORD:
                argument.word = value.encode()
            elif argument.kind == NUMBER:
                argument.number = value
            else:
                argument.integer = value
        self.check(self.library.inlay_run(backend, op.encode(), arguments, len(arguments), None, 0))
