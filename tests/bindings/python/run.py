"""The Python package as people get it: a wheel from pyproject.toml around a libinlay.so that is there, in an environment of its own,
where the tests beside this file run.

  run.py --library LIBINLAY --model MODEL [--inlay COMMAND_LINE] --environment FOLDER

The environment is kept, so that only the first run asks PyPI. Exits with 77, and says why, where that does not answer, or has
no wheels for this machine; with $INLAY_REQUIRE=pypi that is a failure."""
import argparse
import os
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
SOURCE = HERE.parents[2]
PACKAGES = ["scikit-build-core==1.1.2", "nanobind==3.1.0", "ninja==1.13.2", "numpy==2.4.6", "ml_dtypes==0.6.0", "onnx==1.23.2",
            "onnxruntime==1.32.0", "mypy==2.4.1", "tqdm==4.70.1"]


def skip(why):
    print("not tested: bindings_python (pypi): " + why)
    sys.exit(1 if "pypi" in os.environ.get("INLAY_REQUIRE", "").split(",") else 77)


def environment(folder):
    """Python of an environment with the packages."""
    python = folder / "bin/python"
    mark = folder / "packages.txt"
    if mark.exists() and mark.read_text() == "\n".join(PACKAGES):
        return python
    made = subprocess.run([sys.executable, "-m", "venv", "--clear", folder], capture_output=True, text=True)
    if made.returncode != 0:
        skip("there is no module venv (python3-venv): " + made.stderr.strip()[-300:])
    command = [python, "-m", "pip", "install", "--quiet", "--retries", "1", "--timeout", "20", "--only-binary", ":all:", *PACKAGES]
    installed = subprocess.run(command, capture_output=True, text=True)
    if installed.returncode != 0:
        skip("PyPI does not answer, or has no wheels for this machine: " + installed.stderr.strip()[-500:])
    mark.write_text("\n".join(PACKAGES))
    return python


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--library", required=True)
    parser.add_argument("--model", required=True)
    parser.add_argument("--inlay")
    parser.add_argument("--environment", type=pathlib.Path, required=True)
    options = parser.parse_args()
    python = environment(options.environment.absolute())
    # Into the environment's own folders alone, whatever else this machine's settings name.
    variables = {**os.environ, "PATH": "%s:%s" % (python.parent, os.environ["PATH"]), "PIP_DISABLE_PIP_VERSION_CHECK": "1"}

    def run(*command, **more):
        print("+ " + " ".join(map(str, command)), flush=True)
        subprocess.run(command, check=True, cwd=HERE, env=variables, **more)

    run(python, "-m", "pip", "install", "--quiet", "--no-build-isolation", "--no-deps", "--force-reinstall", SOURCE,
        "--config-settings=cmake.define.INLAY_C_LIBRARY=" + options.library,
        "--config-settings=build-dir=%s" % (options.environment.absolute().parent / "python_build"))
    run(python, "metadata.py")
    run(python, "operators.py")
    run(python, "refusals.py")
    run(python, "weights.py")
    run(python, "oracles.py")
    run(python, "model.py", options.model, *([options.inlay] if options.inlay else []))
    run(python, "docs.py")
    if options.inlay:
        run(python, "verified.py", options.inlay)
    for checked in (["-p", "inlay"], ["typed.py"]):
        run(python, "-m", "mypy", "--strict", "--cache-dir", options.environment.absolute() / "mypy_cache", *checked)


main()
