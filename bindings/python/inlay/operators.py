"""A function for each operator of the library. None is written here: their parameters are the fields that the library names,
and their docstrings, and the shapes of what they allocate, are those of its headers."""
from __future__ import annotations

import importlib.resources
import json
from typing import Any, Callable, Protocol

import numpy

from . import _core
from ._backend import Backend, resolve
from ._signatures import Extents, Field, Operator, in_python
from ._tensors import View, allocate, name_of_dtype, open_tensor

__all__: list[str] = []


def dtype_of_result(op: Operator, field: Field, types: dict[str, str], asked: Any) -> str:
    """The type that a result is allocated with."""
    if asked is not None and field is op.results[0]:
        return name_of_dtype(op.name, asked)
    allowed = [types.get(each[:-2], "") if each.endswith("'s") else each for each in field.dtypes]
    first = next(iter(types.values()), "")
    if first in allowed and first in ("f32", "f16", "bf16"):
        return first
    known = [each for each in allowed if each]
    if not known:
        raise ValueError("%s: %s cannot be allocated, as its type is unknown; it must be given" % (op.name, field.name))
    return known[0]


class Described(Protocol):
    """What a result's shape and type are found from."""

    @property
    def shape(self) -> tuple[int, ...]: ...

    @property
    def dtype(self) -> str: ...


class Call:
    """One call: its tensors, and what is known of their shapes where a result is to be made."""

    def __init__(self, op: Operator) -> None:
        self.op = op
        self.given: dict[str, object] = {}
        self.tensors: list[tuple[Field, Described]] = []
        self.extents: Extents | None = None

    def take(self, field: Field, value: Any, writable: bool) -> None:
        subject = "%s: %s" % (self.op.name, field.name)
        if field.kind == "list":
            if isinstance(value, (str, bytes)) or not hasattr(value, "__iter__"):
                raise TypeError("%s is of type %s; it must be a list of tensors" % (subject, type(value).__name__))
            self.given[field.field] = [open_tensor("%s[%d]" % (subject, i), each, False) for i, each in enumerate(value)]
            return
        tensor = open_tensor(subject, value, writable)
        self.given[field.field] = tensor
        self.tensors.append((field, tensor))

    def know_extents(self, given: dict[str, Any]) -> Extents:
        if self.extents is None:
            self.extents = Extents()
            for name in self.op.extents:
                if (extent := given[name]) is not None:
                    self.extents.known[name] = self.read_extent(name, extent)
            for field, tensor in self.tensors:
                if field.shape is not None and len(tensor.shape) == field.rank:
                    self.extents.bind(field.shape, tensor.shape)
        return self.extents

    def read_extent(self, name: str, extent: Any) -> int:
        if isinstance(extent, bool) or not isinstance(extent, (int, numpy.integer)):
            raise TypeError("%s: %s is of type %s; it must be an int" % (self.op.name, name, type(extent).__name__))
        if extent < 0:
            raise ValueError("%s: %s is %d; it must be 0 or more" % (self.op.name, name, extent))
        return int(extent)

    def describe_result(self, field: Field, given: dict[str, Any]) -> tuple[list[int], str]:
        """Shape and type of a result that was not given."""
        extents = self.know_extents(given)
        unknown = [name for text in field.shape or [] for name in extents.unknown(text)]
        if field.shape is None or unknown:
            raise ValueError("%s: %s is left out, and %s is unknown; one of them must be given"
                             % (self.op.name, field.name, unknown[0] if unknown else "its shape"))
        types = {each.field: tensor.dtype for each, tensor in self.tensors}
        return [extents.find(text) for text in field.shape], dtype_of_result(self.op, field, types, given.get("dtype"))

    def make(self, field: Field, given: dict[str, Any]) -> Any:
        """A result that was not given."""
        shape, dtype = self.describe_result(field, given)
        array, tensor = allocate("%s: %s" % (self.op.name, field.name), shape, dtype)
        self.given[field.field] = tensor
        self.tensors.append((field, tensor))
        return array


def compute(op: Operator, backend: Backend | str | None, given: dict[str, object]) -> None:
    """Of values by the library's names: tensors are views, or tuples (address, dtype, shape, strides) of memory that lives on."""
    try:
        _core.run(resolve(backend), op.name, given)
    except (ValueError, TypeError, NotImplementedError) as refused:
        raise type(refused)(in_python(str(refused))) from None


def run(op: Operator, given: dict[str, Any]) -> Any:
    call = Call(op)
    for field in op.fields:
        value = given[field.name]
        if field.role == "scalar":
            call.given[field.field] = value
        elif value is not None and not (value is True and field in op.on_request):
            call.take(field, value, field.role in ("out", "optional_out", "inout"))
        elif field.role in ("in", "inout"):
            raise TypeError("%s: %s is None; it must be a tensor" % (op.name, field.name))
    results = []
    for field in op.results + op.on_request:
        value = given[field.name]
        if value is True or (value is None and field in op.results):
            value = call.make(field, given)
        if value is not None:
            results.append(value)
    compute(op, given["backend"], call.given)
    return tuple(results) if len(results) > 1 else results[0] if results else None


def make_function(op: Operator) -> Callable[..., Any]:
    """A function whose parameters are the fields: Python itself binds them, and tells of those that are missing."""
    defaults = {field.name: field.default for field in op.scalars}
    named = [field.name for field in op.named + op.scalars] + op.extents + ["dtype"] * op.has_dtype + ["backend"]
    source = "def %s(%s, *, %s):\n  return run(op, locals())\n" % (
        op.name, ", ".join(field.name for field in op.positional), ", ".join("%s=None" % name for name in named))
    scope: dict[str, Any] = {"run": run, "op": op}
    exec(source, scope)
    function: Any = scope[op.name]
    function.__kwdefaults__ = {name: defaults.get(name) for name in named}
    function.__doc__ = op.document()
    function.__module__ = __name__
    return function


def describe() -> list[Operator]:
    descriptions = json.loads(importlib.resources.files("inlay").joinpath("descriptions.json").read_text())
    return [Operator(name, _core.fields(name), descriptions[name]) for name in _core.operators()]


for each in describe():
    globals()[each.name] = make_function(each)
    __all__.append(each.name)
