"""The tests of inlay.torch, in the package that run.py has installed.

  run_torch.py --environment FOLDER --torch FOLDER

Both are virtual environments; that of PyTorch has transformers too, and $INLAY_TORCH names another. Exits with 77, and says why,
where one is not there; with $INLAY_REQUIRE=torch that is a failure."""
import argparse
import os
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent


def skip(why):
    print("not tested: bindings_torch (torch): " + why)
    sys.exit(1 if "torch" in os.environ.get("INLAY_REQUIRE", "").split(",") else 77)


parser = argparse.ArgumentParser()
parser.add_argument("--environment", type=pathlib.Path, required=True)
parser.add_argument("--torch", type=pathlib.Path, required=True)
options = parser.parse_args()
torch = pathlib.Path(os.environ.get("INLAY_TORCH", options.torch)).absolute()
installed = sorted(options.environment.absolute().glob("lib/python*/site-packages/inlay/torch"))
if not installed:
    skip("bindings_python has not installed the package in %s" % options.environment)
if not (torch / "bin/python").exists():
    skip("there is no Python in %s: a virtual environment with torch, transformers and ml_dtypes" % torch)
with tempfile.TemporaryDirectory() as folder:
    # The package alone: the packages beside it are those of PyTorch's environment.
    (pathlib.Path(folder) / "inlay").symlink_to(installed[0].parent)
    variables = {**os.environ, "PYTHONPATH": folder}
    found = subprocess.run([torch / "bin/python", "-c", "import torch, transformers, inlay"], env=variables, capture_output=True, text=True)
    if found.returncode != 0:
        skip("it cannot be imported: " + found.stderr.strip()[-500:])
    for command in (["torch_ops.py"], ["docs.py", "torch"]):
        print("+ " + " ".join(command), flush=True)
        subprocess.run([torch / "bin/python", *command], check=True, cwd=HERE, env=variables)
