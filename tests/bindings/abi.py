"""What inlay.h promises, as the compiler sees it: layouts of structs, values of enumerators, functions, typedefs.

  abi.py --check CLANG INLAY_H ABI_TXT    is it what abi.txt says?
  abi.py --write CLANG INLAY_H ABI_TXT    writes it there; refuses to change or drop a line unless INLAY_ABI has moved
  abi.py --self-test CLANG INLAY_H ABI_TXT    are changes that were made for it told from additions?
"""
import json
import re
import subprocess
import sys
import tempfile


def run(clang, header, *flags):
    return subprocess.run([clang, "-x", "c", "-std=c11", "-fsyntax-only", "-Xclang", *flags, header], check=True,
                          capture_output=True, text=True).stdout


def layouts(clang, header):
    """struct inlay_field: size 72 align 8, then a line a member with its place."""
    for block in re.split(r"\n\s*\n", run(clang, header, "-fdump-record-layouts-complete")):
        rows = [row for row in block.splitlines() if " | " in row]
        if not rows or "(" in rows[0]:  # unnamed ones stand within the structs that hold them
            continue
        name = rows[0].split(" | ")[1].strip()
        if not name.startswith(("struct inlay_", "struct DL")):  # the compiler's own
            continue
        end = re.search(r"sizeof=(\d+), align=(\d+)", block)
        yield "%s size %s align %s" % (name, end[1], end[2])
        for row in rows[1:]:
            place, member = row.split(" | ", 1)
            member = re.sub(r"\((anonymous|unnamed)[^)]*\)", "(unnamed)", member)
            if "sizeof=" not in member:
                yield "%s @%s %s" % (name, place.strip(), " ".join(member.split()))


def declarations(clang, header):
    tree = json.loads(run(clang, header, "-ast-dump=json"))
    for node in tree["inner"]:
        name, kind = node.get("name", ""), node["kind"]
        if kind == "EnumDecl":
            value = -1
            for each in node.get("inner", []):
                if each["kind"] != "EnumConstantDecl":
                    continue
                values = [part["value"] for part in each.get("inner", []) if "value" in part]
                value = int(values[0]) if values else value + 1
                yield "%s = %d" % (each["name"], value)
        elif not name.startswith(("inlay_", "DL")):
            continue
        elif kind == "FunctionDecl":
            yield "%s%s: %s" % ("inline " if node.get("inline") else "", name, node["type"]["qualType"])
        elif kind == "TypedefDecl":
            yield "typedef %s: %s" % (name, node["type"]["qualType"])


def dump(clang, header):
    abi = re.search(r"^#define INLAY_ABI (\d+)", open(header).read(), re.M)[1]
    lines = ["INLAY_ABI %s" % abi, *sorted(set(layouts(clang, header)), key=layout_key), *sorted(set(declarations(clang, header)))]
    if sum("size" in line for line in lines) < 6 or sum(": " in line for line in lines) < 15:
        sys.exit("structs or functions were not found: the search is broken")
    return lines


def layout_key(line):
    place = re.search(r" @(\d+)", line)
    return line.split(" @")[0].split(" size")[0], int(place[1]) if place else -1, line


def judge(old, new):
    """What is wrong with the step from one dump to another, or nothing."""
    gone = [line for line in old if line not in new]
    # A struct that begins with its size may grow at its end.
    sized = {line.split(" @")[0] for line in old if line.endswith(" @0 size_t size")}
    lost = [line for line in gone if not (" size " in line and line.split(" size ")[0] in sized)]
    return lost if lost and old[0] == new[0] else []


def main():
    mode, clang, header, stored = sys.argv[1:]
    if mode == "--self-test":
        return self_test(clang, header)
    new = dump(clang, header)
    try:
        old = open(stored).read().splitlines()
    except FileNotFoundError:
        old = []
    if mode == "--write":
        wrong = judge(old, new) if old else []
        if wrong:
            sys.exit("changed or gone, and INLAY_ABI has not moved:\n  " + "\n  ".join(wrong))
        open(stored, "w").write("\n".join(new) + "\n")
    elif old != new:
        for line in old:
            if line not in new:
                print("- " + line)
        for line in new:
            if line not in old:
                print("+ " + line)
        sys.exit("inlay.h is not what abi.txt says. What is new at the end of a struct with a size, or a new function: abi.py "
                 "--write. Anything else: move INLAY_ABI, and then abi.py --write")


def self_test(clang, header):
    text, before = open(header).read(), dump(clang, header)

    def changed(pattern, replacement):
        made, count = re.subn(pattern, replacement, text, count=1)
        assert count == 1, pattern
        with tempfile.NamedTemporaryFile("w", suffix=".h") as file:
            file.write(made)
            file.flush()
            return judge(before, dump(clang, file.name))

    breaks = {
        "two members change places": (r"(  int32_t threads;[^\n]*\n)(  int32_t width;[^\n]*\n)", r"\2\1"),
        "a member becomes wider": (r"int32_t width;", "int64_t width;"),
        "a member in the middle": (r"  int32_t threads;", "  int32_t priority;\n  int32_t threads;"),
        "a struct without a size grows": (r"  int32_t reserved; /\* 0 \*/\n  union", "  int32_t reserved, more;\n  union"),
        "an enumerator's value": (r"INLAY_WORD = 6", "INLAY_WORD = 7"),
        "an enumerator is gone": (r",\n  INLAY_INTERNAL = 6", ""),
        "a parameter": (r"const char \*inlay_op_name\(size_t i\)", "const char *inlay_op_name(int32_t i)"),
        "a result": (r"INLAY_API int32_t inlay_abi", "INLAY_API int64_t inlay_abi"),
        "a function is gone": (r"INLAY_API inlay_code inlay_field_count\([^;]*;", ""),
        "a callback": (r"\(void \*context, size_t tasks, void", "(void *context, int32_t tasks, void"),
    }
    additions = {
        "a sized struct grows": (r"(  const char \*const \*words;[^\n]*\n)", r"\1  int64_t more;\n"),
        "another function": (r"INLAY_API size_t inlay_op_count", "INLAY_API int32_t inlay_more(void);\nINLAY_API size_t inlay_op_count"),
        "another enumerator": (r"  INLAY_WORD = 6", "  INLAY_MORE = 9,\n  INLAY_WORD = 6"),
    }
    for name, change in breaks.items():
        if not changed(*change):
            sys.exit("not told: " + name)
    for name, change in additions.items():
        if changed(*change):
            sys.exit("told of an addition: %s: %s" % (name, changed(*change)))
    moved = re.sub(r"#define INLAY_ABI \d+", "#define INLAY_ABI 99", re.sub("INLAY_WORD = 6", "INLAY_WORD = 7", text))
    with tempfile.NamedTemporaryFile("w", suffix=".h") as file:
        file.write(moved)
        file.flush()
        if judge(before, dump(clang, file.name)):
            sys.exit("told of a change that INLAY_ABI announces")


main()
