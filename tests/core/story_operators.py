"""What scripts/run.sh builds for a story is enough: `inlay` calls no operator of the CPU that is not of its list.

    story_operators.py SOURCE BUILD

BUILD has all operators. Parts of the command line that run.sh leaves out for a story, or builds with all operators, are not asked."""
import pathlib
import re
import subprocess
import sys

source, build = map(pathlib.Path, sys.argv[1:])
LEFT_OUT = ("kernels", "npu", "serve", "verify.cpp", "tune.cpp", "cl_devices.cpp")

# As run.sh finds them.
story = {match for folder in ("exec", "exec/*", "model", "weights") for header in (source / "include/inlay").glob(folder + "/*.hpp")
         for match in re.findall(r"^#include <inlay/ops/(.*)\.hpp>", header.read_text(), re.M)}
stem_of = {name: header.stem for header in (source / "include/inlay/ops").glob("*.hpp")
           for name in re.findall(r"^template <class \w+(?: = \w+)?>\s*struct (\w+)", header.read_text(), re.M)}

called = {}
tools = build / "tools/CMakeFiles/inlay.dir"
# A folder's objects, or those of its files that are compiled together (INLAY_TOGETHER).
objects = [path for path in tools.rglob("*.o")
           if not re.sub(r"^Unity/unity_of_", "", str(path.relative_to(tools))).startswith(LEFT_OUT)]
objects += (build / "executor/CMakeFiles").glob("inlay_exec.dir/**/*.o")
objects += (build / "executor/CMakeFiles").glob("inlay_engine_*.dir/**/*.o")
for path in objects:
    undefined = subprocess.run(["nm", "-uC", path], check=True, capture_output=True, text=True).stdout
    for name in re.findall(r"inlay::cpu::compute<[\w:]+, inlay::(\w+)<inlay::(?:v\d+_\d+::)?Host>", undefined):
        called.setdefault(stem_of.get(name, name), path.name)

missing = {operator: where for operator, where in called.items() if operator not in story}
for operator, where in sorted(missing.items()):
    print("%s calls %s, which scripts/run.sh does not build for a story" % (where, operator))
if len(called) < 10:
    sys.exit("only %d operators are called, of %d objects: the search is broken" % (len(called), len(objects)))
print("%d operators are called, of %d in the list" % (len(called), len(story)))
sys.exit(bool(missing))
