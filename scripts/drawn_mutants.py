"""Which routine mistakes (routine_mistakes.py) are planted, from the sources of an operator or of a room:
scripts/mutate.sh --draw. docs/testing.md says when a bug is planted by hand instead.

The draw depends on the seed and on the sources alone. What no result can show is not drawn: comments, assertions,
preprocessor lines, what the machine's levels do not compile, and how work is cut (Work, grains, prefetches).
"""

import collections
import functools
import random
import re
from pathlib import Path

from routine_mistakes import blanked, changes, without_dead

ROOT = Path(__file__).resolve().parent.parent
EQUIVALENT = ROOT / "tests" / "mutants" / "equivalent.list"

NO_RESULT = re.compile(r"static_assert|\bassert\(|\busing\b|\btemplate <|#|\bnamespace\b|__attribute__|\bpragma\b")
# Only time tells these from others: how work is handed out, what is fetched ahead. The tile machine's result is time.
NO_TIME = re.compile(r"\bWork\b|grain|[Pp]refetch|PREFETCH|reserve\(|\.operations|\.bytes|work\b|\bunlikely\b")

# Where tests are no operator's: the sources that their room is for.
ROOMS = {"core": ["files", "cpu_kernels/threads", "cpu_kernels/cpu.cpp", "include/inlay/core"],
         "simd": ["cpu_kernels/simd", "include/inlay/core/elementary.hpp"],
         "cl": ["cl_kernels/runtime", "cl_kernels/tuning", "cl_kernels/support", "cl_kernels/cl.cpp",
                "include/inlay/cl.hpp"],
         "npu": ["npu_kernels/backend", "tile_machine/estimate"],
         "text": ["executor/text"], "model": ["executor/model"], "exec": ["executor/exec", "include/inlay/exec"],
         "machine_run": ["tile_machine/run", "tile_machine/arithmetic"]}
ROOMS |= {f"machine_{room}": [f"tile_machine/{room}"] for room in ("check", "device", "events", "fit", "time")}


@functools.cache
def included(path):
    """What a file includes of this project; with a header its definitions, with a launch its OpenCL program."""
    text = (ROOT / path).read_text()
    near = re.findall(r'#include ["<]([\w/]+\.\w+)[">]', text)
    near = [f"include/{name}" if name.startswith("inlay/") else name for name in near]
    near += [f"cl_kernels/{name}.cl" for name in re.findall(r'\bProgramKey(?: \w+)?\("([\w/]+)"', text)]
    if path.endswith(".hpp"):
        near.append(path[:-3] + "cpp")
    return {name for name in near if (ROOT / name).is_file()}


def operators():
    return sorted(path.stem for path in (ROOT / "include" / "inlay" / "ops").glob("*.hpp"))


def weights_of(operator):
    """What lays out its weights: linear_int8_pack.hpp is linear_int8's and not linear's."""
    for path in (ROOT / "include" / "inlay" / "weights").glob("*.hpp"):
        owners = [name for name in operators() if path.stem.startswith(name + "_")]
        if owners and max(owners, key=len) == operator:
            yield str(path.relative_to(ROOT))


@functools.cache
def reached(operator):
    """Its own files and all that they include, in any backend, but the runtimes, which have tests of their own."""
    todo = [f"cpu_kernels/{operator}.hpp", f"cl_kernels/{operator}.cpp", f"npu_kernels/{operator}.cpp",
            f"include/inlay/ops/{operator}.hpp", f"reference/{operator}.cpp", *weights_of(operator)]
    found = set()
    while todo:
        path = todo.pop()
        if path not in found and (ROOT / path).is_file() and not path.startswith(
                ("tile_machine/", "cl_kernels/runtime/", "npu_kernels/backend/")):
            found.add(path)
            todo += included(path)
    return found


@functools.cache
def of_every_operator():
    """What half of the operators include: no operator's own."""
    count = collections.Counter(path for operator in operators() for path in reached(operator))
    return {path for path, users in count.items() if users > len(operators()) / 2}


def room_of(name):
    rooms = [room for room in ROOMS if f"{name}_".startswith(room + "_")]
    return max(rooms, key=len, default=None)


@functools.cache
def files_of(room):
    paths = [ROOT / path for path in ROOMS[room]]
    files = [file for path in paths for file in (path.rglob("*") if path.is_dir() else [path])]
    return sorted(str(file.relative_to(ROOT)) for file in files if file.suffix in (".cpp", ".hpp", ".cl", ".clh"))


@functools.cache
def tests_of(room):
    """By test what its source includes, also by way of the tests' own headers."""
    folder = "tile_machine/tests/" + room[8:] if room.startswith("machine_") else f"tests/{room}"
    found = {}
    for source in sorted((ROOT / folder).glob("*.cpp")):
        if room == "core" and source.stem.startswith("simd"):
            continue
        todo, named = [str(source.relative_to(ROOT))], set()
        while todo:
            names = included(todo.pop()) - named
            named |= names
            todo += [name for name in names if "tests/" in name]
        found[f"{room}_{source.stem}"] = named
    return found


@functools.cache
def tests_for(name, path):
    """The tests of which one must fail: an operator's; of a room's the file's own, those that include it, or all."""
    room = room_of(name)
    if name in operators() or room is None:
        return (name,)
    if room == "simd":
        level = re.search(r"avx512|scalar", path)
        return (f"simd_{level.group() if level else 'avx2'}",)
    tests = tests_of(room)
    own = f"{room}_{Path(path).stem}"
    if name in tests:
        return (name,)
    header = re.sub(r"\.cpp$", ".hpp", path)
    found = [test for test in tests if test == own or header in tests[test]]
    return tuple(sorted(found, key=own.__ne__)) or tuple(tests)


@functools.cache
def sources(name):
    """By backend the files of an operator, of a room, or of one of its tests, and what the list of that name names."""
    listed = ROOT / "tests" / "mutants" / f"{name}.txt"
    paths = set(re.findall(r"^\w+(?:/[\w.]+)+$", listed.read_text(), re.M)) if listed.is_file() else set()
    room = room_of(name)
    if name in operators():
        paths |= reached(name) - of_every_operator()
    elif room:
        for path in files_of(room):
            tests = tests_for(room, path)
            if name in (*tests, room) and (len(tests) == 1 or name == room):
                paths.add(path)
    if name == "core":  # a header that none of its tests includes is the operators'
        every = tuple(tests_of(name))
        paths = {path for path in paths if not path.startswith("include/") or tests_for(name, path) != every}
    found = {"cpu": [], "cl": [], "npu": [], "shared": []}
    for path in sorted(paths):
        backend = path.split("_kernels/")[0] if "_kernels/" in path else "shared"
        if (ROOT / path).is_file() and "neon" not in path:
            found[backend].append(path)
    return found


def equivalents():
    """(file, line before, line after) of mutants that change no result; a line that begins with = says why."""
    known, path, old = set(), None, None
    for line in EQUIVALENT.read_text().splitlines() if EQUIVALENT.is_file() else []:
        if line.startswith("- "):
            old = line[2:].strip()
        elif line.startswith("+ "):
            known.add((path, old, line[2:].strip()))
        elif line and line[0] not in "#=":
            path = line.strip()
    return known


class Drawn:
    """One change at one place, as scripts/mutate.py plants it."""

    def __init__(self, operator, path, text, begin, end, new):
        self.list, self.tests, self.level, self.path = operator, tests_for(operator, path), None, path
        self.begin, self.end, self.text, self.change = begin, end, text, new
        self.line = text.count("\n", 0, begin) + 1
        if path.startswith("cl_kernels/") and room_of(operator) is None:
            self.level = "opencl"
        elif room_of(operator) == "simd":
            self.level = self.tests[0].removeprefix("simd_")
        first, last = text.rfind("\n", 0, begin) + 1, text.find("\n", end)
        self.before, self.after = text[first:last].strip(), (text[first:begin] + new + text[end:last]).strip()

    def __str__(self):
        return f"{self.list}/{self.path}:{self.line}"

    def apply(self, text):
        assert text == self.text
        return text[:self.begin] + self.change + text[self.end:]

    def wrong(self):
        return None

    def shown(self):
        return f"\n      - {self.before}\n      + {self.after}"


@functools.cache
def all_of(operator, path):
    text = (ROOT / path).read_text()
    code = without_dead(blanked(text))
    found = []
    for begin, end, new in changes(code):
        first, last = code.rfind("\n", 0, begin) + 1, code.find("\n", end)
        line = code[first:last]
        if NO_TIME.search(line) and not path.startswith("tile_machine/"):
            continue
        if NO_RESULT.search(line) and not (path.endswith((".cl", ".clh")) and "#define" in line):
            continue
        if code[begin:end] != text[begin:end] and new not in (";", "0", "true", "false"):
            continue  # a string or a comment stands there
        if code[begin:end].split() != new.split():
            found.append(Drawn(operator, path, text, begin, end, new))
    return found


def draw(operator, count, seed):
    """`count` mutants, as many of each backend as it has. One line gives one at most, while there are others."""
    rng, known, chosen = random.Random(f"{operator} {seed}"), equivalents(), []
    pools = {}
    for backend, paths in sources(operator).items():
        pool = [m for path in paths for m in all_of(operator, path)
                if (m.path, m.before, m.after) not in known]
        rng.shuffle(pool)
        lines = set()
        pools[backend] = sorted(pool, key=lambda m: ((m.path, m.line) in lines, lines.add((m.path, m.line)))[0])
    while len(chosen) < count and any(pools.values()):
        for pool in pools.values():
            if pool and len(chosen) < count:
                chosen.append(pool.pop(0))
    return chosen
