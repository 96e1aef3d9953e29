"""Routine mistakes, made by rule from the sources of an operator or of a room: scripts/mutate.sh --draw.
docs/testing.md says when a bug is planted by hand instead.

    drop     a + b -> a, or b      of + - * / % << >> & | && ||, of c ? a : b and of min(a, b)
             f(a) -> a             and -a -> a; load(a, n) -> load(a): all of a register
    operator < -> <=   + -> -      each to its likeliest slip
    one      3 -> 4, or 2          an integer; a real 0.5 -> 1.001 * 0.5
             i < n -> i + 1 < n    where a loop ends; (a + n - 1) / n -> a / n
    bound    min -> max
    swap     a - b -> b - a        and two arguments that stand side by side
    delete   a statement
    negate   if (a) -> if (!(a))   and if (true), if (false)
    other    op.x. -> op.y.        another operand that the file asks for the same, another enumerator of its type
             a[i] -> a[0]          and k -> v, strides -> extents
    type     uint8_t -> int8_t     and of rounding: nearbyint -> floor

The draw depends on the seed and on the sources alone. What no result can show is not drawn: comments, assertions,
preprocessor lines, what the machine's levels do not compile, and how work is cut (Work, grains, prefetches).
"""

import collections
import functools
import random
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
EQUIVALENT = ROOT / "tests" / "mutants" / "equivalent.list"

SLIPS = {"<": ["<="], "<=": ["<"], ">": [">="], ">=": [">"], "==": ["!="], "!=": ["=="], "&&": ["||"], "||": ["&&"],
         "+": ["-"], "-": ["+"], "*": ["/"], "/": ["*"], "%": ["/"], "+=": ["-=", "="], "-=": ["+="], "|=": ["="],
         "&=": ["="], "<<": [">>"], ">>": ["<<"], "|": ["&"], "&": ["|"]}
PRECEDENCE = {"*": 6, "/": 6, "%": 6, "+": 5, "-": 5, "<<": 4, ">>": 4, "<": 3, "<=": 3, ">": 3, ">=": 3, "==": 3,
              "!=": 3, "&": 2, "|": 2, "&&": 1, "||": 1}
BOUNDS = {"min": "max", "max": "min", "fmin": "fmax", "fmax": "fmin", "std::min": "std::max", "std::max": "std::min"}
ROUNDINGS = {"nearbyint": "floor", "rint": "floor", "_MM_FROUND_TO_NEAREST_INT": "_MM_FROUND_TO_ZERO",
             "cvtps_epi32": "cvttps_epi32"}
COMPARISONS = ("<", "<=", ">", ">=", "==", "!=")
# A call stands behind one of these, a declaration does not.
EXPRESSION = r"(?:(?<=[(\[!])|(?<=[=,?:<>+*/&|-] )|(?<=return )|(?<=[({;] )|(?<=\n))"
NO_RESULT = re.compile(r"static_assert|\bassert\(|\busing\b|\btemplate <|#|\bnamespace\b|__attribute__|\bpragma\b")
# Only time tells these from others: how work is handed out, what is fetched ahead. The tile machine's result is time.
NO_TIME = re.compile(r"\bWork\b|grain|[Pp]refetch|PREFETCH|reserve\(|\.operations|\.bytes|work\b|\bunlikely\b")
# Not compiled on the machines that plant mutants.
DEAD = re.compile(r"__ARM|__aarch64__|NEON|CL_VERSION_1|__clang__")


def blanked(text):
    """Comments and strings become spaces: places stay what they are."""
    pattern = re.compile(r"//[^\n]*|/\*.*?\*/|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])+'", re.S)
    return pattern.sub(lambda m: re.sub(r"[^\n]", " ", m.group()), text)


def without_dead(text):
    """Branches of the preprocessor that DEAD names become spaces."""
    lines, stack = text.split("\n"), []
    for i, line in enumerate(lines):
        if m := re.match(r"\s*#\s*if(.*)", line):
            stack.append(bool(DEAD.search(m.group(1))) or m.group(1).strip() == "0")
        elif re.match(r"\s*#\s*el", line) and stack:
            stack[-1] = False
        elif re.match(r"\s*#\s*endif", line) and stack:
            stack.pop()
        if any(stack):
            lines[i] = " " * len(line)
    return "\n".join(lines)


def operand_end(code, i, strength):
    """Where the operand that begins at i ends: before a looser operator, a comma or what closes."""
    depth = 0
    while i < len(code):
        c = code[i]
        if c in "([{":
            depth += 1
        elif c in ")]}":
            if depth == 0:
                return i
            depth -= 1
        elif depth == 0:
            if c in ",;?:" and code[i:i + 2] != "::" and code[i - 1] != ":":
                return i
            if m := re.match(r" (\S+) ", code[i:]):
                if m.group(1) in PRECEDENCE and PRECEDENCE[m.group(1)] <= strength or m.group(1) in ("=", "?", ":"):
                    return i
        i += 1
    return i


def operand_begin(code, i, strength):
    """Where the operand that ends at i begins."""
    depth = 0
    while i > 0:
        c = code[i - 1]
        if c in ")]}":
            depth += 1
        elif c in "([{":
            if depth == 0:
                return i
            depth -= 1
        elif depth == 0:
            if c in ",;?" or c == ":" and code[i - 2] != ":" and code[i:i + 1] != ":":
                return i + (code[i] == " ")
            if m := re.search(r" (\S+) $", code[max(0, i - 6):i]):
                word = m.group(1)
                if word in PRECEDENCE and PRECEDENCE[word] < strength or word.endswith("=") and word not in PRECEDENCE:
                    return i
            if re.search(r"\breturn $", code[max(0, i - 7):i]):
                return i
        i -= 1
    return i


def arguments(code, i):
    """(begin, end) of each argument of the call whose bracket opens at i."""
    depth, found, begin = 0, [], i + 1
    for i in range(i, len(code)):
        if code[i] in "([{":
            depth += 1
        elif code[i] in ")]}":
            depth -= 1
            if depth == 0:
                return found + [(begin, i)]
        elif code[i] == "," and depth == 1:
            found.append((begin, i))
            begin = i + 2
    return found


def are_closed(text):
    return all(text.count(a) == text.count(b) for a, b in ("()", "[]"))


def of_calls(code):
    found = []
    for m in re.finditer(EXPRESSION + r" *((?!if|for|while|switch|return)[a-z_][\w:.]*)(?:<[\w, :{}*]*>)?\(", code):
        places = arguments(code, m.end() - 1)
        texts = [code[begin:end].strip() for begin, end in places]
        is_declared = m.group(1).endswith("_") or any(re.search(r"\w[>&*]* \w", text) for text in texts)
        if is_declared or not all(texts):  # a member's constructor, a function, a lambda
            continue
        end = places[-1][1]
        if len(texts) == 1 and re.fullmatch(r"(?:std::|simd::|__builtin_)?\w+(?<!_cast)", m.group(1)):
            found.append((m.start(1), end + 1, texts[0]))
        if len(texts) > 1 and re.search(r"(?:load|store)$", m.group(1)):  # a whole register for a part of one
            found.append((places[-2][1], end, ""))
        if len(texts) == 2 and m.group(1) in BOUNDS:
            found += [(m.start(1), end + 1, text) for text in texts]
        elif not re.search(r"(?:^|_)(?:add|mul|and|or|xor|min|max)(?:_\w+)?$", m.group(1)):  # those commute
            found += [(a[0], b[1], f"{code[b[0]:b[1]]}, {code[a[0]:a[1]]}") for a, b in zip(places, places[1:])]
    return found


def of_names(code):
    """One name for another of its kind."""
    found = []
    operand = r"\b(?:op|p|args)\.(?P<name>\w+)(?P<kind>\.\w+|[,)])"
    enumerator = r"\b(?P<kind>[A-Z]\w*)::(?P<name>[a-z]\w*)\b(?![(<{])"
    for pattern in (operand, enumerator):
        names = {}
        for m in re.finditer(pattern, code):
            names.setdefault(m["kind"], set()).add(m["name"])
        for m in re.finditer(pattern, code):
            others = sorted(names[m["kind"]] - {m["name"]})
            found += [(m.start("name"), m.end("name"), other) for other in others[:2]]
    for m in re.finditer(r"\b([kv])(?=[._]\w)", code):
        found.append((m.start(), m.end(), "v" if m.group() == "k" else "k"))
    for m in re.finditer(r"\b(strides|extents)(?=\[)", code):
        found.append((m.start(), m.end(), "extents" if m.group() == "strides" else "strides"))
    for m in re.finditer(r"(?<=[\w)\]])\[([^\[\]]*[A-Za-z_][^\[\]]*)\]", code):
        found.append((m.start(1), m.end(1), "0"))
    for m in re.finditer(r"\bstd::(u?)int(\d+)_t\b", code):
        found.append((m.start(), m.end(), f"std::{'' if m.group(1) else 'u'}int{m.group(2)}_t"))
    for m in re.finditer(r"(?<=_cvtep)([iu])(?=\d)", code):
        found.append((m.start(), m.end(), "u" if m.group() == "i" else "i"))
    for m in re.finditer("|".join(ROUNDINGS), code):
        found.append((m.start(), m.end(), ROUNDINGS[m.group()]))
    return found


def changes(code):
    """(begin, end, what takes its place) for every routine mistake, by place."""
    found = of_calls(code) + of_names(code)
    signs = r"\+|-|\*|/|%|<<|>>|<=?|>=?|==|!=|&&|\|\||[+|&-]=|&|\|"
    for m in re.finditer(rf"(?<=[\w)\]}}]) ({signs}) (?=[\w({{\[!*&-])", code):
        sign, begin, end = m.group(1), m.start(1), m.end(1)
        if sign in ("+=", "-=") and re.search(r"\bfor \((?:[^(){}]|\([^()]*\))*$", code[max(0, begin - 160):begin]):
            continue  # it would not end
        found += [(begin, end, slip) for slip in SLIPS.get(sign, [])]
        if sign not in PRECEDENCE:
            continue
        left, right = operand_begin(code, m.start(), PRECEDENCE[sign]), operand_end(code, m.end(), PRECEDENCE[sign])
        a, b = code[left:m.start()].strip(), code[m.end():right].strip()
        if not a or not b or "\n\n" in code[left:right]:
            continue
        if sign not in COMPARISONS:
            found += [(left, right, a), (left, right, b)]
        if sign in ("-", "/"):
            found.append((left, right, f"{b} {sign} {a}"))
    for m in re.finditer(r"(?<=[\w)\]}]) \? ", code):
        middle, left = operand_end(code, m.end(), 0), operand_begin(code, m.start(), 0)
        if code[middle:middle + 2] not in (": ", " :") and code[middle:middle + 1] != ":":
            continue
        after = code.index(":", middle) + 1
        right = operand_end(code, after + 1, 0)
        found += [(left, right, code[m.end():middle].strip()), (left, right, code[after:right].strip())]
    for m in re.finditer(r"(?<![\w.\"])(\d{1,4})(?![\w.\"'])", code):
        found += [(m.start(), m.end(), str(int(m.group()) + step)) for step in (1, -1) if int(m.group()) + step >= 0]
    for m in re.finditer(r"(?<![\w.\"])0x[0-9a-f]{1,8}(?=u?\b)", code):
        found.append((m.start(), m.end(), hex(int(m.group(), 16) + 1)))
    for m in re.finditer(r"(?<![\w.])\d+\.\d*(?:e[+-]?\d+)?(f?)\b", code):
        found.append((m.start(), m.end(), f"1.001{m.group(1)} * {m.group()}"))
    for m in re.finditer(r"(?<=; )\w+(?= < [^;{}]*; )", code):
        found.append((m.end(), m.end(), " + 1"))
    for m in re.finditer(r"\(([^()]+(?:\(\))?) \+ ([\w.:]+) - 1\) / \2\b", code):
        found.append((m.start(), m.end(), f"{m.group(1)} / {m.group(2)}"))
    for m in re.finditer(r"(?:(?<=[(\[])|(?<=[=,?:] )|(?<=return ))-(?=[\w(.])", code):
        found.append((m.start(), m.end(), ""))
    for m in re.finditer(r"\b(std::min|std::max|f?min|f?max)\(", code):
        found.append((m.start(1), m.end(1), BOUNDS[m.group(1)]))
    for m in re.finditer(r"\bif \(", code):
        places = arguments(code, m.end() - 1)
        if not places:
            continue
        begin, end = m.end(), places[-1][1]
        if "{" not in code[begin:end]:
            begin += len(re.match(r"(?:.*; )?", code[begin:end], re.S).group())  # what it declares stays
        found += [(begin, end, new) for new in (f"!({code[begin:end]})", "true", "false")]
    for m in re.finditer(r"(?<=[{};\n)])[ \n]*((?:[\w.:\[\]>*+-]|->)+(?:\([^;{}]*\)|\[[^;\]]*\])* [+*|&-]?= [^;{}]*;|"
                         r"[\w:.>-]+(?:<[^;()]*>)?\([^;{}]*\);|(?:\+\+|--)[\w.>-]+;|return [^;{}]*;)", code):
        statement = m.group(1)
        if not re.match(r"return|(?:else|if|for|while|switch|case)\b", statement) and are_closed(statement):
            found.append((m.start(1), m.end(1), ";"))
    for m in re.finditer(r"\b(true|false)\b", code):
        found.append((m.start(), m.end(), "false" if m.group() == "true" else "true"))
    return sorted(set(found))


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
