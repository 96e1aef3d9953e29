"""torch.ops.inlay: an operator of torch for each of the library's. None is written here: schemas, and the shapes of results, are
made of the fields that the library names, as the functions of the package are."""
# operators.pyi tells of the operators alone, and there may be no torch here.
# mypy: disable-error-code="import-not-found,import-untyped,misc,unused-ignore,name-defined,attr-defined"
from __future__ import annotations

import math
from typing import Any, Callable, NamedTuple

import torch

from .. import operators
from .._signatures import Field, Operator
from .._tensors import KNOWN, NUMPY

NAMES = {getattr(torch, name): dtype for dtype, name in NUMPY.items()}
TYPES = {dtype: each for each, dtype in NAMES.items()}
CHANGED = ("out", "optional_out", "inout")
SCALARS = {"integer": "SymInt %s=%d", "number": "float %s=%r", "flag": "bool %s=%s", "word": 'str %s="%s"'}

# Operators are there as long as this is.
library = torch.library.Library("inlay", "DEF")


class Shaped(NamedTuple):
    """What the shape and the type of a result are found from, of a tensor that may have no memory."""

    shape: tuple[Any, ...]
    dtype: str


class Call(operators.Call):
    def read_extent(self, name: str, extent: Any) -> Any:
        """An extent that torch traces by a symbol stays one."""
        return extent if isinstance(extent, torch.SymInt) else super().read_extent(name, extent)


def schema(op: Operator, given_results: bool) -> str:
    """With `given_results` results are arguments, which are changed; otherwise they are made and returned, and where there are any
    no argument is changed: torch may then leave out or repeat a call."""
    marks = iter("abcdefghijklmnopqrstuvwxyz")

    def argument(field: Field) -> str:
        if field.role == "scalar":
            if field.default == math.inf:  # schemas have no word for it
                return "float? %s=None" % field.name
            return SCALARS[field.kind] % (field.name, field.default)
        if field.role == "in_list":
            return "Tensor[]? %s=None" % field.name
        kind = "Tensor(%s!)" % next(marks) if field.role in CHANGED else "Tensor"
        required = field.role in ("in", "inout", "out")
        return "%s %s" % (kind, field.name) if required else "%s? %s=None" % (kind, field.name)

    changes = given_results or not op.results
    named = [field for field in op.named + op.scalars if changes or field.role not in CHANGED]
    rows = [argument(field) for field in op.positional] + ["*"] + [argument(field) for field in named]
    if not changes:
        rows += ["SymInt? %s=None" % name for name in op.extents] + ["ScalarType? dtype=None"] * op.has_dtype
    rows.append('str backend="cpu"')
    returned = ", ".join(["Tensor"] * len(op.results)) if not given_results else ""
    return "%s%s(%s) -> (%s)" % (op.name, ".out" * given_results, ", ".join(rows), returned)


def name_of(subject: str, dtype: Any) -> str:
    if dtype not in NAMES:
        raise TypeError("%s has dtype %s; it must be one of %s" % (subject, str(dtype).replace("torch.", ""), KNOWN))
    return NAMES[dtype]


def bind(op: Operator, positional: tuple[Any, ...], named: dict[str, Any]) -> dict[str, Any]:
    """The arguments by their names; torch leaves out those that are as by default."""
    given: dict[str, Any] = {field.name: field.default for field in op.scalars}
    given.update(dict.fromkeys(op.extents), dtype=None)
    given.update(zip((field.name for field in op.positional), positional))
    given.update((name, value) for name, value in named.items() if value is not None)
    return given


def make_results(op: Operator, given: dict[str, Any]) -> list[Any]:
    """Results, of the right shape and type, of nothing yet: where tensors are traced too."""
    call = Call(op)
    device = None
    for field in op.fields:
        value = given.get(field.name)
        if not isinstance(value, torch.Tensor):
            continue
        subject = "%s: %s" % (op.name, field.name)
        device = device or value.device
        if value.device != device:
            raise ValueError("%s is on device %s; it must be on %s, as those before it" % (subject, value.device, device))
        call.tensors.append((field, Shaped(tuple(value.shape), name_of(subject, value.dtype))))
    asked = given.get("dtype")
    if asked is not None:
        given = {**given, "dtype": name_of(op.name + ": the result that is asked for", asked)}
    results = []
    for field in op.results:
        shape, dtype = call.describe_result(field, given)
        call.tensors.append((field, Shaped(tuple(shape), dtype)))
        results.append(torch.empty(shape, dtype=TYPES[dtype], device=device))
    return results


def detached(value: Any) -> Any:
    """The memory of a tensor whose gradient is wanted is none of DLPack's."""
    if isinstance(value, (list, tuple)):
        return [detached(each) for each in value]
    return value.detach() if isinstance(value, torch.Tensor) else value


def run(op: Operator, given: dict[str, Any]) -> None:
    made_of = {"dtype", *op.extents}  # what a result is made of is known by now
    getattr(operators, op.name)(**{name: detached(value) for name, value in given.items() if name not in made_of})


class Direct:
    """A call as the library takes it: addresses, types, shapes and strides as torch has them, without a view of each, and results
    of the shapes that such tensors had before. Of what it does not know it says so, and run() tells what is wrong."""

    most = 4096  # signatures that are remembered: prompts have many lengths

    def __init__(self, op: Operator, given_results: bool) -> None:
        self.op = op
        self.positional = [field.field for field in op.positional]
        self.tensors = {field.name: field.field for field in op.fields if field.kind == "tensor"}
        self.lists = {field.name: field.field for field in op.fields if field.kind == "list"}
        self.scalars = {field.name: field.field for field in op.scalars}
        self.results = [] if given_results else [field.field for field in op.results]
        self.known: dict[Any, list[tuple[Any, Any, str]]] = {}

    @staticmethod
    def memory(tensor: Any) -> Any:
        """None: it has none, or a type that the library lacks."""
        dtype = NAMES.get(tensor.dtype)
        address = tensor.data_ptr() if dtype is not None and tensor.is_cpu else 0
        return (address, dtype, tensor.shape, tensor.stride()) if address else None

    def run(self, positional: tuple[Any, ...], named: dict[str, Any]) -> list[Any] | None:
        """The results; None where nothing was done."""
        given: dict[str, Any] = {}
        signature: list[Any] = []
        backend = None
        for field, value in zip(self.positional, positional):
            memory = given[field] = self.memory(value)
            if memory is None:
                return None
            signature += memory[1:3]
        for name, value in named.items():
            if value is None:
                continue
            if name in self.tensors:
                memory = given[self.tensors[name]] = self.memory(value)
                if memory is None:
                    return None
                signature += (name, *memory[1:3])
            elif name in self.scalars:
                given[self.scalars[name]] = value
            elif name in self.lists:
                memories = given[self.lists[name]] = [self.memory(each) for each in value]
                if None in memories:
                    return None
            elif name == "backend":
                backend = value
            else:  # an extent, or the type, of a result
                signature += (name, value)
        results = []
        if self.results:
            key = tuple(signature)
            made = self.known.get(key)
            if made is None:
                made = [(tuple(each.shape), each.dtype, NAMES[each.dtype]) for each in make_results(self.op, bind(self.op, positional, named))]
                if len(self.known) >= self.most:
                    self.known.clear()
                self.known[key] = made
            for field, (shape, dtype, its_name) in zip(self.results, made):
                result = torch.empty(shape, dtype=dtype)
                address = result.data_ptr()
                if address == 0:
                    return None
                given[field] = (address, its_name, shape, result.stride())
                results.append(result)
        operators.compute(self.op, backend, given)
        return results


def kernels(op: Operator, given_results: bool) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """What computes, and what tells the results' shapes and types to those that trace."""

    def returned(results: list[Any]) -> Any:
        return tuple(results) if len(results) > 1 else results[0] if results else None

    direct = Direct(op, given_results)

    def compute(*positional: Any, **named: Any) -> Any:
        done = direct.run(positional, named)
        if done is not None:
            return returned(done)
        given = bind(op, positional, named)
        results = [] if given_results else make_results(op, given)
        run(op, {**given, **{field.name: made for field, made in zip(op.results, results)}})
        return returned(results)

    def trace(*positional: Any, **named: Any) -> Any:
        return None if given_results else returned(make_results(op, bind(op, positional, named)))

    return compute, trace


def register() -> None:
    for op in operators.describe():
        for given_results in (False, True) if op.results else (False,):
            name = op.name + ".out" * given_results
            library.define(schema(op, given_results))
            compute, trace = kernels(op, given_results)
            library.impl(name, compute, "CPU")
            torch.library.register_fake("inlay::" + name, trace, lib=library)
