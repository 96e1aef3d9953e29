"""Tokens a second of ONNX Runtime GenAI (PyPI: onnxruntime-genai) on a folder of its own, two threads.

    python3 bench/peers/ort_genai.py FOLDER PREFILL DECODE [DEPTH ..]

prints `prefill: N tok/s`, and for each depth `decode at DEPTH: N tok/s`: the first token of a prompt of PREFILL tokens,
and DECODE tokens behind DEPTH others. A folder is what its builder makes of a Hugging Face one; with 4 bits in groups of
32 and activations of 8, which is our Q4_0 with --activations int8:

    python3 -m onnxruntime_genai.models.builder -i HUGGING_FACE -o FOLDER -p int4 -e cpu \\
        --extra_options int4_block_size=32 int4_accuracy_level=4
"""
import importlib.metadata
import json
import sys
import time

import numpy
import onnxruntime_genai

THREADS = {"model": {"decoder": {"session_options": {"intra_op_num_threads": 2}}}}
random = numpy.random.default_rng(1)


def seconds(model, vocabulary, prompt, tokens):
    """Of a prompt of that many tokens and the token behind it; of `tokens` more, each."""
    params = onnxruntime_genai.GeneratorParams(model)
    # No fewer than all of them: the end of a text is a token as any other.
    params.set_search_options(do_sample=False, min_length=prompt + tokens + 1, max_length=prompt + tokens + 1)
    generator = onnxruntime_genai.Generator(model, params)
    begin = time.perf_counter()
    generator.append_tokens(random.integers(0, vocabulary, prompt, dtype=numpy.int32))
    generator.generate_next_token()
    first = time.perf_counter()
    for _ in range(tokens):
        generator.generate_next_token()
    return first - begin, (time.perf_counter() - first) / max(tokens, 1)


def main():
    folder, prefill, decode, *depths = sys.argv[1:]
    with open(f"{folder}/genai_config.json") as file:
        vocabulary = json.load(file)["model"]["vocab_size"]
    config = onnxruntime_genai.Config(folder)
    config.overlay(json.dumps(THREADS))
    model = onnxruntime_genai.Model(config)
    seconds(model, vocabulary, int(prefill), 1)
    print(f"prefill: {int(prefill) / seconds(model, vocabulary, int(prefill), 0)[0]:.1f} tok/s")
    for depth in map(int, depths):
        print(f"decode at {depth}: {1 / seconds(model, vocabulary, max(depth, 1), int(decode))[1]:.1f} tok/s")


if __name__ == "__main__":
    if sys.argv[1:] == ["--version"]:
        print(importlib.metadata.version("onnxruntime-genai"))
    else:
        main()
