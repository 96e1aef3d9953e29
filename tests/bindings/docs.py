"""The examples of docs/c.md, as they stand there: each ```c block is a program that is compiled and run, each ```python one
is run. Below a block stands what it prints, as ```text.

  docs.py LIBRARY        with $INLAY_CXX, a compiler of C
"""
import os
import pathlib
import re
import subprocess
import sys
import tempfile

source = pathlib.Path(__file__).resolve().parents[2]
library = pathlib.Path(sys.argv[1]).resolve()
page = (source / "docs/c.md").read_text()
blocks = re.findall(r"^```(c|python|text)\n(.*?)^```$", page, re.M | re.S)
programs = [(kind, text, blocks[i + 1] if i + 1 < len(blocks) else ("", "")) for i, (kind, text) in enumerate(blocks) if kind != "text"]
if len(programs) < 2:
    sys.exit("docs/c.md has %d examples; at least 2 were expected" % len(programs))
with tempfile.TemporaryDirectory() as folder:
    here = pathlib.Path(folder)
    (here / "models").symlink_to(source / "models")
    for kind, text, (what, expected) in programs:
        if kind == "c":
            (here / "example.c").write_text(text)
            command = [os.environ["INLAY_CXX"], "-x", "c", "-std=c11", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "example.c",
                       "-x", "none", "-I%s" % (source / "bindings/c"), str(library), "-Wl,-rpath,%s" % library.parent, "-lm",
                       "-o", "example"]
            subprocess.run(command, cwd=here, check=True)
            command = ["./example"]
        else:
            (here / "example.py").write_text(text)
            command = [sys.executable, "example.py"]
        environment = dict(os.environ, LD_LIBRARY_PATH=str(library.parent))
        found = subprocess.run(command, cwd=here, check=True, capture_output=True, text=True, env=environment).stdout
        if what != "text" or found != expected:
            sys.exit("an example of docs/c.md prints\n%s\nand below it stands\n%s" % (found, expected))
print("OK")
