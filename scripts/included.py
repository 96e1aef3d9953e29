#!/usr/bin/env python3
"""What sources include, be it through other headers: what is read before a source hides nothing that it lacks.

    scripts/included.py HEADER SOURCE..     prints the sources that do not include the header, one a line
"""
import functools
import os
import re
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


@functools.lru_cache(maxsize=None)
def directives(path):
    """What a file includes itself, except under a condition."""
    names, depth = [], 0
    with open(path) as file:
        for line in file:
            directive = re.match(r'\s*#\s*(if|endif|include\s*[<"]([^>"]+))', line)
            if not directive:
                continue
            depth += {"if": 1, "endif": -1}.get(directive[1], 0)
            if directive[2] and depth == 0:
                names.append(directive[2])
    return names


def includes(source):
    """What a source includes, be it through other headers of this project."""
    names, files = set(), [source]
    for file in files:
        for name in directives(file):
            if name not in names:
                names.add(name)
                places = (os.path.join(room, name) for room in (os.path.dirname(file), ROOT, f"{ROOT}/include"))
                files += [place for place in places if os.path.exists(place)][:1]
    return names


if __name__ == "__main__":
    for each in sys.argv[2:]:
        if not os.path.exists(each) or sys.argv[1] not in includes(each):  # what is made later is not there yet
            print(each)
