#!/usr/bin/env python3
"""Writes families.json beside it: what transformers computes, in double, with a tiny model of every family and variant
that Inlay reads: its configuration, its tensors (those of layers and experts together: layers.[0,1,2,3]) and the logits of
two of its tokens.

    pip install numpy transformers==5.24.0 torch==2.15.0 && python3 tests/exec/families/make.py

Weights follow from names (weight()), so that the file holds none: tests/exec/families.cpp makes the same ones.
"""
import json
import math
import pathlib
import re
import tempfile

import numpy as np
import torch
from safetensors import safe_open
from safetensors.torch import save_file
from transformers import AutoModelForCausalLM, CONFIG_MAPPING

VOCAB, TOKENS, ROWS = 40, 24, (11, 23)
SIZES = dict(vocab_size=VOCAB, hidden_size=32, intermediate_size=48, num_hidden_layers=4, num_attention_heads=4,
             num_key_value_heads=2, max_position_embeddings=64, bos_token_id=0, eos_token_id=1, pad_token_id=0,
             tie_word_embeddings=False)
HALF = dict(rope_theta=1e4, rope_type="longrope", short_factor=[1.0, 1.5, 2.0, 2.5], long_factor=[1.0, 3.0, 9.0, 27.0])
YARN = dict(rope_theta=1e4, rope_type="yarn", factor=4.0, original_max_position_embeddings=16)
LLAMA3 = dict(rope_theta=1e4, rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
              original_max_position_embeddings=16)
LATENT = dict(num_key_value_heads=4, q_lora_rank=20, kv_lora_rank=12, qk_nope_head_dim=10, qk_rope_head_dim=6, v_head_dim=7)
GRANITE4 = dict(layer_types=["full_attention"] * 4, shared_intermediate_size=40, embedding_multiplier=12.0, residual_multiplier=0.22,
                attention_multiplier=0.2, logits_scaling=0.25, mamba_n_heads=4, mamba_d_head=16)
GEMMA4 = dict(head_dim=12, global_head_dim=16, sliding_window=6, layer_types=["sliding_attention", "full_attention"] * 2)
MIXED = ["sliding_attention", "full_attention", "sliding_attention", "full_attention"]
CASES = {
    "llama": ("llama", {}),
    "llama, biases and gelu": ("llama", dict(attention_bias=True, mlp_bias=True, hidden_act="gelu")),
    "llama, llama3": ("llama", dict(rope_parameters=LLAMA3)),
    "llama, long text of longrope": ("llama", dict(rope_parameters=dict(HALF, factor=4.0, original_max_position_embeddings=16))),
    "mistral": ("mistral", dict(sliding_window=6, head_dim=8)),
    "qwen2": ("qwen2", dict(use_sliding_window=True, sliding_window=6, max_window_layers=2)),
    "qwen3": ("qwen3", dict(head_dim=12, rope_parameters=YARN)),
    "gemma": ("gemma", dict(head_dim=12, tie_word_embeddings=True)),
    "gemma2": ("gemma2", dict(head_dim=12, sliding_window=6, query_pre_attn_scalar=12, attn_logit_softcapping=2.0,
                              final_logit_softcapping=3.0, tie_word_embeddings=True)),
    "gemma2, without caps": ("gemma2", dict(head_dim=12, sliding_window=6, query_pre_attn_scalar=20,
                                            attn_logit_softcapping=None, final_logit_softcapping=None)),
    "gemma3": ("gemma3_text", dict(head_dim=12, sliding_window=6, query_pre_attn_scalar=20, layer_types=MIXED)),
    "gemma3, scaled": ("gemma3_text", dict(head_dim=12, sliding_window=6, query_pre_attn_scalar=12, layer_types=MIXED,
                                           tie_word_embeddings=True, rope_parameters={
                                               "full_attention": dict(rope_type="linear", factor=8.0, rope_theta=1e6),
                                               "sliding_attention": dict(rope_type="default", rope_theta=1e4)})),
    "granite": ("granite", dict(embedding_multiplier=12.0, residual_multiplier=0.22, attention_multiplier=0.2,
                                logits_scaling=0.25)),
    "olmo2": ("olmo2", {}),
    "olmo3": ("olmo3", dict(sliding_window=6, layer_types=MIXED, rope_parameters={
        "full_attention": YARN, "sliding_attention": dict(rope_theta=1e4, rope_type="default")})),
    "smollm3": ("smollm3", {}),
    "phi3": ("phi3", dict(sliding_window=6)),
    "phi3, part of a head": ("phi3", dict(rope_parameters=dict(rope_theta=1e4, rope_type="default",
                                                               partial_rotary_factor=0.5))),
    "phi3, longrope": ("phi3", dict(rope_parameters=HALF, original_max_position_embeddings=16)),
    "glm": ("glm", dict(head_dim=12)),
    "glm4": ("glm4", dict(head_dim=8)),
    "helium": ("helium", dict(head_dim=8)),
    "ernie4_5": ("ernie4_5", dict(head_dim=12, use_bias=True)),
    "seed_oss": ("seed_oss", dict(head_dim=12, attention_out_bias=True)),
    "cwm": ("cwm", dict(head_dim=8, sliding_window=6, rope_parameters=LLAMA3)),
    "ministral": ("ministral", dict(head_dim=12, sliding_window=6)),
    "exaone4": ("exaone4", dict(sliding_window=6, layer_types=MIXED)),
    "exaone4, without windows": ("exaone4", dict(sliding_window=None, layer_types=["full_attention"] * 4)),
    "cohere": ("cohere", dict(logit_scale=0.3, tie_word_embeddings=True)),
    "cohere, biases": ("cohere", dict(logit_scale=2.0, attention_bias=True)),
    "cohere, norms of heads": ("cohere", dict(logit_scale=0.5, use_qk_norm=True)),
    "cohere2": ("cohere2", dict(logit_scale=0.7, sliding_window=6, head_dim=8)),
    "stablelm": ("stablelm", dict(use_qkv_bias=True)),
    "stablelm, parallel": ("stablelm", dict(use_parallel_residual=True)),
    "stablelm, norms of heads": ("stablelm", dict(qk_layernorm=True, use_parallel_residual=True)),
    "phi": ("phi", {}),
    "starcoder2": ("starcoder2", dict(sliding_window=6)),
    "starcoder2, without biases": ("starcoder2", dict(use_bias=False, tie_word_embeddings=True)),
    "nemotron": ("nemotron", dict(head_dim=12)),
    "arcee": ("arcee", {}),
    "arcee, biases": ("arcee", dict(attention_bias=True, mlp_bias=True)),
    "mixtral": ("mixtral", dict(num_local_experts=4, num_experts_per_tok=2, sliding_window=6)),
    "qwen2_moe": ("qwen2_moe", dict(num_experts=6, num_experts_per_tok=2, moe_intermediate_size=24,
                                    shared_expert_intermediate_size=40)),
    "qwen2_moe, windows": ("qwen2_moe", dict(num_experts=6, num_experts_per_tok=3, moe_intermediate_size=24, norm_topk_prob=True,
                                             shared_expert_intermediate_size=40, decoder_sparse_step=2, mlp_only_layers=[1],
                                             use_sliding_window=True,
                                             sliding_window=6, max_window_layers=3)),
    "qwen3_moe": ("qwen3_moe", dict(num_experts=8, num_experts_per_tok=3, moe_intermediate_size=20, norm_topk_prob=True,
                                    head_dim=12)),
    "qwen3_moe, windows": ("qwen3_moe", dict(num_experts=8, num_experts_per_tok=1, moe_intermediate_size=20, head_dim=12,
                                             mlp_only_layers=[2], use_sliding_window=True, sliding_window=6)),
    "olmoe": ("olmoe", dict(num_experts=5, num_experts_per_tok=2, intermediate_size=24)),
    "granitemoe": ("granitemoe", dict(num_local_experts=4, num_experts_per_tok=2, intermediate_size=24, embedding_multiplier=12.0,
                                      residual_multiplier=0.22, attention_multiplier=0.2, logits_scaling=0.25)),
    "granitemoeshared": ("granitemoeshared", dict(num_local_experts=4, num_experts_per_tok=2, intermediate_size=24,
                                                  shared_intermediate_size=40, embedding_multiplier=12.0, residual_multiplier=0.22,
                                                  attention_multiplier=0.2, logits_scaling=0.25)),
    "granitemoeshared, none shared": ("granitemoeshared", dict(num_local_experts=4, num_experts_per_tok=2, intermediate_size=24,
                                                               attention_multiplier=0.2)),
    "granite 4": ("granitemoehybrid", GRANITE4 | dict(num_local_experts=0, num_experts_per_tok=0, position_embedding_type="rope")),
    "granite 4, still": ("granitemoehybrid", GRANITE4 | dict(num_local_experts=0, num_experts_per_tok=0)),
    "granite 4, experts": ("granitemoehybrid", GRANITE4 | dict(num_local_experts=4, num_experts_per_tok=2, intermediate_size=24,
                                                              position_embedding_type="rope")),
    "minimax_m2": ("minimax_m2", dict(num_local_experts=6, num_experts_per_tok=2, intermediate_size=24, head_dim=12,
                                      rope_parameters=dict(rope_theta=1e4, rope_type="default", partial_rotary_factor=0.5))),
    "flex_olmo": ("flex_olmo", dict(num_experts=5, num_experts_per_tok=2, intermediate_size=24)),
    "flex_olmo, renormalized": ("flex_olmo", dict(num_experts=6, num_experts_per_tok=3, intermediate_size=24, norm_topk_prob=True)),
    "glm4_moe": ("glm4_moe", dict(n_routed_experts=8, num_experts_per_tok=3, moe_intermediate_size=20, n_group=4, topk_group=2,
                                  routed_scaling_factor=1.5, n_shared_experts=2, use_qk_norm=True, head_dim=12)),
    "glm4_moe, one group": ("glm4_moe", dict(n_routed_experts=6, num_experts_per_tok=2, moe_intermediate_size=20, n_group=1,
                                             topk_group=1, norm_topk_prob=False, attention_bias=True, first_k_dense_replace=2)),
    "dots1": ("dots1", dict(n_routed_experts=8, num_experts_per_tok=3, moe_intermediate_size=20, n_group=2, topk_group=1,
                            routed_scaling_factor=2.5, n_shared_experts=1, norm_topk_prob=True, first_k_dense_replace=1,
                            head_dim=12, sliding_window=6, max_window_layers=2)),
    "ernie4_5_moe": ("ernie4_5_moe", dict(moe_num_experts=6, moe_k=3, moe_intermediate_size=20, moe_num_shared_experts=2)),
    "ernie4_5_moe, spaced": ("ernie4_5_moe", dict(moe_num_experts=4, moe_k=2, moe_intermediate_size=20, moe_num_shared_experts=0,
                                                  moe_layer_interval=2, tie_word_embeddings=True)),
    "ernie4_5_moe, biases": ("ernie4_5_moe", dict(moe_num_experts=4, moe_k=2, moe_intermediate_size=20, moe_num_shared_experts=1,
                                                  use_bias=True)),
    "phimoe": ("phimoe", dict(num_local_experts=6, num_experts_per_tok=2, intermediate_size=24, attention_bias=True, lm_head_bias=True,
                              router_jitter_noise=0.2)),
    "phimoe, longrope": ("phimoe", dict(num_local_experts=4, intermediate_size=24, sliding_window=6, rope_parameters=HALF | dict(
        original_max_position_embeddings=64, short_mscale=1.25, long_mscale=1.25))),
    "gpt_oss": ("gpt_oss", dict(num_local_experts=5, num_experts_per_tok=2, intermediate_size=24, head_dim=12, sliding_window=6,
                                rope_parameters=YARN | dict(truncate=False))),
    "gpt_oss, without biases of attention": ("gpt_oss", dict(num_local_experts=4, num_experts_per_tok=4, intermediate_size=24,
                                                             head_dim=8, sliding_window=6, attention_bias=False,
                                                             layer_types=["full_attention", "sliding_attention"] * 2,
                                                             rope_parameters=YARN | dict(truncate=False))),
    "deepseek_v2": ("deepseek_v2", LATENT | dict(q_lora_rank=None, n_routed_experts=6, num_experts_per_tok=2, n_shared_experts=2,
                                                 moe_intermediate_size=20, first_k_dense_replace=1,
                                                 rope_parameters=YARN | dict(mscale=0.707, mscale_all_dim=0.707))),
    "deepseek_v2, groups": ("deepseek_v2", LATENT | dict(n_routed_experts=8, num_experts_per_tok=3, moe_intermediate_size=20, n_group=4,
                                                         topk_group=2, topk_method="group_limited_greedy",
                                                         routed_scaling_factor=4.0, n_shared_experts=1)),
    "deepseek_v3": ("deepseek_v3", LATENT | dict(n_routed_experts=8, num_experts_per_tok=3, moe_intermediate_size=20, n_group=4,
                                                 topk_group=2, first_k_dense_replace=1,
                                                 rope_parameters=YARN | dict(mscale=1.0, mscale_all_dim=1.0))),
    "deepseek_v3, halves": ("deepseek_v3", LATENT | dict(n_routed_experts=4, num_experts_per_tok=2, moe_intermediate_size=20, n_group=1,
                                                         topk_group=1, norm_topk_prob=False, first_k_dense_replace=3,
                                                         rope_interleave=False, v_head_dim=20, rope_parameters=YARN)),
    "kimi_k2": ("deepseek_v3", LATENT | dict(n_routed_experts=6, num_experts_per_tok=2, moe_intermediate_size=20, n_group=1, topk_group=1,
                                             first_k_dense_replace=1, routed_scaling_factor=2.827, rope_parameters=YARN | dict(
                                                 rope_theta=5e4, beta_fast=1.0, beta_slow=1.0, mscale=1.0, mscale_all_dim=1.0)), "kimi_k2"),
    "glm4_moe_lite": ("glm4_moe_lite", LATENT | dict(n_routed_experts=6, num_experts_per_tok=2, moe_intermediate_size=20,
                                                     mlp_layer_types=["dense", "sparse", "dense", "sparse"], rms_norm_eps=1e-6)),
    "youtu": ("youtu", LATENT | dict(tie_word_embeddings=True, pad_token_id=None)),  # whose row of the embedding it sets to 0
    "minicpm3": ("minicpm3", LATENT | dict(v_head_dim=None, scale_emb=12, scale_depth=1.4, dim_model_base=256, rms_norm_eps=1e-6,
                                           rope_parameters=HALF | dict(rope_theta=1e4, short_factor=[1.0, 1.5, 2.0],
                                                                       long_factor=[1.0, 3.0, 9.0],
                                                                       original_max_position_embeddings=16, factor=4.0))),
    "apertus": ("apertus", dict(rope_parameters=LLAMA3)),
    "apertus, biases": ("apertus", dict(attention_bias=True, rope_parameters=LLAMA3, tie_word_embeddings=True)),
    "internlm3": ("internlm3", dict(head_dim=12)),
    "internlm3, biases": ("internlm3", dict(head_dim=8, attention_bias=True, mlp_bias=True)),
    "nanochat": ("nanochat", dict(final_logit_softcapping=3.0)),
    "ministral3": ("ministral3", dict(head_dim=12, rope_parameters=dict(
        rope_type="yarn", rope_theta=1e4, factor=4.0, original_max_position_embeddings=32, beta_fast=32.0, beta_slow=1.0,
        mscale=1.0, mscale_all_dim=1.0, llama_4_scaling_beta=0.1))),
    "gemma4": ("gemma4_text", GEMMA4 | dict(attention_k_eq_v=True, num_global_key_value_heads=1, final_logit_softcapping=3.0,
                                            hidden_size_per_layer_input=0)),
    "gemma4, inputs of layers": ("gemma4_text", GEMMA4 | dict(
        hidden_size_per_layer_input=8, vocab_size_per_layer_input=VOCAB, num_hidden_layers=6, num_kv_shared_layers=2,
        use_double_wide_mlp=True, layer_types=MIXED + MIXED[:2], tie_word_embeddings=True)),
    "gemma4, experts": ("gemma4_text", GEMMA4 | dict(
        attention_k_eq_v=True, num_global_key_value_heads=4, hidden_size_per_layer_input=0, enable_moe_block=True, num_experts=6,
        top_k_experts=2, moe_intermediate_size=20)),
    "hunyuan": ("hunyuan_v1_dense", dict(head_dim=8, rope_parameters=dict(rope_theta=1e4, rope_type="dynamic",
                                                                         alpha=100.0, factor=1.0))),
}


def weight(name, shape, norm_at):
    """Uniform numbers from the FNV-1a hash of the name: matrices of unit gain, norms around `norm_at`, biases of 0.3."""
    h = 0xCBF29CE484222325
    for byte in name.encode():
        h = (h ^ byte) * 0x100000001B3 % 2**64
    i = np.arange(math.prod(shape), dtype=np.uint64) + np.uint64(h)
    with np.errstate(over="ignore"):
        i = (i + np.uint64(0x9E3779B97F4A7C15)) * np.uint64(0xBF58476D1CE4E5B9)
        i = (i ^ (i >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    u = ((i >> np.uint64(40)).astype(np.float64) * 2.0**-23 - 1).reshape(shape)
    if name.endswith(".bias"):
        return 0.3 * u
    if not shape:  # beta and eps of xIELU, of which the latter is no more than 0
        return 0.25 * u - 0.25
    if len(shape) == 1:
        return norm_at + 0.25 * u
    return u if "embed_tokens" in name else u * (1.7 / math.sqrt(shape[1]))


def together(shapes):
    """Names that differ by layers and experts, as one: model.layers.[0,2].mlp.experts.[0,1].up_proj.weight."""
    alike = {}
    for name, shape in shapes.items():
        numbers = [match.group(0) for match in re.finditer(r"(?<=layers\.)\d+|(?<=experts\.)\d+", name)]
        pattern = re.sub(r"(?<=layers\.)\d+|(?<=experts\.)\d+", "#", name)
        alike.setdefault((pattern, tuple(shape)), []).append([int(each) for each in numbers])
    out = {}
    for (pattern, shape), places in alike.items():
        lists = [sorted(set(column)) for column in zip(*places)]
        assert math.prod(len(each) for each in lists) == len(places)
        for each in lists:
            pattern = pattern.replace("#", json.dumps(each, separators=(",", ":")), 1)
        out[pattern] = list(shape)
    return out


@torch.no_grad()
def case(architecture, settings, name=None):
    """`name`: what the files of a family call what transformers computes as another."""
    config = CONFIG_MAPPING[architecture](**(SIZES | settings))
    norm_at = 0 if architecture in ("gemma", "gemma2", "gemma3_text", "nemotron") else 1
    with tempfile.TemporaryDirectory() as place:  # the checkpoint has other names than the model: each expert's
        AutoModelForCausalLM.from_config(config).save_pretrained(place)
        file = str(pathlib.Path(place) / "model.safetensors")
        with safe_open(file, "pt") as saved:
            shapes = {name: saved.get_slice(name).get_shape() for name in saved.keys()}
        save_file({name: torch.from_numpy(np.asarray(weight(name, tuple(shape), norm_at), np.float32))
                   for name, shape in shapes.items()}, file, {"format": "pt"})
        model = AutoModelForCausalLM.from_pretrained(place, dtype=torch.float64, attn_implementation="eager",
                                                     experts_implementation="eager").eval()
    ids = [(i * 37 + 11) % VOCAB for i in range(TOKENS)]
    logits = model(torch.tensor([ids]), use_cache=False).logits[0].double().numpy()
    # An infinite number, which time_step_limit has, is no JSON.
    kept = {k: v for k, v in config.to_diff_dict().items() if k not in ("transformers_version", "dtype", "time_step_limit")}
    return dict(config=kept | {"model_type": name or architecture}, tensors=together(shapes),
                logits={row: [float(f"{x:.9g}") for x in logits[row]] for row in ROWS})


if __name__ == "__main__":
    torch.cuda.is_current_stream_capturing = lambda: False
    out = {name: case(*each) for name, each in CASES.items()}
    lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(each)}" for name, each in out.items())
    (pathlib.Path(__file__).parent / "families.json").write_text("{\n" + lines + "\n}\n")
