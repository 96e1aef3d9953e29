"""A function as a kernel for `inlay verify --kernel FILE.py` (docs/check_a_kernel.md), which starts this and sends it cases.

    python3 -m inlay._kernel SOCKET FILE FUNCTION      FUNCTION "": the one that has the operator's name"""
from __future__ import annotations

import importlib.util
import socket
import struct
import sys
from typing import Any, Callable

import numpy

from ._signatures import RENAMED
from ._tensors import NUMPY, View

OK, INVALID, UNSUPPORTED = range(3)  # of inlay.h


def open_memory(memory: bytearray, dtype: str, shape: str, strides: str, first: str) -> Any:
    """An array over the bytes of an operand, or a View of types that numpy lacks."""
    extents, steps = [[int(each) for each in text.split(",") if each] for text in (shape, strides)]
    halves = dtype in ("i4", "u4")
    if halves:
        if extents[-1] % 2 != 0 or any(step % 2 != 0 for step in steps[:-1]):
            raise NotImplementedError("a View of %s has rows of whole bytes" % dtype)
        extents[-1] //= 2
        steps = [step // 2 for step in steps[:-1]] + steps[-1:]
    of = numpy.dtype("uint8" if halves else "uint16" if dtype == "bf16" else NUMPY[dtype])
    if 0 in extents:
        array: Any = numpy.empty(extents, of)
    else:
        array = numpy.ndarray(extents, of, memory, int(first), [step * of.itemsize for step in steps])
    if dtype == "bf16":
        try:
            import ml_dtypes
        except ImportError:
            return View(array, dtype)
        return array.view(ml_dtypes.bfloat16)
    return View(array, dtype) if halves else array


def read_arguments(lines: list[str], memory: bytearray) -> dict[str, Any]:
    readers: dict[str, Callable[[str], Any]] = {"number": float, "integer": int, "flag": lambda word: word == "1", "word": str}
    arguments: dict[str, Any] = {}
    for line in lines:
        field, kind, *rest = line.split(" ")
        name = RENAMED.get(field, field)
        if kind == "tensor":
            arguments[name] = open_memory(memory, *rest)
        elif kind == "list":
            arguments.setdefault(name, []).append(open_memory(memory, *rest))
        else:
            arguments[name] = readers[kind](rest[0])
    return arguments


def receive(connection: socket.socket, size: int) -> bytearray:
    received = bytearray(size)
    at = memoryview(received)
    while len(at) > 0:
        got = connection.recv_into(at)
        if got == 0:
            sys.exit()
        at = at[got:]
    return received


def answer(connection: socket.socket, code: int, content: bytes | bytearray) -> None:
    connection.sendall(struct.pack("=qq", code, len(content)))
    connection.sendall(content)


def compute(module: Any, function: str, lines: list[str], memory: bytearray) -> tuple[int, bytes | bytearray]:
    op, *rest = lines
    try:
        getattr(module, function or op)(**read_arguments(rest, memory))
    except NotImplementedError:
        return UNSUPPORTED, memory
    except Exception as raised:
        return INVALID, ("it raised %s: %s" % (type(raised).__name__, raised)).encode()
    return OK, memory


def main(number: str, path: str, function: str) -> None:
    connection = socket.socket(fileno=int(number))
    try:
        spec = importlib.util.spec_from_file_location("kernel", path)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        if function and not hasattr(module, function):
            raise AttributeError("%s has no function %s; --symbol must name one" % (path, function))
    except Exception as raised:
        answer(connection, INVALID, ("%s: %s" % (type(raised).__name__, raised)).encode())
        return
    answer(connection, OK, b"")
    while True:
        lines, size = struct.unpack("=qq", receive(connection, 16))
        words = receive(connection, lines).decode().splitlines()
        answer(connection, *compute(module, function, words, receive(connection, size)))


if __name__ == "__main__":
    main(*sys.argv[1:])
