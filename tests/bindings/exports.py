"""The library shows inlay_* and nothing else: those that inlay.h declares, under the version of exports.map.

  exports.py LIBRARY INLAY_H NM
"""
import re
import subprocess
import sys

library, header, nm = sys.argv[1:]
lines = subprocess.run([nm, "-D", "--defined-only", "--with-symbol-versions", library], check=True, capture_output=True,
                       text=True).stdout.splitlines()
symbols = {line.split()[-1] for line in lines if line.split()[-2] != "A"}  # A: the version itself
declared = {name + "@@INLAY_1" for name in re.findall(r"^INLAY_API [^(;]*?\b(inlay_\w+)\(", open(header).read(), re.M)}
if len(declared) < 10:
    sys.exit("only %d functions were found in %s: the search is broken" % (len(declared), header))
if symbols != declared:
    sys.exit("shown and not declared: %s\ndeclared and not shown: %s" %
             (" ".join(sorted(symbols - declared)), " ".join(sorted(declared - symbols))))
