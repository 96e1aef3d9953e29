#!/usr/bin/env python3
"""clang's warnings about what only g++ has compiled: reads those sources in a fraction of the time of compiling them.

    scripts/clang_reads.py build/release [build/asan]

reads each source that build/release compiles and build/asan, which is clang's, does not compile by itself; all of them
where there is no such build. Says what clang says and exits with 1 if it refuses any.
"""
import functools
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

# Headers that clang reads once for all sources that include them: a source begins with the first row of which it
# includes all. So it is given nothing that it does not ask for, and what it fails to include is still an error.
HEADS = [
    ["tests/support/backends.hpp", "Eigen/Core"],
    ["tests/support/backends.hpp"],
    ["gtest/gtest.h", "tile_machine/tests/support/programs.hpp"],
    ["gtest/gtest.h", "tile_machine/run/machine.hpp"],
    ["gtest/gtest.h", "filesystem"],
    ["gtest/gtest.h"],
    ["bench/support/measure.hpp"],
    ["cl_kernels/runtime/runtime.hpp"],
    ["inlay/cl.hpp"],
]

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


def commands(build):
    """Source -> how it is compiled alone; and the same of those that are compiled together (INLAY_TOGETHER)."""
    with open(os.path.join(build, "compile_commands.json")) as file:
        entries = json.load(file)
    alone, together = {}, {}
    for entry in entries:
        if "/Unity/" not in entry["file"]:
            alone[entry["file"]] = entry
            continue
        with open(entry["file"]) as unit:
            together.update((source, {**entry, "file": source}) for source in re.findall(r'#include "(.*)"', unit.read()))
    return alone, together


def clang(words, folder):
    # What g++ is told about its own warnings and memory is nothing to clang.
    silent = ["-Wno-unknown-warning-option", "-Wno-unused-command-line-argument"]
    done = subprocess.run(["clang++", *silent, *words], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    return done.returncode, done.stdout


def options_of(entry):
    words = shlex.split(entry["command"])
    words = words[1 + os.path.basename(words[0]).startswith("ccache"):]
    # Nothing is written, and each source says itself what it includes (INLAY_PRECOMPILE).
    for option in ("-o", "-include", "-c"):
        if option in words:
            at = words.index(option)
            del words[at:at + 2]
    # What clang does not know, and has no need of: its symbols of that kind are weak.
    return tuple(word for word in words if word != "-fno-gnu-unique")


def head_of(entry):
    """What a source may begin with: the directory and the options it is compiled with, and headers."""
    found = includes(entry["file"])
    head = next((tuple(head) for head in HEADS if found.issuperset(head)), None)
    return entry["directory"], options_of(entry), head


def read_heads(entries, pool, folder):
    """Heads that several sources begin with -> their precompiled header; and the results of reading them."""
    shared = [head for head, sources in Counter(map(head_of, entries)).items() if head[2] and sources > 2]
    precompiled = {head: os.path.join(folder, f"{number}.pch") for number, head in enumerate(shared)}

    def read(head):
        directory, options, headers = head
        text = precompiled[head].replace(".pch", ".hpp")
        with open(text, "w") as file:
            file.writelines(f"#include <{header}>\n" for header in headers)
        # What a head needs of templates is instantiated with it, not once more by each source (2.9 s -> 1.9 s for one).
        options_once = [*options, "-Xclang", "-fpch-instantiate-templates"]
        return clang([*options_once, "-x", "c++-header", text, "-o", precompiled[head]], directory)

    return precompiled, list(pool.map(read, shared))


def main():
    alone, together = commands(sys.argv[1])
    by_clang = commands(sys.argv[2])[0] if len(sys.argv) > 2 else {}
    compiled = {**alone, **together}
    entries = [entry for file, entry in compiled.items() if file not in by_clang and "/tests/consumer/" not in file]
    if not entries:
        sys.exit("nothing to read: is this clang's own build?")
    with ThreadPoolExecutor(os.cpu_count()) as pool, tempfile.TemporaryDirectory() as folder:
        precompiled, results = read_heads(entries, pool, folder)

        def read(entry):
            head = head_of(entry)
            begin = ["-include-pch", precompiled[head]] if head in precompiled else []
            return clang([*head[1], *begin, "-fsyntax-only", entry["file"]], entry["directory"])

        results += pool.map(read, entries)
    for _, text in results:
        print(text, end="")
    refused = sum(code != 0 for code, _ in results)
    print(f"clang read {len(entries)} sources and refused {refused}")
    sys.exit(1 if refused else 0)


if __name__ == "__main__":
    main()
