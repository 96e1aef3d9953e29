"""Routine mistakes by rule: what each of them makes of a C++ or OpenCL text, and where.

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
"""

import re

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
