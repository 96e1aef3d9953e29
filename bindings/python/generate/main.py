"""descriptions.json, which the package reads as it is imported, and operators.pyi, which mypy reads, from the library's
fields and the comments of the headers.

  main.py --core FOLDER --output FOLDER HEADER ..       FOLDER of the extension _core
"""
from __future__ import annotations

import argparse
import json
import pathlib
import sys

import headers


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--core", required=True)
    parser.add_argument("--output", type=pathlib.Path, required=True)
    parser.add_argument("headers", nargs="+", type=pathlib.Path)
    options = parser.parse_args()
    sys.path.insert(0, options.core)
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "inlay"))
    import _core
    import _signatures
    import stubs

    found = {}
    for header in options.headers:
        found.update(headers.read(header.read_text()))
    descriptions = {}
    for op in _core.operators():
        if op not in found:
            sys.exit("no header describes " + op)
        fields = []
        for field in _core.fields(op):
            said = found[op]["fields"].get(field["name"])
            if said is None:
                sys.exit("the header of %s does not declare its field %s" % (op, field["name"]))
            fields.append({**said, "name": field["name"]})
        descriptions[op] = {"words": found[op]["words"], "fields": fields}
    (options.output / "descriptions.json").write_text(json.dumps(descriptions, indent=1) + "\n")
    operators = [_signatures.Operator(op, _core.fields(op), descriptions[op]) for op in _core.operators()]
    (options.output / "operators.pyi").write_text(stubs.write(operators))


main()
