"""Tokens a second of a Llama of SmolLM2-135M's shape in PyTorch, random weights: as it is, in bf16, and by inlay.torch.quantize_;
each of them also through torch.compile, which takes a compiler and some minutes.

    PYTHONPATH=FOLDER_OF_INLAY python3 bench/peers/torch_generate.py [--eager]      needs torch and transformers

By turns; medians of five."""
import copy
import statistics
import sys
import time

import torch
import transformers

import inlay.torch

THREADS, PROMPT, TOKENS, TURNS = 2, 256, 32, 5


def main():
    torch.manual_seed(1)
    torch.set_num_threads(THREADS)
    config = transformers.LlamaConfig(vocab_size=49152, hidden_size=576, intermediate_size=1536, num_hidden_layers=30,
                                      num_attention_heads=9, num_key_value_heads=3, max_position_embeddings=2048)
    plain = transformers.LlamaForCausalLM(config).eval()
    models = {"f32": plain, "bf16": copy.deepcopy(plain).bfloat16()}
    for kind in ("w4a16", "w4a8", "int8"):
        models[kind] = inlay.torch.quantize_(copy.deepcopy(plain), kind)
    if "--eager" not in sys.argv[1:]:
        for name in list(models):
            compiled = copy.deepcopy(models[name])
            compiled.forward = torch.compile(compiled.forward)
            # With a cache that grows each token would be another shape, and after eight torch gives up.
            compiled.generation_config.cache_implementation = "static"
            models[name + " compiled"] = compiled
    prompt = torch.randint(0, config.vocab_size, (1, PROMPT))

    def prefill(model):
        model(prompt, use_cache=False)
        return PROMPT

    def decode(model):
        model.generate(prompt[:, :16], attention_mask=torch.ones_like(prompt[:, :16]), max_new_tokens=TOKENS, min_new_tokens=TOKENS,
                       do_sample=False)
        return TOKENS

    rates = {(name, work): [] for name in models for work in (prefill, decode)}
    with torch.no_grad():
        for turn in range(TURNS + 1):  # the first warms up
            for (name, work), found in rates.items():
                begin = time.perf_counter()
                tokens = work(models[name])
                if turn > 0:
                    found.append(tokens / (time.perf_counter() - begin))
    for (name, work), found in rates.items():
        print("%-14s %-8s %7.1f tok/s (%.1f to %.1f)" % (name, work.__name__, statistics.median(found), min(found), max(found)))


if __name__ == "__main__":
    main()
