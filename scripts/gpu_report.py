"""What compilers of two vendors make of the per-group shape of our OpenCL kernels: see scripts/gpu_report.sh.

A kernel's file stands alone by its defaults. Other configurations stand in it as comments:

    // gpu report, one row, f16 weights: -D W=f16 -D ROWS=1
    // gpu report, tiled: -D TILE=64

"one row" and "tiled" say which rules hold (RULES); without either only the first one does. A file whose bytes do not
move by 16 for a good reason says it, and where one configuration has fewer warps than it should:

    // gpu report says: the weights do, the rest is ..
    // gpu report says of warps, int8: ..

Whatever else breaks a rule fails.
"""

import argparse
import math
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "gpu_report.md"
LANES = 128  # of a group, where a kernel does not say otherwise (Runtime::lanes)
COMMON = ["-x", "cl", "-cl-std=CL1.2", "-Xclang", "-finclude-default-header", "-O3", "-I.", "-w", "-D", "PER_GROUP=1",
          "-D", "ALIGNED=1", "-D", "UNROLLED=1", "-D", "FP64=1", "-D", "ROUNDS_QUOTIENTS=1"]
CLC = "/usr/lib/clc/"

RULES = """\
- every kernel: no spills, no scratch, no stack frame
- one row (decode attention, linears of one token): at least 32 resident warps an SM on sm_90, or 8 waves a SIMD on
  gfx90a; three quarters of the bytes moved 16 at a time by a lane
- tiled: at most 128 registers a thread in groups of up to 256, local memory for two groups an SM"""


class Config:
    def __init__(self, stem, label, flags, why, why_warps):
        self.stem, self.label, self.flags, self.why, self.why_warps = stem, label, flags, why, why_warps
        if not any(flag.startswith("LANES=") for flag in flags):
            self.flags = ["-D", f"LANES={LANES}"] + flags


def configurations():
    for path in sorted((ROOT / "cl_kernels").rglob("*.cl")):
        stem = str(path.relative_to(ROOT / "cl_kernels").with_suffix(""))
        text = path.read_text()
        lines = re.findall(r"^// gpu report(?:, ([^:]*))?: *(.*)$", text, re.M)
        why = re.search(r"^// gpu report says: *(.*)$", text, re.M)
        of_warps = re.findall(r"^// gpu report says of warps, ([^:]*): *(.*)$", text, re.M)
        for label, flags in lines or [("", "")]:
            why_warps = "".join(reason for words, reason in of_warps if words in label)
            yield Config(stem, label, flags.split(), why.group(1) if why else "", why_warps)


def clang(config, target, output):
    # NVIDIA's assembly is for NVIDIA: the others take what they have.
    flags = " ".join(config.flags)
    if "nvptx64-nvidia-nvcl" not in target:
        flags = flags.replace("-D DOT_PTX=1", "")
    command = ["clang-15", *COMMON, *flags.split(), *target, "-S", f"cl_kernels/{config.stem}.cl", "-o", output]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{config.stem} {' '.join(config.flags)}:\n{done.stderr}")
    return Path(output).read_text()


def bytes_of(instruction):
    vector = re.search(r"\.v([24])", instruction)
    bits = int(re.search(r"\.[bfsu](8|16|32|64)\b", instruction).group(1))
    return (int(vector.group(1)) if vector else 1) * bits // 8


class Nvidia:
    """Of one kernel: what ptxas says, and what its PTX loads and stores."""

    def __init__(self, ptx, log, name, threads):
        body = ptx[ptx.index(f".entry {name}("):]
        body = body[:body.index("\n}\n")]
        self.threads = threads
        moved = [bytes_of(i) for i in re.findall(r"\b(?:ld|st)\.global[.\w]*", body)]
        self.wide = sum(b for b in moved if b == 16) / sum(moved) if moved else 1.0
        said = re.search(rf"Compiling entry function '{name}'.*?\n(.*?Used .*?)\n", log, re.S).group(1)
        self.stack, self.spills, reloads = (int(n) for n in re.search(
            r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads", said).groups())
        self.spills += reloads
        self.registers = int(re.search(r"Used (\d+) registers", said).group(1))
        local = re.search(r"(\d+) bytes smem", said)
        self.local = int(local.group(1)) if local else 0

    def warps(self):
        """Resident on an SM of sm_90: 64 warps, 64 Ki registers given by 256, 228 KiB of which a group keeps 1, 32 groups."""
        warps = math.ceil(self.threads / 32)
        a_warp = math.ceil(self.registers * 32 / 256) * 256
        groups = min(64 // warps, 65536 // a_warp // warps, 228 * 1024 // (self.local + 1024), 32)
        return groups * warps


class Amd:
    def __init__(self, assembly, name):
        body = assembly[assembly.index(f"\n{name}:"):]
        number = lambda what: int(re.search(rf"; {what}: (\d+)", body).group(1))
        self.registers, self.scratch = number("NumVgprs"), number("ScratchSize")
        self.local, self.waves = number("LDSByteSize"), number("Occupancy")


def measure(config, ptxas):
    """A row of the page for each kernel of the program, and what it breaks."""
    with tempfile.TemporaryDirectory() as folder:
        nvidia, amd = {}, {}
        for arch in ("gfx90a", "gfx1100"):
            text = clang(config, ["-nogpulib", "-target", "amdgcn-amd-amdhsa", f"-mcpu={arch}", "-Xclang",
                                  "-mlink-builtin-bitcode", "-Xclang", CLC + "amdgcn--amdhsa.bc"], f"{folder}/{arch}.s")
            # clang 15 tells AMD's assembler alone how large the groups are.
            threads = {name: int(size) for size, name in re.findall(
                r"\.max_flat_workgroup_size: (\d+)\n\s+\.name: +(\w+)", text)}
            amd[arch] = {name: Amd(text, name) for name in threads}
        # It knows no newer architecture than sm_80; ptxas does.
        ptx = clang(config, ["-D", "SHFL=1", "-target", "nvptx64-nvidia-nvcl", "-Xclang", "-target-cpu", "-Xclang", "sm_80", "-Xclang",
                             "-mlink-builtin-bitcode", "-Xclang", CLC + "nvptx64--nvidiacl.bc"], f"{folder}/k.ptx")
        for arch in ("sm_80", "sm_90"):
            done = subprocess.run([ptxas, "-v", f"-arch={arch}", f"{folder}/k.ptx", "-o", f"{folder}/k.o"],
                                  capture_output=True, text=True)
            if done.returncode != 0:
                sys.exit(f"{config.stem} for {arch}:\n{done.stderr}")
            nvidia[arch] = {name: Nvidia(ptx, done.stderr, name, threads[name]) for name in threads}
    for name in threads:
        a, h, m, r = nvidia["sm_80"][name], nvidia["sm_90"][name], amd["gfx90a"][name], amd["gfx1100"][name]
        broken, told = [], []
        if any((a.stack, a.spills, h.stack, h.spills, m.scratch, r.scratch)):
            broken.append(f"stack {max(a.stack, h.stack)}, spills {max(a.spills, h.spills)}, scratch {max(m.scratch, r.scratch)}")
        missed = []  # what may have a reason, and it
        if "one row" in config.label and h.warps() < 32 and m.waves < 8:
            missed.append((f"{h.warps()} warps, {m.waves} waves", config.why_warps))
        if "one row" in config.label and h.wide < 0.75:
            missed.append((f"{h.wide:.0%} of the bytes by 16", config.why))
        for what, why in missed:
            if why:
                told.append(f"{what}: {why}")
            else:
                broken.append(what)
        if "tiled" in config.label and (h.registers > 128 or h.threads > 256 or 2 * (h.local + 1024) > 228 * 1024):
            broken.append(f"{h.registers} registers in groups of {h.threads}, {h.local} bytes local")
        what = name + (f", {config.label}" if config.label else "")
        yield (f"| {config.stem} | {what} | {h.threads} | {a.registers} / {h.registers} | {h.local} | {h.warps()} | "
               f"{h.wide:.0%} | {m.registers} / {r.registers} | {m.waves} / {r.waves} | {'; '.join(broken + told) or 'met'} |",
               bool(broken))


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--ptxas", required=True)
    arguments.add_argument("--check", action="store_true")
    options = arguments.parse_args()
    rows = [row for config in configurations() for row in measure(config, options.ptxas)]
    page = f"""# The OpenCL kernels on GPUs, as compilers see them

Made by `scripts/gpu_report.sh`: the per-group shape of every kernel, compiled by clang 15 with libclc for NVIDIA (then by
ptxas 12.9 for sm_80 and sm_90) and for gfx90a and gfx1100. It is a necessary test, not a speed: no GPU has run them yet. Rules:

{RULES}

Two numbers with a stroke are of the two architectures of a vendor. Warps: resident on an SM of sm_90, 64 at most. By 16:
share of the bytes of global loads and stores, counted once in the code, that a lane moves 16 at a time; the code
for the rest of a row counts as much as the loop before it.

| program | kernel | group | registers NVIDIA | local bytes | warps | by 16 | registers AMD | waves | rules |
|---|---|---|---|---|---|---|---|---|---|
""" + "\n".join(row for row, _ in rows) + "\n"
    broken = [row for row, bad in rows if bad]
    if options.check:
        if PAGE.read_text() != page:
            sys.exit("docs/gpu_report.md is not what the kernels give: run scripts/gpu_report.sh")
    else:
        PAGE.write_text(page)
    print(f"{len(rows)} kernels, {len(broken)} outside the rules", *broken, sep="\n")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
