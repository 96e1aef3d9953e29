"""Who computes."""
from __future__ import annotations

from typing import Union

from . import _core

Backend = _core.Backend
_opened: dict[str, _core.Backend] = {}


def backend(name: str = "cpu", *, isa: str | None = None, threads: int = 0) -> _core.Backend:
    """Opens a backend: "cpu", or "reference", the textbook in double. `isa`: an instruction set, "avx2" and the like, in place of
    the best that the machine has. `threads`: 0 is as many as the process may use. Any thread may use it at any time."""
    return _core.open_backend(name, isa, threads)


def resolve(given: Union[_core.Backend, str, None]) -> _core.Backend:
    """A backend as operators are given it: one, its name, or None for the CPU."""
    if isinstance(given, Backend):
        return given
    name = "cpu" if given is None else given
    if not isinstance(name, str):
        raise TypeError("backend is of type %s; it must be an inlay.Backend or a name" % type(given).__name__)
    if name not in _opened:
        _opened[name] = backend(name)
    return _opened[name]
