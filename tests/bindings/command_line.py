"""What the command line of Inlay writes, for tests of other ways in."""
import json
import subprocess
import tempfile


def run_prompts(inlay, model, prompts, tokens):
    """The likeliest texts of `inlay run --prompts`, in order."""
    with tempfile.NamedTemporaryFile("w") as file:
        file.write("\n".join(prompts) + "\n")
        file.flush()
        done = subprocess.run([inlay, "run", model, "--prompts", file.name, "--tokens", str(tokens), "--temperature", "0"], check=True,
                              capture_output=True, text=True)
    return [json.loads(line)["text"] for line in done.stdout.splitlines()]
