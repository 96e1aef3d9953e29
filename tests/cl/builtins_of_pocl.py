#!/usr/bin/env python3
"""The declarations of OpenCL's functions that our kernels name, out of the header in which PoCL has all of them.

    tests/cl/builtins_of_pocl.py /usr/share/pocl/include/opencl-c.h cl_kernels OUTPUT

PoCL reads 14,500 declarations for each program, which is half of what it takes to build one that is not optimized. A
program with -D _OPENCL_H_ reads none of them, and with -D INLAY_CL_DECLARATIONS=<OUTPUT> these. All overloads of a name
are kept or none, so a call means the same; one that nobody declares is an error.
"""
import pathlib
import re
import sys


def without_comments(text):
    return re.sub(r"//[^\n]*", "", re.sub(r"/\*.*?\*/", "", text, flags=re.S))


def bare(name):
    """Kernels paste numbers into names: vload_half##n, convert_char##n##_sat_rte."""
    return re.sub(r"\d+", "", name)


def statements(text):
    """A header's directives and declarations, one after the other."""
    statement = ""
    for line in text.replace("\\\n", " ").splitlines():
        if line.startswith("#"):
            yield from filter(None, [statement, line])
            statement = ""
        elif line.strip():
            statement += line + "\n"
            if line.rstrip().endswith((";", "}")):
                yield statement
                statement = ""


def main(header, kernels, output):
    files = [path for path in sorted(pathlib.Path(kernels).rglob("*.cl*")) if path.suffix in (".cl", ".clh")]
    known = {bare(word) for path in files for word in re.findall(r"\w+", without_comments(path.read_text()))}
    lines = ["#undef _OPENCL_H_"]
    for statement in statements(without_comments(pathlib.Path(header).read_text())):
        name = re.search(r"(\w+)\s*\(", re.sub(r"__attribute__\(\(.*?\)\)", "", statement))
        if statement.startswith("#include"):
            continue  # opencl-c-base.h, which PoCL has read
        if statement.startswith("#") or not name or bare(name[1]) in known:
            lines.append(statement.rstrip("\n"))
    pathlib.Path(output).write_text("\n".join(lines) + "\n")


main(*sys.argv[1:])
