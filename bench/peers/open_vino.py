"""Tokens a second of OpenVINO GenAI (PyPI: openvino-genai) on a GGUF file, two threads.

    python3 bench/peers/open_vino.py FILE PREFILL DECODE [DEPTH ..]

prints `prefill: N tok/s`, and for each depth `decode at DEPTH: N tok/s`: the first token of a prompt of PREFILL tokens,
and DECODE tokens behind DEPTH others. It reads the file's matrices into its own types, with activations in 8 bits.
"""
import sys

import numpy
import openvino
import openvino_genai


random = numpy.random.default_rng(1)  # another prompt each time: it keeps those that were


def generated(pipeline, prompt, tokens):
    config = openvino_genai.GenerationConfig()
    config.max_new_tokens, config.ignore_eos, config.do_sample = tokens, True, False
    ids = random.integers(300, 2000, (1, prompt))
    inputs = openvino_genai.TokenizedInputs(openvino.Tensor(ids), openvino.Tensor(numpy.ones_like(ids)))
    return pipeline.generate(inputs, config).perf_metrics


def main():
    path, prefill, decode, *depths = sys.argv[1:]
    pipeline = openvino_genai.LLMPipeline(path, "CPU", INFERENCE_NUM_THREADS=2)
    generated(pipeline, int(prefill), 2)
    print(f"prefill: {int(prefill) / generated(pipeline, int(prefill), 2).get_ttft().mean * 1000:.1f} tok/s")
    for depth in map(int, depths):
        # The token behind the prompt is the first of those that are timed.
        print(f"decode at {depth}: {1000 / generated(pipeline, max(depth, 1), int(decode) + 1).get_tpot().mean:.1f} tok/s")


if __name__ == "__main__":
    if sys.argv[1:] == ["--version"]:
        print(openvino_genai.__version__.split("-")[0])
    else:
        main()
