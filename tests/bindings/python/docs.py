"""The examples of docs/python.md, as they stand there, one after the other in one program each; below a block stands what it
prints, as ```text.

  docs.py [torch]      those without PyTorch, or those with it"""
import pathlib
import re
import subprocess
import sys
import tempfile

SOURCE = pathlib.Path(__file__).resolve().parents[3]
blocks = re.findall(r"^```(python|text)\n(.*?)^```$", (SOURCE / "docs/python.md").read_text(), re.M | re.S)
programs = [(text, blocks[i + 1:i + 2]) for i, (kind, text) in enumerate(blocks) if kind == "python"]
with_torch = sys.argv[1:] == ["torch"]
programs = [program for program in programs if ("import torch" in program[0]) == with_torch]
if len(programs) < (1 if with_torch else 4):
    sys.exit("docs/python.md has %d examples; at least %d were expected" % (len(programs), 1 if with_torch else 4))
with tempfile.TemporaryDirectory() as folder:
    (pathlib.Path(folder) / "models").symlink_to(SOURCE / "models")
    for text, below in programs:
        done = subprocess.run([sys.executable, "-c", text], cwd=folder, capture_output=True, text=True)
        if done.returncode != 0 or [("text", done.stdout)] != below:
            sys.exit("an example of docs/python.md\n%s\nprints\n%s%s\nand below it stands\n%s" % (text, done.stdout, done.stderr, below))
print("OK: %d examples" % len(programs))
