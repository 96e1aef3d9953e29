"""Checkpoints of Hugging Face: config.json, the headers of safetensors, quantized weights, mixtures, shards."""
import json
import math

from corpus import alphabet, dump
from tokenizer_json import tokenizer_json

config = {"model_type": "llama", "hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2,
          "num_key_value_heads": 1, "intermediate_size": 4, "vocab_size": 10, "max_position_embeddings": 32,
          "rms_norm_eps": 1e-5, "tie_word_embeddings": True}
ROPE = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
        "original_max_position_embeddings": 8192}


def header(tensors, dtype="F16", quantized=""):
    at, out = 0, {}
    for name, shape in tensors:
        own = next((each for end, each in DTYPES.items() if quantized and name.endswith(end)), dtype)
        own = "F8_E4M3" if quantized == "fp8" and "_proj.weight" in name and len(shape) == 2 and "scale" not in name else own
        size = {"F16": 2, "BF16": 2, "F32": 4, "I32": 4, "U8": 1, "F8_E4M3": 1}[own] * math.prod(shape)
        out[name] = {"dtype": own, "shape": shape, "data_offsets": [at, at + size]}
        at += size
    return {"header": out, "data": at}


DTYPES = {".qweight": "I32", ".qzeros": "I32", ".g_idx": "I32", "_blocks": "U8", "_scales": "U8"}


def checkpoint(fused=False, vocab=10, bias=False):
    b = "model.layers.0."
    tensors = [("model.tok_embeddings.weight" if fused else "model.embed_tokens.weight", [vocab, 8]), ("model.norm.weight", [8])]
    if fused:
        tensors += [(b + "attention_norm.weight", [8]), (b + "ffn_norm.weight", [8]), (b + "attention.wqkv.weight", [16, 8]),
                    (b + "attention.wo.weight", [8, 8]), (b + "feed_forward.w1.weight", [4, 8]),
                    (b + "feed_forward.w3.weight", [4, 8]), (b + "feed_forward.w2.weight", [8, 4])]
    else:
        tensors += [(b + "input_layernorm.weight", [8]), (b + "post_attention_layernorm.weight", [8])]
        for part, rows in (("q", 8), ("k", 4), ("v", 4)):
            tensors += [(b + f"self_attn.{part}_proj.weight", [rows, 8])]
            tensors += [(b + f"self_attn.{part}_proj.bias", [rows])] if bias else []
        tensors += [(b + "self_attn.o_proj.weight", [8, 8]), (b + "mlp.gate_proj.weight", [4, 8]),
                    (b + "mlp.up_proj.weight", [4, 8]), (b + "mlp.down_proj.weight", [8, 4])]
    return tensors


small = {alphabet(b): i for i, b in enumerate(b"ab It's20")}
dump("huggingface", "llama", {"config": dict(config, rope_scaling=ROPE), **header(checkpoint()),
     "tokenizer": tokenizer_json(small, [], True), "tokenizer_config": {"added_tokens_decoder": {"9": {"content": "<|end|>", "special": True}}}})
dump("huggingface", "internlm2", {"config": dict(config, model_type="internlm2", bias=False, rope_scaling={"type": "dynamic", "factor": 2.0}),
     **header(checkpoint(fused=True), "F32")})
dump("huggingface", "qwen2", {"config": dict(config, model_type="qwen2", use_sliding_window=True, sliding_window=4, max_window_layers=0,
     layer_types=["sliding_attention"], rope_parameters={"full_attention": {"rope_type": "default"},
     "sliding_attention": {"rope_type": "yarn", "factor": 2.0, "rope_theta": 1000.0, "original_max_position_embeddings": 16}}),
     **header(checkpoint(bias=True), "BF16")})
gemma_norms = [("model.layers.0.pre_feedforward_layernorm.weight", [8]), ("model.layers.0.post_feedforward_layernorm.weight", [8]),
               ("model.layers.0.self_attn.q_norm.weight", [4]), ("model.layers.0.self_attn.k_norm.weight", [4]),
               ("vision_tower.x.weight", [2, 2])]
gemma = dict(config, model_type="gemma3_text", head_dim=4, sliding_window=4, _sliding_window_pattern=1, query_pre_attn_scalar=3,
             hidden_activation="gelu_pytorch_tanh", rope_local_base_freq=100.0, rope_scaling={"rope_type": "linear", "factor": 8.0})
dump("huggingface", "gemma3", {"config": {"model_type": "gemma3", "text_config": gemma, "vision_config": {}},
     **header([(name.replace("model.", "language_model.model.", 1) if name.startswith("model.") else name, shape)
               for name, shape in checkpoint() + gemma_norms])})
unfused = [each for each in checkpoint() if not any(part in each[0] for part in ("q_proj", "k_proj", "v_proj", "gate_proj", "up_proj"))]
dump("huggingface", "phi3", {"config": dict(config, model_type="phi3", original_max_position_embeddings=16,
     rope_scaling={"type": "longrope", "short_factor": [1.0, 2.0], "long_factor": [3, 4]}),
     **header(unfused + [("model.layers.0.self_attn.qkv_proj.weight", [16, 8]), ("model.layers.0.mlp.gate_up_proj.weight", [8, 8])])})
dump("huggingface", "granite", {"config": dict(config, model_type="granite", embedding_multiplier=12.0, residual_multiplier=0.2,
     attention_multiplier=0.3, logits_scaling=8.0, attention_dropout=0.0), **header(checkpoint())})
dump("huggingface", "smollm3", {"config": dict(config, model_type="smollm3", no_rope_layers=[0], no_rope_layer_interval=2,
     use_sliding_window=False), **header(checkpoint())})
names = [name for name, _ in checkpoint()]
dump("huggingface", "index", {"config": dict(config, model_type="mistral", intermediate_size=[4]), **header(checkpoint()),
     "index": {"weight_map": {name: "model.safetensors" for name in names}}})
dump("huggingface", "raw", {"config": json.dumps(config), "header": json.dumps(header(checkpoint())["header"]), "data": 900})

# Quantized: of each linear of 8 x 8 the parts that its method stores.
wide = dict(config, num_key_value_heads=2, intermediate_size=8)
PROJECTIONS = [f"model.layers.0.{part}_proj" for part in ("self_attn.q", "self_attn.k", "self_attn.v", "self_attn.o",
                                                          "mlp.gate", "mlp.up", "mlp.down")]


def with_parts(parts):
    return [each for each in checkpoint() if "_proj" not in each[0]] + [(f"{stem}.{part}", shape) for stem in PROJECTIONS
                                                                          for part, shape in parts]


gptq = [("qweight", [1, 8]), ("qzeros", [1, 1]), ("scales", [1, 8])]
awq = [("qweight", [8, 1]), ("qzeros", [1, 1]), ("scales", [1, 8])]
dump("huggingface", "gptq", {"config": dict(wide, quantization_config={"quant_method": "gptq", "bits": 4, "group_size": -1}),
     **header(with_parts(gptq), quantized="codes")})
ordered = header(with_parts(gptq + [("g_idx", [8])]), quantized="codes")
codes = ordered["header"][PROJECTIONS[0] + ".qweight"]["data_offsets"][0]
dump("huggingface", "gptq_order", {"config": wide, "quantize_config": {"quant_method": "gptq", "bits": 4, "group_size": 8,
     "desc_act": True, "checkpoint_format": "gptq_v2"}, **ordered, "fill": 1,
     "words": [[codes + 4 * i, 2020557397 * i % (1 << 32)] for i in range(8)]})
dump("huggingface", "awq", {"config": dict(wide, quantization_config={"quant_method": "awq", "bits": 4, "group_size": 8,
     "version": "GEMM"}), **header(with_parts(awq), quantized="codes")})
dump("huggingface", "fp8", {"config": dict(wide, quantization_config={"quant_method": "fp8", "weight_block_size": [8, 4]}),
     **header(with_parts([("weight", [8, 8]), ("weight_scale_inv", [1, 2])]), "F32", quantized="fp8")})
dump("huggingface", "fp8_tensors", {"config": dict(wide, quantization_config={"quant_method": "fp8", "fmt": "e4m3"}),
     **header(with_parts([("weight", [8, 8]), ("weight_scale", []), ("input_scale", [])]), "BF16", quantized="fp8")})

# Mixtures, and several shards.
attention = [each for each in checkpoint() if "mlp" not in each[0]]
experts = [(f"model.layers.0.mlp.experts.{e}.{part}_proj.weight", shape) for e in range(4)
           for part, shape in (("gate", [4, 8]), ("up", [4, 8]), ("down", [8, 4]))]
norms = [(f"model.layers.0.self_attn.{part}_norm.weight", [4]) for part in "qk"]
shared = [(f"model.layers.0.mlp.shared_experts.{part}_proj.weight", shape) for part, shape in
          (("gate", [4, 8]), ("up", [4, 8]), ("down", [8, 4]))]
sparse = dict(config, num_experts=4, num_experts_per_tok=2, moe_intermediate_size=4, norm_topk_prob=True, head_dim=4)
dump("huggingface", "qwen3_moe", {"config": dict(sparse, model_type="qwen3_moe"),
     **header(attention + norms + experts + [("model.layers.0.mlp.gate.weight", [4, 8])])})
dump("huggingface", "glm4_moe", {"config": dict(sparse, model_type="glm4_moe", num_experts=None, n_routed_experts=4, n_group=2,
     topk_group=1, n_shared_experts=1, first_k_dense_replace=0, routed_scaling_factor=2.0, use_qk_norm=True),
     **header(attention + norms + experts + shared + [("model.layers.0.mlp.gate.weight", [4, 8]),
                                                      ("model.layers.0.mlp.gate.e_score_correction_bias", [4])])})
by_turns = [(f"model.layers.0.mlp.experts.{name}", shape) for name, shape in (
    ("gate_up_proj_blocks", [2, 64, 1, 16]), ("gate_up_proj_scales", [2, 64, 1]), ("down_proj_blocks", [2, 32, 1, 16]),
    ("down_proj_scales", [2, 32, 1]), ("gate_up_proj_bias", [2, 64]), ("down_proj_bias", [2, 32]))]
oss = [("model.embed_tokens.weight", [10, 32]), ("model.norm.weight", [32]), ("model.layers.0.input_layernorm.weight", [32]),
       ("model.layers.0.post_attention_layernorm.weight", [32]), ("model.layers.0.self_attn.sinks", [2]),
       ("model.layers.0.mlp.router.weight", [2, 32]), ("model.layers.0.mlp.router.bias", [2])]
for part, shape in (("q", [8, 32]), ("k", [4, 32]), ("v", [4, 32]), ("o", [32, 8])):
    oss += [(f"model.layers.0.self_attn.{part}_proj.weight", shape), (f"model.layers.0.self_attn.{part}_proj.bias", shape[:1])]
dump("huggingface", "gpt_oss", {"config": dict(config, model_type="gpt_oss", hidden_size=32, intermediate_size=32, head_dim=4,
     num_local_experts=2, num_experts_per_tok=1, rope_scaling={"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16},
     quantization_config={"quant_method": "mxfp4"}),
     **header(oss + by_turns, quantized="codes")})
names = checkpoint()
first, second = header(names[:5]), header(names[5:])
dump("huggingface", "shards", {"config": config, "data": 0, "header": {},
     "index": {"weight_map": {name: f"m-{1 if i < 5 else 2}.safetensors" for i, (name, _) in enumerate(names)}},
     "shards": {"m-1.safetensors": first, "m-2.safetensors": second}})
