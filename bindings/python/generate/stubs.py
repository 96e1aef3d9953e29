"""operators.pyi: the signature of each operator for mypy and editors."""
from __future__ import annotations

import math
from typing import Any

HEADER = '''# Generated as the package is built, from the library's fields.
from typing import Any, Literal, Optional, Sequence, TypeVar, Union, overload

from numpy.typing import DTypeLike, NDArray

from ._backend import Backend
from ._tensors import Tensor

T = TypeVar("T", bound=Tensor)
float_inf: float
'''
TYPES = {"integer": "int", "number": "float", "flag": "bool"}


LEFT_OUT = "None = None"


def literal(value: Any) -> str:
    return "float_inf" if isinstance(value, float) and math.isinf(value) else repr(value)


def scalar(field: Any) -> str:
    kind = "Literal[%s]" % ", ".join(map(repr, field.words)) if field.words else TYPES[field.kind]
    return "%s: %s = %s" % (field.name, kind, literal(field.default))


def signature(op: Any, result: str, out: str, requested: str, overloaded: bool) -> str:
    """One signature, where results are declared as `out` and outputs on request as `requested`."""
    rows = ["%s: Tensor" % field.name for field in op.positional] + ["*"]
    for field in op.named:
        if field.role == "in_list":
            rows.append("%s: Optional[Sequence[Tensor]] = None" % field.name)
        elif field in op.results:
            rows.append(field.name + ": " + out)
        elif field in op.on_request:
            # Where several can be asked for, none is without the first.
            first = field is op.on_request[0]
            rows.append(field.name + ": " + (requested if first or requested == LEFT_OUT else "Union[%s, None] = None" % requested))
        else:
            rows.append("%s: Optional[Tensor] = None" % field.name)
    rows += [scalar(field) for field in op.scalars]
    rows += ["%s: Optional[int] = None" % name for name in op.extents]
    rows += ["dtype: Optional[DTypeLike] = None"] * op.has_dtype
    rows.append("backend: Union[Backend, str, None] = None")
    return "%sdef %s(\n    %s,\n) -> %s: ..." % ("@overload\n" if overloaded else "", op.name, ",\n    ".join(rows), result)


def write(operators: list[Any]) -> str:
    blocks = [HEADER, "__all__ = [%s]" % ", ".join('"%s"' % op.name for op in operators)]
    for op in operators:
        array, given, maybe = "NDArray[Any]", "T", "Optional[Tensor] = None"
        if not op.results:
            blocks.append(signature(op, "None", "", "Optional[Tensor] = None", False))
        elif len(op.results) > 1:
            blocks.append(signature(op, "tuple[%s]" % ", ".join(["Any"] * len(op.results)), maybe, maybe, False))
        else:
            blocks.append(signature(op, array, LEFT_OUT, LEFT_OUT, True))
            blocks.append(signature(op, given, "T", LEFT_OUT, True))
            if op.on_request:
                blocks.append(signature(op, "tuple[Any, ...]", maybe, "Union[Tensor, Literal[True]]", True))
    return "\n\n".join(blocks) + "\n"
