"""`inlay verify --kernel FILE.py`: the function of docs/check_a_kernel.md, with what stands there of it; functions that are wrong, that
raise, decline or end Python; and the package's own, every operator of which must be right.

  verified.py INLAY"""
import pathlib
import re
import subprocess
import sys
import tempfile

import inlay
from formulas import expect

page = (pathlib.Path(__file__).resolve().parents[3] / "docs/check_a_kernel.md").read_text()


def block(kind):
    return re.search(r"^```%s\n(.*?)^```$" % kind, page, re.M | re.S)[1]


with tempfile.TemporaryDirectory() as folder:
    def verify(text, *options, op="rms_norm"):
        file = pathlib.Path(folder) / "kernel.py"
        file.write_text(text)
        done = subprocess.run([sys.argv[1], "verify", "--kernel", file, "--op", op, *map(str, options)], capture_output=True, text=True)
        return done.returncode, done.stdout + done.stderr

    def shape(line):
        return re.sub(r"(worst error|ours) +[0-9.e+inf-]+", r"\1", line)

    code, output = verify(block("python-kernel"), "--cases", 100)
    expect(code == 0 and shape(block("text-of-python").strip()) in shape(output), "the page's function: %s" % output)
    code, output = verify(block("python-kernel").replace("+ eps", ""), "--cases", 100)
    expect(code == 1 and "WRONG" in output, "eps is left out: %s" % output)
    head = "import os\ndef rms_norm(x, out, **others):\n  "
    for body, exit_code, words in (("raise NotImplementedError", 1, "nothing was computed"), ("x[...] = 1 - x", 1, "it wrote a byte that is no element"),
                                   ("x.flat[10**9]", 1, "it raised IndexError: "), ("os._exit(3)", 1, "it ended the process"),
                                   ("pass", 1, "y, element 0")):
        code, output = verify(head + body, "--cases", 3)
        expect(code == exit_code and words in output and "does not start" not in output, "%s: %d %s" % (body, code, output))
    for text, words in (("nothing = 1", "AttributeError"), ("import no_such_module", "No module named 'no_such_module'")):
        code, output = verify(text, "--cases", 1)
        expect(code != 0 and words in output, "%s: %s" % (text, output))
    code, output = verify("def mine(out, **others): raise NotImplementedError", "--cases", 1, "--symbol", "yours")
    expect(code == 2 and "has no function yours" in output, output)
    for each in inlay.operators.__all__:
        code, output = verify("from inlay import *", "--cases", 12, op=each)
        of_halves = each in ("quantize", "dequantize")  # where rows end within a byte there is no View of them
        expect(code == 0 and (" 0 wrong" if of_halves else "12 right, 0 declined, 0 wrong") in output, "%s of the package: %s" % (each, output))
print("OK: verified")
