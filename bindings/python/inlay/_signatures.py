"""What an operator is called with in Python, from the library's fields and the words of its header: for the functions in
operators.py and for the stubs, which are generated as the package is built."""
from __future__ import annotations

import math
import re
from typing import Any

# The name of a result that numpy's functions have.
RENAMED = {"y": "out"}


def in_python(words: str) -> str:
    """Words of the library, with the names that fields have here."""
    return re.sub(r"\by\b", "out", words)


class Field:
    def __init__(self, said: dict[str, Any], described: dict[str, Any]) -> None:
        self.field: str = said["name"]
        self.name = RENAMED.get(self.field, self.field)
        self.role: str = said["role"]
        self.kind: str = said["kind"]
        self.rank: int = said["rank"]
        self.default: Any = said["default"]
        self.words: list[str] = said["words"]
        self.comment = in_python(described["comment"])
        self.shape: list[str] | None = described["shape"] if self.kind == "tensor" else None
        if self.shape is not None and len(self.shape) != self.rank:
            self.shape = None
        self.dtypes: list[str] = described["dtypes"]


class Extents:
    """The extents of shapes by their names: bound by tensors that are given, asked for by those that are to be made."""

    def __init__(self) -> None:
        self.known: dict[str, int] = {}

    def bind(self, shape: list[str], extents: tuple[int, ...]) -> None:
        for text, extent in zip(shape, extents):
            if not any(sign in text for sign in ("|", " or ", "+", "/")):
                self.known.setdefault(text, extent)
        own = dict(zip(shape, extents))  # caches of K and V each have an x
        for text, extent in own.items():
            whole, _, part = text.partition(" / ")
            if part in own and whole.isidentifier():
                self.known.setdefault(whole, extent * own[part])

    def unknown(self, text: str) -> list[str]:
        """The names in an extent that nothing has bound."""
        if text in self.known or text.isdigit():
            return []
        return [name for name in text.split(" * ") if name not in self.known and not name.isdigit()]

    def find(self, text: str) -> int:
        if text in self.known:
            return self.known[text]
        return math.prod(int(name) if name.isdigit() else self.known[name] for name in text.split(" * "))


class Operator:
    def __init__(self, name: str, fields: list[dict[str, Any]], description: dict[str, Any]) -> None:
        self.name = name
        self.words = in_python(description["words"])
        self.fields = [Field(*both) for both in zip(fields, description["fields"])]
        self.results = [field for field in self.fields if field.role == "out"]
        # An optional output that can be asked for by True. Where it "becomes" something it is read as well.
        self.on_request = [field for field in self.fields
                           if self.results and field.role == "optional_out" and field.shape and "becomes" not in field.comment]
        self.positional = [field for field in self.fields if field.role in ("in", "inout")]
        self.named = [field for field in self.fields if field.role not in ("in", "inout", "scalar")]
        self.scalars = [field for field in self.fields if field.role == "scalar"]
        self.extents = self.free_extents()
        self.has_dtype = bool(self.results) and len(self.results[0].dtypes) > 1

    def free_extents(self) -> list[str]:
        """The extents of results that no required tensor tells."""
        bound = Extents()
        for field in self.fields:
            if field.role in ("in", "inout") and field.shape:
                bound.bind(field.shape, (1,) * field.rank)
        free = [name for field in self.results for text in field.shape or [] for name in bound.unknown(text)]
        return [name for name in dict.fromkeys(free) if name.isidentifier()]

    def document(self) -> str:
        """The docstring."""
        lines = [self.words, ""]
        for field in self.positional + self.named + self.scalars:
            what = field.comment or ("as %s's page says" % self.name if field.kind in ("tensor", "list") else "")
            if field.words:
                what = " ".join(field.words) + ("; " + what if what else "")
            if field in self.on_request:
                what += "; True: allocated and returned"
            lines.append("    %-16s %s" % (field.name, what))
        for name in self.extents:
            lines.append("    %-16s extent of what is allocated, where no tensor tells it" % name)
        if self.has_dtype:
            lines.append("    %-16s of %s where it is allocated: by default the first input's, if it may be" % ("dtype", self.results[0].name))
        lines += ["    %-16s who computes: an inlay.Backend or its name; None: the CPU" % "backend", "", "Returns " + self.returned() + ".",
                  "", "Raises TypeError for what is no tensor or scalar of its kind, and for a tensor of the wrong type; ValueError for",
                  "shapes, strides, devices and values outside the contract; NotImplementedError. A refused call has written nothing."]
        return "\n".join(lines).strip("\n")

    def returned(self) -> str:
        if not self.results:
            return "None: tensors are changed in place"
        names = [field.name for field in self.results]
        if self.on_request:
            return "%s, and behind it, in a tuple, %s where given" % (", ".join(names), ", ".join(f.name for f in self.on_request))
        return names[0] if len(names) == 1 else "the tuple (%s)" % ", ".join(names)
