"""Fuzz targets of models link where libFuzzer builds them (INLAY_FUZZ), which CI does not: the sources of the executor that
tests/fuzz/CMakeLists.txt names call nothing of it that is in none of them.

    fuzz_sources.py SOURCE BUILD

BUILD has the whole executor, whose objects are looked at."""
import pathlib
import re
import subprocess
import sys

source, build = map(pathlib.Path, sys.argv[1:])
named = re.findall(r"\$\{executor\}/(\S+)\.cpp", (source / "tests/fuzz/CMakeLists.txt").read_text())
objects = []
for name in named:
    found = list((build / "executor/CMakeFiles").glob(f"*/exec/{name}.cpp.o"))
    if len(found) != 1:
        sys.exit(f"tests/fuzz/CMakeLists.txt names executor/exec/{name}.cpp, of which there are {len(found)} objects")
    objects += found
if len(objects) < 5:
    sys.exit(f"{len(objects)} sources are found in tests/fuzz/CMakeLists.txt: the search is broken")


def symbols(which, files):
    lines = subprocess.run(["nm", "-C", which, *files], check=True, capture_output=True, text=True).stdout.splitlines()
    return {match.group(1) for line in lines if (match := re.match(r"\s*[0-9a-f]*\s+[A-Za-z] (.*)$", line))}


# What the libraries have that a fuzz target links beside them.
beside = [build / name for name in ("executor/libinlay_model.a", "executor/libinlay_text.a", "libinlay_files.a",
                                     "libinlay_reference.a")]
missing = symbols("-u", objects) - symbols("--defined-only", [*objects, *beside])
missing = sorted(name for name in missing if name.startswith("inlay::"))
for name in missing:
    print(f"{name} is in no source that tests/fuzz/CMakeLists.txt names")
print(f"{len(objects)} sources of the executor, {len(missing)} missing functions")
sys.exit(bool(missing))
