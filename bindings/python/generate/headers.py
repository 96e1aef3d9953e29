"""What the headers of the operators say in their comments: equations, and of each field its shape and types.

  ConstView<2, Space> x;       // [tokens, heads * dim]  f32 f16 bf16; row stride free
"""
from __future__ import annotations

import re
from typing import Any

DTYPES = ("f32", "f16", "bf16", "i8", "u8", "i4", "u4", "i32", "i64", "bool")


def split_shape(text: str) -> list[str] | None:
    """The extents of the shape that a field's comment begins with: ["tokens", "heads * dim"]."""
    if not text.startswith("["):
        return None
    depth, extents, begin = 0, [], 1
    for at, character in enumerate(text):
        depth += character in "[(" 
        depth -= character in "])"
        if (character == "," and depth == 1) or depth == 0:
            extents.append(text[begin:at].strip())
            begin = at + 1
        if depth == 0:
            return extents
    return None


def find_dtypes(text: str) -> list[str]:
    """Types in the order of the comment, up to its first remark: ["f32", "x's"]."""
    remainder = re.sub(r"^\[[^\]]*\]", "", text)
    words = re.findall(r"\w+'s(?= type)|\b(?:%s)\b" % "|".join(DTYPES), re.split(r"[;:(]", remainder)[0])
    return list(dict.fromkeys(words))


def comments_of(struct: str) -> dict[str, str]:
    """The comment of each member: behind it, in the lines below that begin further right, or in lines of their own above."""
    comments: dict[str, str] = {}
    above, last = [], None
    for line in struct.splitlines():
        if alone := re.match(r"^( *)// ?(.*)$", line):
            if len(alone[1]) > 2 and last is not None:
                comments[last] += " " + alone[2].strip()
            else:
                above.append(alone[2].strip())
            continue
        code, _, comment = line.partition("//")
        names = re.match(r"^  (?:const )?[\w:]+(?:<.*>)? (\w+(?: = [^,;{]+|(?: = )?\{\})?(?:, \w+(?: = [^,;]+)?)*);", code)
        if names is None:
            above, last = [], None
            continue
        for each in names[1].split(", "):
            last = each.split(" ")[0].rstrip("{}")
            comments[last] = " ".join([comment.strip()] if comment else above)
        above = []
    return comments


def equation_of(header: str, beginning: str) -> str:
    """The comment at the head of a file, without the marks of a comment."""
    lines = []
    for line in header.splitlines():
        if not line.startswith("//"):
            break
        lines.append(line[3:].rstrip())
    return "\n".join(lines).strip("\n")


def read(header: str) -> dict[str, dict[str, Any]]:
    """By the name of each operator of a header: its words, and what it says of its fields."""
    operators: dict[str, dict[str, Any]] = {}
    for struct in re.findall(r"^template <class \w+ = Host.*?> struct \w+ \{\n(.*?)^\};$", header, re.M | re.S):
        name = re.search(r'string_view name = "(\w+)"', struct)
        if name is None:
            continue
        comments = comments_of(struct.split("static constexpr std::string_view name")[0])
        operators[name[1]] = {
            "words": equation_of(header, name[1]),
            "fields": {field: {"comment": re.sub(r"\s+", " ", comment), "shape": split_shape(comment), "dtypes": find_dtypes(comment)}
                       for field, comment in comments.items()}}
    return operators
