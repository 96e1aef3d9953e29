"""The programs of docs/recipes.md, as they stand there: each ```cpp block is compiled and run, and prints what stands below it
as ```text.

  recipes.py COMPILER [FLAG..]        with what links them
"""
import concurrent.futures
import pathlib
import re
import subprocess
import sys
import tempfile

source = pathlib.Path(__file__).resolve().parents[2]
command = [*sys.argv[1:2], "-std=c++20", "-O0", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-I%s" % (source / "include")]
page = (source / "docs/recipes.md").read_text()
blocks = re.findall(r"^```([a-z-]+)\n(.*?)^```$", page, re.M | re.S)
recipes = list(zip(blocks[::2], blocks[1::2]))
if len(recipes) < 4 or len(blocks) % 2 or any(kinds != ("cpp", "text") for kinds in ((a[0], b[0]) for a, b in recipes)):
    sys.exit("docs/recipes.md must have at least 4 programs, each with what it prints below it")


def wrong(number, folder):
    """What is wrong with a recipe, or nothing."""
    (_, program), (_, expected) = recipes[number]
    path = pathlib.Path(folder) / ("recipe_%d" % number)
    path.with_suffix(".cpp").write_text(program)
    built = subprocess.run([*command, str(path) + ".cpp", *sys.argv[2:], "-pthread", "-o", path], text=True, capture_output=True)
    if built.returncode:
        return "program %d of docs/recipes.md does not compile:\n%s" % (number + 1, built.stderr)
    ran = subprocess.run([path], text=True, capture_output=True)
    if ran.returncode or ran.stdout != expected:
        return "program %d of docs/recipes.md returns %d and prints\n%s\nbut below it stands\n%s" % (
            number + 1, ran.returncode, ran.stdout, expected)


with tempfile.TemporaryDirectory() as here, concurrent.futures.ThreadPoolExecutor(2) as at_once:
    found = [what for what in at_once.map(lambda number: wrong(number, here), range(len(recipes))) if what]
sys.exit("\n".join(found) or 0)
