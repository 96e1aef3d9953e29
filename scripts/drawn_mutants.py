"""Routine mistakes, made by rule from an operator's sources: scripts/mutate.sh --draw. docs/testing.md says when a bug
is planted by hand instead.

    drop     a + b -> a, or b      of + - * / % && || and of the two branches of c ? a : b
    operator < -> <=   + -> -      each to its likeliest slip
    one      3 -> 4, or 2          an integer
    bound    min -> max
    swap     a - b -> b - a        and the two arguments of a call
    delete   a statement
    negate   if (a) -> if (!(a))

The draw depends on the seed and on the sources alone. What no result can show is not drawn: comments, assertions,
preprocessor lines, what the machine's levels do not compile, and how work is cut (Work, grains, prefetches).
"""

import functools
import random
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
EQUIVALENT = ROOT / "tests" / "mutants" / "equivalent.list"

SLIPS = {"<": ["<="], "<=": ["<"], ">": [">="], ">=": [">"], "==": ["!="], "!=": ["=="], "&&": ["||"], "||": ["&&"],
         "+": ["-"], "-": ["+"], "*": ["/"], "/": ["*"], "%": ["/"], "+=": ["-=", "="], "-=": ["+="], "<<": [">>"],
         ">>": ["<<"], "|": ["&"], "&": ["|"]}
PRECEDENCE = {"*": 6, "/": 6, "%": 6, "+": 5, "-": 5, "<<": 4, ">>": 4, "<": 3, "<=": 3, ">": 3, ">=": 3, "==": 3,
              "!=": 3, "&": 2, "|": 2, "&&": 1, "||": 1}
BOUNDS = {"min": "max", "max": "min", "fmin": "fmax", "fmax": "fmin", "std::min": "std::max", "std::max": "std::min"}
# Only time tells these from others: how work is handed out, what is fetched ahead.
NO_RESULT = re.compile(r"\bWork\b|grain|[Pp]refetch|PREFETCH|reserve\(|static_assert|\bassert\(|\.operations|\.bytes|"
                       r"\busing\b|\btemplate\b|#|\bnamespace\b|__attribute__|\bpragma\b|work\b|\bunlikely\b")
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


def changes(code):
    """(begin, end, what takes its place) for every routine mistake, by place."""
    found = []
    for m in re.finditer(r"(?<=[\w)\]}]) (\+|-|\*|/|%|<<|>>|<=?|>=?|==|!=|&&|\|\||[+-]=|&|\|) (?=[\w({\[!*&-])", code):
        sign, begin, end = m.group(1), m.start(1), m.end(1)
        if sign in ("+=", "-=") and re.search(r"\bfor \([^{}]*$", code[max(0, begin - 120):begin]):
            continue  # it would not end
        found += [(begin, end, slip) for slip in SLIPS.get(sign, [])]
        if sign not in PRECEDENCE:
            continue
        left, right = operand_begin(code, m.start(), PRECEDENCE[sign]), operand_end(code, m.end(), PRECEDENCE[sign])
        a, b = code[left:m.start()].strip(), code[m.end():right].strip()
        if not a or not b or "\n\n" in code[left:right]:
            continue
        if PRECEDENCE[sign] >= 5 or sign in ("&&", "||"):
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
    for m in re.finditer(r"\b(std::min|std::max|f?min|f?max)\(", code):
        found.append((m.start(1), m.end(1), BOUNDS[m.group(1)]))
    for m in re.finditer(r"\b\w+(?:<[\w, :{}]*>)?\(([\w.\[\]>-]+), ([\w.\[\]>-]+)\)", code):
        if not re.match(r"\w*(?:add|mul|min|max|and|or|xor)(?:_\w+)?[<(]", m.group()):  # those commute
            found.append((m.start(1), m.end(2), f"{m.group(2)}, {m.group(1)}"))
    for m in re.finditer(r"\bif \(", code):
        end = operand_end(code, m.end(), 0)
        found.append((m.end(), end, f"!({code[m.end():end]})"))
    for m in re.finditer(r"(?<=[{};\n])[ \n]*((?:[\w.:\[\]>*+-]|->)+(?:\([^;{}]*\)|\[[^;\]]*\])* [+*|&-]?= [^;{}]*;|"
                         r"[\w:.>-]+(?:<[^;()]*>)?\([^;{}]*\);|return [^;{}]*;)", code):
        statement = m.group(1)
        if not re.match(r"return|(?:else|if|for|while|switch|case)\b", statement):
            found.append((m.start(1), m.end(1), ";"))
    for m in re.finditer(r"\b(true|false)\b", code):
        found.append((m.start(), m.end(), "false" if m.group() == "true" else "true"))
    return sorted(set(found))


def sources(operator):
    """By room: the operator's own files, what they include of attention/ and linear/, and what its list names."""
    starts = {"cpu": [f"cpu_kernels/{operator}.hpp"], "cl": [f"cl_kernels/{operator}.cl", f"cl_kernels/{operator}.cpp"],
              "npu": [f"npu_kernels/{operator}.cpp", f"npu_kernels/{operator}.hpp"]}
    found = {}
    for backend, paths in starts.items():
        todo, seen = [path for path in paths if (ROOT / path).is_file()], []
        while todo:
            path = todo.pop()
            if path in seen:
                continue
            seen.append(path)
            for included in re.findall(r'#include "((?:cpu|cl|npu)_kernels/[^"]+)"', (ROOT / path).read_text()):
                own = re.match(rf"\w+/(?:attention|linear)/|\w+/{operator}", included)
                if own and (ROOT / included).is_file():
                    todo.append(included)
        found[backend] = sorted(seen)
    listed = ROOT / "tests" / "mutants" / f"{operator}.txt"
    named = set(re.findall(r"^\w+(?:/[\w.]+)+$", listed.read_text(), re.M)) if listed.is_file() else set()
    found["shared"] = sorted(path for path in named - {path for paths in found.values() for path in paths}
                             if (ROOT / path).is_file())
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
        self.list, self.test, self.level, self.path = operator, operator, None, path
        self.begin, self.end, self.text, self.change = begin, end, text, new
        self.line = text.count("\n", 0, begin) + 1
        if path.startswith("cl_kernels/"):
            self.level = "opencl"
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
        if NO_RESULT.search(code[first:last]) and not (path.endswith(".cl") and "#define" in code[first:last]):
            continue
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
