"""GGUF files: decoders of each kind of matrix, mixtures, and models in parts."""
import math
import struct

from corpus import G, SPACE, alphabet, floats, write

U32, I32, F32, BOOL, STRING, ARRAY = 4, 5, 6, 7, 8, 9
FORMATS = {U32: "<I", I32: "<i", F32: "<f", BOOL: "<B"}


def text(value):
    data = value if isinstance(value, bytes) else value.encode()
    return struct.pack("<Q", len(data)) + data


def value(kind, item):
    return text(item) if kind == STRING else struct.pack(FORMATS[kind], item)


def pair(key, kind, item):
    if isinstance(kind, tuple):
        return text(key) + struct.pack("<IIQ", ARRAY, kind[0], len(item)) + b"".join(value(kind[0], i) for i in item)
    return text(key) + struct.pack("<I", kind) + value(kind, item)


def gguf(pairs, tensors):
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(pairs)) + b"".join(pair(*p) for p in pairs)
    data = b""
    for i, (name, extents, kind, content) in enumerate(tensors):
        head += text(name) + struct.pack("<I", len(extents)) + b"".join(struct.pack("<Q", e) for e in reversed(extents))
        head += struct.pack("<IQ", kind, len(data))
        data += content + bytes(-len(content) % 32)
    return head + bytes(-len(head) % 32) + data


def parts_of_decoder(arch, vocabulary, vocab, dim=8, heads=2, kv=1, hidden=8, more=(), kind=0, tied=True, extra=(), head_dim=0):
    more = list(more) + ([("ARCH.attention.key_length", U32, head_dim)] if head_dim else [])
    head_dim = head_dim or dim // heads
    a = arch + "."
    pairs = [("general.architecture", STRING, arch), (a + "block_count", U32, 1), (a + "embedding_length", U32, dim),
             (a + "context_length", U32, 16), (a + "attention.head_count", U32, heads),
             (a + "attention.head_count_kv", U32, kv), (a + "attention.layer_norm_rms_epsilon", F32, 1e-5),
             (a + "feed_forward_length", U32, hidden)]
    pairs += [(key.replace("ARCH", arch), k, v) for key, k, v in more] + vocabulary

    # Bytes of a block: small ones, so that what is a scale is finite.
    blocks = {6: (32, 22), 7: (32, 24), 10: (256, 84), 11: (256, 110), 13: (256, 176), 20: (32, 18), 23: (256, 136),
              39: (32, 17)}

    def matrix(name, n, k):
        if kind in blocks and k % blocks[kind][0] == 0:
            elements, size = blocks[kind]
            return (name, (n, k), kind, bytes((i * 29) % 0x3C for i in range(n * k // elements * size)))
        if kind == 8:  # Q8_0: f16 scale and 32 codes
            return (name, (n, k), 8, (struct.pack("<e", 0.01) + bytes((i * 7) % 100 for i in range(32))) * (n * k // 32))
        if kind == 2:  # Q4_0
            return (name, (n, k), 2, (struct.pack("<e", 0.1) + bytes((i * 29) % 256 for i in range(16))) * (n * k // 32))
        return (name, (n, k), 0, floats(n * k, n))

    def vector(name, n):
        return (name, (n,), 0, floats(n, 3))

    b = "blk.0."
    tensors = [matrix("token_embd.weight", vocab, dim), vector("output_norm.weight", dim), vector(b + "attn_norm.weight", dim),
               matrix(b + "attn_q.weight", heads * head_dim, dim), matrix(b + "attn_k.weight", kv * head_dim, dim),
               matrix(b + "attn_v.weight", kv * head_dim, dim), matrix(b + "attn_output.weight", dim, heads * head_dim),
               vector(b + "ffn_norm.weight", dim), matrix(b + "ffn_gate.weight", hidden, dim),
               matrix(b + "ffn_up.weight", hidden, dim), matrix(b + "ffn_down.weight", dim, hidden)]
    if not tied:
        tensors.append(matrix("output.weight", vocab, dim))
    for name, n in extra:
        tensors.append(vector(name, n))
    return pairs, tensors


def decoder(*args, **more):
    return gguf(*parts_of_decoder(*args, **more))


spm_tokens = ["<unk>", "<s>", "</s>", "a", "b", "ab", SPACE, SPACE + "ab", "c", "<0x0A>", "<0xFF>", "<|end|>"]
spm_types = [2, 3, 3, 1, 1, 1, 1, 1, 1, 6, 6, 4]
T = "tokenizer.ggml."
spm = [(T + "model", STRING, "llama"), (T + "tokens", (STRING,), spm_tokens), (T + "token_type", (I32,), spm_types),
       (T + "scores", (F32,), [0.0] * 5 + [-1.0, -2.0, -3.0] + [0.0] * 4), (T + "unknown_token_id", U32, 0)]

bpe_tokens = [alphabet(b) for b in b"ab c\n<|end>/s"] + [alphabet(0xFF), "ab", G + "ab", "<|end|>"]
bpe_types = [1] * (len(bpe_tokens) - 1) + [3]


def bpe(pre):
    return [(T + "model", STRING, "gpt2"), (T + "pre", STRING, pre), (T + "tokens", (STRING,), bpe_tokens),
            (T + "token_type", (I32,), bpe_types), (T + "merges", (STRING,), ["a b", G + " ab"]),
            (T + "eos_token_id", U32, len(bpe_tokens) - 1), ("inlay.tokenizer.normalized", (I32,), [len(bpe_tokens) - 1])]


write("gguf", "llama", decoder("llama", spm, 12))
write("gguf", "llama_head", decoder("llama", spm, 12, tied=False, more=[("ARCH.rope.dimension_count", U32, 4),
      ("ARCH.rope.scaling.type", STRING, "linear"), ("ARCH.rope.scaling.factor", F32, 2.0)]))
write("gguf", "llama_factors", decoder("llama", spm, 12, extra=[("rope_freqs.weight", 2)]))
write("gguf", "qwen2", decoder("qwen2", bpe("qwen2"), len(bpe_tokens), extra=[("blk.0.attn_q.bias", 8),
      ("blk.0.attn_k.bias", 4), ("blk.0.attn_v.bias", 4)], more=[("ARCH.rope.scaling.type", STRING, "yarn"),
      ("ARCH.rope.scaling.factor", F32, 4.0), ("ARCH.rope.scaling.original_context_length", U32, 8),
      ("ARCH.rope.freq_base", F32, 10000.0)]))
write("gguf", "qwen3_window", decoder("qwen3", bpe("smollm"), len(bpe_tokens), extra=[("blk.0.attn_q_norm.weight", 4),
      ("blk.0.attn_k_norm.weight", 4)], more=[("ARCH.attention.sliding_window", U32, 2),
      ("ARCH.attention.sliding_window_pattern", (BOOL,), [1]), ("ARCH.rope.freq_base_swa", F32, 500.0)]))
write("gguf", "q8", decoder("llama", spm, 12, dim=32, heads=4, kv=2, hidden=32, kind=8))
write("gguf", "q4", decoder("internlm2", bpe("default"), len(bpe_tokens), dim=32, heads=4, kv=2, hidden=32, kind=2))
write("gguf", "no_tokenizer", decoder("llama", [], 3))
for name, kind in (("q5_0", 6), ("q5_1", 7), ("iq4_nl", 20), ("mxfp4", 39)):
    write("gguf", name, decoder("llama", spm, 12, dim=32, heads=4, kv=2, hidden=32, kind=kind))
for name, kind in (("q2_k", 10), ("q3_k", 11), ("q5_k", 13), ("iq4_xs", 23)):
    write("gguf", name, decoder("llama", [], 3, dim=256, heads=1, kv=1, hidden=2, kind=kind, head_dim=2))
write("gguf", "empty_tensor", decoder("llama", [], 3, extra=[("blk.0.nothing", 0)]))


# The tensors of a mixture stand in for those of the feed-forward.
def mixture(arch, vocabulary, vocab, experts=4, hidden=8, more=(), biases=False, choice=False, shared=0, **others):
    more = list(more) + [("ARCH.expert_count", U32, experts), ("ARCH.expert_used_count", U32, 2),
                         ("ARCH.expert_feed_forward_length", U32, hidden)]
    pairs, tensors = parts_of_decoder(arch, vocabulary, vocab, more=more, **others)
    dim = 8
    parts = [("gate_inp.weight", (experts, dim)), ("gate_exps.weight", (experts, hidden, dim)),
             ("up_exps.weight", (experts, hidden, dim)), ("down_exps.weight", (experts, dim, hidden))]
    parts += [("gate_inp.bias", (experts,)), ("gate_exps.bias", (experts, hidden)), ("up_exps.bias", (experts, hidden)),
              ("down_exps.bias", (experts, dim))] if biases else []
    parts += [("gate_shexp.weight", (shared, dim)), ("up_shexp.weight", (shared, dim)), ("down_shexp.weight", (dim, shared))] if shared else []
    tensors = [each for each in tensors if each[0] not in (f"blk.0.ffn_{part}.weight" for part in ("gate", "up", "down"))]
    tensors += [("blk.0.ffn_" + name, extents, 0, floats(math.prod(extents), i)) for i, (name, extents) in enumerate(parts)]
    tensors += [("blk.0.exp_probs_b.bias", (experts,), 0, floats(experts))] if choice else []
    return pairs, tensors


head_norms = [("blk.0.attn_q_norm.weight", 4), ("blk.0.attn_k_norm.weight", 4)]
groups = [("ARCH.expert_group_count", U32, 2), ("ARCH.expert_group_used_count", U32, 1), ("ARCH.expert_shared_count", U32, 1),
          ("ARCH.expert_gating_func", U32, 2), ("ARCH.expert_weights_norm", BOOL, 1), ("ARCH.expert_weights_scale", F32, 2.5)]
write("gguf", "mixture_llama", gguf(*mixture("llama", spm, 12)))
write("gguf", "mixture_qwen3", gguf(*mixture("qwen3moe", bpe("qwen2"), len(bpe_tokens), extra=head_norms)))
write("gguf", "mixture_qwen2", gguf(*mixture("qwen2moe", [], 3, shared=4, more=[("ARCH.expert_shared_feed_forward_length", U32, 4)],
      extra=[("blk.0.attn_q.bias", 8), ("blk.0.attn_k.bias", 4), ("blk.0.attn_v.bias", 4), ("blk.0.ffn_gate_inp_shexp.weight", 8)])))
write("gguf", "mixture_dots", gguf(*mixture("dots1", [], 3, choice=True, shared=8, more=groups, extra=head_norms)))


# Parts of one model: each has tensors of its own, the first the rest too.
def split(target, name, pairs, tensors, bounds):
    files = b""
    for no, (begin, end) in enumerate(zip([0] + bounds, bounds + [len(tensors)])):
        file = gguf((pairs if no == 0 else []) + [("split.no", U32, no), ("split.count", U32, len(bounds) + 1),
                    ("split.tensors.count", U32, len(tensors))], tensors[begin:end])
        files += struct.pack("<I", len(file)) + file
    write(target, name, files)


split("gguf_parts", "llama", *parts_of_decoder("llama", spm, 12), [3, 7])
split("gguf_parts", "metadata_first", *parts_of_decoder("qwen2", bpe("qwen2"), len(bpe_tokens), extra=[("blk.0.attn_q.bias", 8),
      ("blk.0.attn_k.bias", 4), ("blk.0.attn_v.bias", 4)]), [0])
split("gguf_parts", "mixture", *mixture("qwen3moe", [], 3, extra=head_norms), [4, 9])
split("gguf_parts", "one", *parts_of_decoder("llama", [], 3), [])
