#!/usr/bin/env python3
"""Instructions of linear_w4a16's main loops on Arm, by kind, for 1,000 multiplications: nobody here has the machine.

    scripts/arm_counts.py build/arm/tests/arm_loops_*      a table; exits with 1 where a loop takes more than its ceiling

qemu-user runs a loop of tests/arm/loops.cpp one instruction at a time, once for 1024 slots and once for 2048. What the
second takes beyond the first is counted, so what comes before and after the slots is not. 77: no qemu or objdump.
"""
import collections
import os
import re
import shutil
import subprocess
import sys
import tempfile

# The most that a level may take: (rows, offsets) -> instructions. As measured with GCC 12.2, and 3% more.
CEILINGS = {
    "neon_dotprod": {(1, 0): 288, (1, 1): 326, (8, 0): 166, (8, 1): 178},
    "neon_i8mm": {(1, 0): 288, (1, 1): 326, (8, 0): 127, (8, 1): 142},
}
KINDS = [  # the first pattern that "mnemonic operands" matches
    ("dot", r"[su]+(dot|mmla) "),
    ("prefetch", r"prfm"),
    ("spill", r"(ld|st).*\[sp"),
    ("load", r"ld\S* [{]?[vqds]\d"),
    ("store", r"st\S* [{]?[vqds]\d"),
    ("unpack", r"(and|ushr) v"),
    ("scale", r"(scvtf|fcvtl|fmul|fmla|zip[12]) v"),
    ("start", r"(mov|movi|dup) v"),
    ("control", r""),
]


def loop_of(program):
    """address -> kind, of the functions that hold the loops"""
    text = subprocess.run(["aarch64-linux-gnu-objdump", "-d", "--no-show-raw-insn", program], capture_output=True,
                          text=True, check=True).stdout
    kinds, inside = {}, False
    for line in text.splitlines():
        if name := re.match(r"[0-9a-f]+ <(.+)>:$", line):
            inside = re.search(r"w4_int8_(row|tile|pairs)I", name[1]) is not None
        elif inside and (found := re.match(r"\s+([0-9a-f]+):\s+(.*)$", line)):
            instruction = re.sub(r"\s+", " ", found[2]) + " "
            kinds[int(found[1], 16)] = next(kind for kind, pattern in KINDS if re.match(pattern, instruction))
    return kinds


def executed(program, kinds, rows, slots, offsets):
    with tempfile.NamedTemporaryFile("r") as log:
        subprocess.run(["qemu-aarch64", "-singlestep", "-d", "exec,nochain", "-D", log.name, "-dfilter",
                        f"{min(kinds):#x}..{max(kinds):#x}", program, str(rows), str(slots), str(offsets)], check=True)
        places = (re.match(r"Trace \d+: \S+ \[[0-9a-f]+/([0-9a-f]+)/", line) for line in log)
        return collections.Counter(kinds[int(at[1], 16)] for at in places if at and int(at[1], 16) in kinds)


def main():
    if not all(shutil.which(tool) for tool in ("qemu-aarch64", "aarch64-linux-gnu-objdump")):
        sys.exit(77)
    names = [kind for kind, _ in KINDS]
    print("level        rows offsets    all ceiling", *(f"{name:>8}" for name in names))
    worse = False
    for program in sys.argv[1:]:
        level = os.path.basename(program).removeprefix("arm_loops_")
        kinds = loop_of(program)
        for (rows, offsets), ceiling in CEILINGS[level].items():
            more = executed(program, kinds, rows, 2048, offsets)
            more.subtract(executed(program, kinds, rows, 1024, offsets))
            per_thousand = 1000 / (rows * 64 * 1024)
            total = sum(more.values()) * per_thousand
            print(f"{level:12} {rows:4} {offsets:7} {total:6.1f} {ceiling:7}",
                  *(f"{more[name] * per_thousand:8.1f}" for name in names), flush=True)
            worse |= not 0 < total <= ceiling
    sys.exit(worse)


main()
