"""`inlay verify --kernel`: the two kernels of docs/check_a_kernel.md, with what stands there of them; kernels that crash, write
where they must not, or decline; and the library itself, every operator of which must be right.

  kernels.py INLAY LIBRARY        with $INLAY_CXX, a compiler of C
"""
import ctypes
import os
import pathlib
import re
import subprocess
import sys
import tempfile

source = pathlib.Path(__file__).resolve().parents[2]
inlay, library = (str(pathlib.Path(each).resolve()) for each in sys.argv[1:3])
page = (source / "docs/check_a_kernel.md").read_text()


def expect(holds, what):
    if not holds:
        sys.exit("FAILED: %s" % (what,))


def block(kind):
    return re.search(r"^```%s\n(.*?)^```$" % kind, page, re.M | re.S)[1]


def compiled(folder, name, text):
    (folder / (name + ".c")).write_text(text)
    command = [os.environ["INLAY_CXX"], "-x", "c", "-std=c11", "-O2", "-shared", "-fPIC", "-Wall", "-Wextra", "-Wpedantic", "-Werror",
               "-Wno-array-bounds", name + ".c", "-x", "none", "-I%s" % (source / "bindings/c"), "-lm", "-o", name + ".so"]
    subprocess.run(command, cwd=folder, check=True)
    return folder / (name + ".so")


def verify(kernel, *options, op="rms_norm"):
    done = subprocess.run([inlay, "verify", "--kernel", str(kernel), "--op", op, *map(str, options)], capture_output=True, text=True)
    return done.returncode, done.stdout, done.stderr


def shape(line):
    """A line without its errors, which each machine has its own of."""
    line = re.sub(r"^(right|WRONG) +[0-9.e+inf-]+ +[0-9.e+-]+ ", r"\1 ", line)
    return re.sub(r"(worst error|ours) +[0-9.e+inf-]+|^(declined +-) +[0-9.e+-]+ ", r"\1\2 ", line)


def prints(text, output, what):
    """Each line of a page's example, but for those left out with .., stands in the output."""
    lines = {shape(line) for line in output.splitlines()}
    for line in text.splitlines():
        expect(line.strip() == ".." or shape(line) in lines, "%s: the page has\n%s\nof\n%s" % (what, line, output))


# A kernel around a body, which has the tensors x and y of rms_norm.
FRAME = """#include <inlay.h>
#include <string.h>
#include <stdlib.h>
inlay_code own_name(const inlay_backend *backend, const char *op, const inlay_argument *arguments, size_t count, void *workspace, size_t bytes) {
  const DLTensor *x = NULL, *y = NULL;
  (void)backend, (void)op, (void)workspace, (void)bytes;
  for (size_t i = 0; i < count; ++i) {
    if (strcmp(arguments[i].name, "x") == 0) x = arguments[i].tensor;
    if (strcmp(arguments[i].name, "y") == 0) y = arguments[i].tensor;
  }
  unsigned char *from = x->data, *to = y->data;
  (void)from, (void)to;
  %s
}
"""
BODIES = {
    "return INLAY_UNSUPPORTED;": "nothing was computed",
    "from[0] ^= 1; return INLAY_UNSUPPORTED;": "it refused the call, and wrote to an operand",
    "from[0] ^= 1; return INLAY_OK;": "it wrote a byte that is no element of an output",
    "return INLAY_OK;": "y, element 0",
    "return INLAY_INVALID_ARGUMENT;": "it refused what is within the contract, with code 1",
    "for (;;) *to++ = 1;": "beside an operand",
    "abort();": "it ended the process: Aborted",
    "exit(0);": "it ended the process",
}
with tempfile.TemporaryDirectory() as folder:
    here = pathlib.Path(folder)
    right = compiled(here, "rms_norm", block("c"))
    code, output, error = verify(right, "--cases", 100)
    expect(code == 0 and "0 wrong" in output, "the right kernel: %s%s" % (output, error))
    prints(block("text"), output, "the right kernel")
    code, output, error = verify(right, "--cases", 100, "--score")
    expect(code == 0, "the score of the right kernel: %s%s" % (output, error))
    prints(block("text-of-score"), output, "the score of the right kernel")
    declined = verify(right, "--cases", 1, "--score")[1]
    expect("planted bugs these cases tell 0\n" in declined, "a case that is declined tells nothing: %s" % declined)
    changed, count = re.subn(r"^.*sum \+= from.*\n", lambda _: block("c-change"), block("c"), flags=re.M)
    expect(count == 1, "the line that changes")
    code, output, error = verify(compiled(here, "wrong", changed), "--cases", 100)
    expect(code == 1 and "WRONG" in output, "the wrong kernel: %s%s" % (output, error))
    prints(block("text-of-change"), output, "the wrong kernel")
    again = re.search(r"the first wrong one again: (--seed \d+ --cases 1)", output)[1].split()
    expect(verify(here / "wrong.so", *again)[0] == 1, "a seed is its case")

    moved = block("c").replace("sqrtf(sum / (float)dim + (float)eps)", "(sqrtf(sum / (float)dim) + (float)eps)")
    expect(moved != block("c"), "the line that changes")
    code, output, error = verify(compiled(here, "moved", moved), "--cases", 100)
    expect(code == 0 and "times our error: is it another formula?" in output, "another formula: %s%s" % (output, error))
    expect("times our error" not in verify(right, "--cases", 100)[1], "and not of the right one")

    for i, (body, words) in enumerate(BODIES.items()):
        kernel = compiled(here, "body%d" % i, FRAME % body)
        code, output, error = verify(kernel, "--cases", 5, "--symbol", "own_name")
        expect(code == 1 and words in output, "%s: %d %s%s" % (body, code, output, error))
    for words, given in ((b"no function inlay_run", (kernel,)), (b"cannot open", (here / "none.so",)), (b"cannot open", ("none.so",))):
        code, output, error = verify(*given)
        expect(code == 2 and words.decode() in error, "%s in %s" % (words, error))
    code, output, error = verify(right, op="no_op")
    expect(code == 2 and "--op is 'no_op'; it must be one of " in error, error)

names = ctypes.CDLL(library)
names.inlay_op_name.restype = ctypes.c_char_p
for i in range(names.inlay_op_count()):
    name = names.inlay_op_name(i).decode()
    code, output, error = verify(library, "--cases", 12, "--score", op=name)
    expect(code == 0 and "12 right, 0 declined, 0 wrong" in output, "%s of the library: %s%s" % (name, output, error))
    bugs, told = map(int, re.search(r"of (\d+) planted bugs these cases tell (\d+)", output).groups())
    expect(3 <= told <= bugs, "%s: %s" % (name, output))
print("OK")
