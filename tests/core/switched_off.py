"""The command line compiles without warnings whatever parts it is built with: scripts/run.sh builds few of them.

    switched_off.py SOURCE BUILD

BUILD has all parts. clang reads each source of `inlay` that asks for one (INLAY_HAS_CL, ..), be it by a header beside it, without any,
and without backends besides the CPU if it asks for other parts too."""
import concurrent.futures
import os
import pathlib
import re
import sys

source, build = map(pathlib.Path, sys.argv[1:])
sys.path.insert(0, str(source / "scripts"))
import clang_reads

asked = re.compile(r"^#\s*(?:if|ifdef|ifndef|elif)\b.*?\b(INLAY_(?:HAS_\w+|EVERY_OPERATOR))\b", re.M)


def parts_of(path):
    texts = [path.read_text()]
    texts += [(source / name).read_text() for name in re.findall(r'^#include "(tools/.*)"', texts[0], re.M)]
    return sorted({part for text in texts for part in asked.findall(text)})


def read(entry, without):
    words = [word for word in clang_reads.options_of(entry) if word.removeprefix("-D") not in without]
    code, text = clang_reads.clang([*words, "-O0", "-fsyntax-only", entry["file"]], entry["directory"])
    return code and "%s without %s:\n%s" % (entry["file"], ", ".join(without), text)


alone, together = clang_reads.commands(build)
tasks = []
for file, entry in {**alone, **together}.items():
    path = pathlib.Path(file)
    if "/inlay.dir/" in entry["command"] and path.is_relative_to(source / "tools"):
        parts = parts_of(path)
        backends = [part for part in parts if part in ("INLAY_HAS_CL", "INLAY_HAS_NPU")]
        tasks += [(entry, without) for without in {tuple(parts), tuple(backends)} if without]
with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
    refused = [text for text in pool.map(lambda task: read(*task), tasks) if text]
print("\n".join(refused))
if len(tasks) < 10:
    sys.exit("only %d sources ask for a part: the search is broken" % len(tasks))
print("%d readings, %d refused" % (len(tasks), len(refused)))
sys.exit(bool(refused))
