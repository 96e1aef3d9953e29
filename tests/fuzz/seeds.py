#!/usr/bin/env python3
"""Writes the corpora of the fuzz targets that take binary files: small ones, which load. Run it in tests/fuzz/."""
import json
import math
import pathlib
import struct

corpus = pathlib.Path("corpus")


def write(target, name, data):
    (corpus / target).mkdir(parents=True, exist_ok=True)
    (corpus / target / name).write_bytes(data)


def floats(count, start=0):
    return struct.pack(f"<{count}f", *(((i * 37 + start) % 23 - 11) / 16 for i in range(count)))


# GGUF --------------------------------------------------------------------------------------------
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


SPACE = "\u2581"
spm_tokens = ["<unk>", "<s>", "</s>", "a", "b", "ab", SPACE, SPACE + "ab", "c", "<0x0A>", "<0xFF>", "<|end|>"]
spm_types = [2, 3, 3, 1, 1, 1, 1, 1, 1, 6, 6, 4]
T = "tokenizer.ggml."
spm = [(T + "model", STRING, "llama"), (T + "tokens", (STRING,), spm_tokens), (T + "token_type", (I32,), spm_types),
       (T + "scores", (F32,), [0.0] * 5 + [-1.0, -2.0, -3.0] + [0.0] * 4), (T + "unknown_token_id", U32, 0)]


def alphabet(byte):
    prints = 0x21 <= byte <= 0x7E or 0xA1 <= byte <= 0xAC or byte >= 0xAE
    others = [b for b in range(256) if not (0x21 <= b <= 0x7E or 0xA1 <= b <= 0xAC or b >= 0xAE)]
    return chr(byte) if prints else chr(256 + others.index(byte))


G = alphabet(0x20)
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

# llama2.c ----------------------------------------------------------------------------------------


def llama2c(dim=2, hidden=2, layers=1, heads=1, kv=1, vocab=262, context=2, tied=True):
    kv_dim = dim // heads * kv
    count = vocab * dim * (1 if tied else 2) + layers * (2 * dim + 2 * dim * dim + 2 * dim * kv_dim + 3 * dim * hidden)
    count += dim + 2 * context * (dim // heads // 2)
    return struct.pack("<7i", dim, hidden, layers, heads, kv, vocab if tied else -vocab, context) + floats(count)


pieces = ["<unk>", "\n<s>\n", "\n</s>\n"] + [f"<0x{b:02X}>" for b in range(256)] + ["a", "b", "ab"]
tokenizer = struct.pack("<i", 6) + b"".join(struct.pack("<fi", -float(i % 7), len(p)) + p.encode()
                                            for i, p in enumerate(pieces))
for name, parts in {"whole": (tokenizer, llama2c()), "heads": (tokenizer, llama2c(dim=8, heads=2, kv=1, tied=False)),
                    "alone": (b"", llama2c(dim=4, heads=2, kv=2, vocab=5, layers=2))}.items():
    write("llama2c", name, struct.pack("<I", len(parts[0])) + parts[0] + parts[1])

# SentencePiece -----------------------------------------------------------------------------------


def varint(number):
    out = b""
    while number >= 0x80:
        out += bytes([number & 0x7F | 0x80])
        number >>= 7
    return out + bytes([number])


def field(number, content):
    if isinstance(content, bytes):
        return varint(number << 3 | 2) + varint(len(content)) + content
    if isinstance(content, float):
        return varint(number << 3 | 5) + struct.pack("<f", content)
    return varint(number << 3) + varint(content & (1 << 64) - 1)


def sentencepiece(extra=b"", normalizer=b""):
    kinds = [2, 3, 3] + [6, 6] + [1] * 5 + [4]
    texts = ["<unk>", "<s>", "</s>", "<0x0A>", "<0xFF>", "a", "b", "ab", SPACE, SPACE + "ab", "<|end|>"]
    out = b"".join(field(1, field(1, t.encode()) + field(2, -float(i)) + (field(3, k) if k != 1 else b""))
                   for i, (t, k) in enumerate(zip(texts, kinds)))
    return out + field(2, field(3, 2) + field(35, 1) + extra) + field(3, normalizer)


sample = b"ab  a\n\xff<|end|>b"
for name, data in {"plain": sentencepiece(), "squeezed": sentencepiece(normalizer=field(4, 0) + field(3, 0)),
                   "ids": sentencepiece(extra=field(40, 0) + field(41, -1) + field(42, 2) + field(43, -1))}.items():
    write("sentencepiece", name, bytes([len(sample)]) + sample + data)

# Chat templates ----------------------------------------------------------------------------------
# Long strings and lists, and what might take more of them than their steps and bytes say.
long = "{% set x = ('ab' * 99) * 99 %}{% set y = x ~ 'c' %}{% set l = [x] * 400 %}{% set b = ' ' * 999 %}"
for i, uses in enumerate(("{{ x" + " ~ x" * 400 + " }}{{ l | join }}{{ ''.join(l) }}{{ [x, {x: 1}] | tojson }}",
                          "{{ x.strip(y) }}{{ x.find(y) }}{{ x.count(y) }}{{ y.split(x) }}{{ x.endswith((y, x)) }}{{ x in y }}",
                          "{{ x < y }}{{ {x: 1}.get(y) }}{{ b | int }}{{ x[y] }}{{ x[::-1][-1] }}{{ l | map('length') | list }}",
                          "{{ strftime_now('%Y' ~ x) }}{% macro m(a, b) %}{{ a }}{% endmacro %}{{ m(b=x, a=y) }}{{ dict(a=x, b=y) }}")):
    write("chat", f"long{i}", (long + uses).encode() + b"\x00Hello <|im_end|>\x00Hi")
# A message's text wherever a string may stand: its marks go with it.
marks = ("{% set m = messages[0].content %}{% set n = messages[1].content %}", (
    "{{ 'axa'.replace('x', m) }}{{ 'axa' | replace('x', n) }}{{ m.replace('l', n) }}{{ m.join(['a', n]) }}{{ ['a', m] | join(n) }}",
    "{{ strftime_now(m) }}{{ {m: n} | tojson }}{{ [m, {n: m}] }}{{ m.split('l') | join(n) }}{{ m.strip('Hi') }}{{ n | trim }}",
    "{{ m[::-1] }}{{ m[1:] }}{{ n[-1] }}{{ m * 2 }}{{ m ~ 'a' + n }}{{ m | reverse }}{{ m | list }}{{ [m, n] | map('upper') | join }}",
    "{{ x | default(m) }}{{ m | title }}{{ n.capitalize() }}{{ m | tojson(ensure_ascii=true) }}{{ dict(a=m) | items | list }}",
    "{% macro q(a, b=1) %}{{ a }}{{ b }}{% endmacro %}{{ q(m, b=n) }}{% set s %}{{ m }}{% endset %}{{ s }}{% for c in m %}{{ c }}{% endfor %}",
    "{% set ns = namespace(a=m) %}{% set ns.a = ns.a + n %}{{ ns.a }}{{ {'a': m}.get('a', n) }}{% for k, v in {m: n}.items() %}{{ k + v }}{% endfor %}"))
for i, uses in enumerate(marks[1]):
    write("chat", f"marks{i}", (marks[0] + uses).encode() + b"\x00Hello <|im_end|>\x00Hi")

# Hugging Face ------------------------------------------------------------------------------------
all_bytes = {alphabet(b): b for b in range(256)}
byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
llama3 = ("(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*"
          "|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+")


def tokenizer_json(vocab, merges, end, split=None, nfc=False, template=False):
    steps = byte_level if split is None else {"type": "Sequence", "pretokenizers": [
        {"type": "Split", "pattern": {"Regex": split}, "behavior": "Isolated", "invert": False},
        dict(byte_level, use_regex=False)]}
    end_id = max(vocab.values()) + 1
    return {"version": "1.0", "truncation": None, "padding": None,
            "added_tokens": [{"id": end_id, "content": "<|end|>", "single_word": False, "lstrip": False, "rstrip": False,
                              "normalized": False, "special": True}] if end else [],
            "normalizer": {"type": "NFC"} if nfc else None, "pre_tokenizer": steps,
            "post_processor": {"type": "TemplateProcessing",
                               "single": [{"SpecialToken": {"id": "<|end|>", "type_id": 0}},
                                          {"Sequence": {"id": "A", "type_id": 0}}], "pair": [],
                               "special_tokens": {"<|end|>": {"id": "<|end|>", "ids": [end_id], "tokens": ["<|end|>"]}}}
            if template else None,
            "decoder": byte_level,
            "model": {"type": "BPE", "dropout": None, "ignore_merges": split is not None, "vocab": vocab, "merges": merges}}


def dump(target, name, content):
    write(target, name, json.dumps(content, ensure_ascii=False, separators=(",", ":")).encode())


merged = dict(all_bytes, **{"ab": 256, G + "ab": 257, "1" + "2": 258})
sample_text = "ab abc  It's 12345\n\n  x\u00ff\u00e9\u00cc\u0081 <|end|>"
dump("tokenizers", "gpt2", {"text": sample_text, "tokenizer": tokenizer_json(merged, ["a b", G + " ab", "1 2"], False)})
dump("tokenizers", "llama3", {"text": sample_text, "tokenizer": tokenizer_json(merged, [["a", "b"], [G, "ab"]], True, llama3, template=True),
     "config": {"added_tokens_decoder": {"260": {"content": "<x>", "special": False, "normalized": True}},
                "bos_token": "<|end|>", "eos_token": {"content": "<x>"}, "add_bos_token": True, "chat_template": "{{x}}"}})
dump("tokenizers", "nfc", {"text": "e\u00cc\u0081 a\u00cc\u00a3\u00cc\u0081", "tokenizer": tokenizer_json(all_bytes, [], True, nfc=True)})

# BPE over characters, and added tokens that look at what stands beside them.
REPLACE = {"type": "Replace", "pattern": {"String": " "}, "content": SPACE}
PREPEND = {"type": "Prepend", "prepend": SPACE}
character_bytes = {f"<0x{b:02X}>": b for b in range(256)}
characters = dict(character_bytes, **{SPACE: 256, "a": 257, "b": 258, "ab": 259, SPACE + "ab": 260, SPACE + "a": 261})


def metaspace(scheme, split):
    return {"type": "Metaspace", "replacement": SPACE, "prepend_scheme": scheme, "split": split}


def added(*tokens):
    return [{"id": 262 + i, "content": content, "single_word": "w" in sides, "lstrip": "l" in sides, "rstrip": "r" in sides,
             "normalized": "n" in sides, "special": "s" in sides} for i, (content, sides) in enumerate(tokens)]


def characters_json(normalizer, words, tokens=(), whole=False):
    decoders = [{"type": "Replace", "pattern": {"String": SPACE}, "content": " "}, {"type": "ByteFallback"}, {"type": "Fuse"},
                {"type": "Strip", "content": " ", "start": 1, "stop": 0}]
    return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": added(*tokens), "normalizer": normalizer,
            "pre_tokenizer": words, "post_processor": None, "decoder": {"type": "Sequence", "decoders": decoders},
            "model": {"type": "BPE", "dropout": None, "unk_token": None, "fuse_unk": True, "byte_fallback": True,
                      "ignore_merges": whole, "vocab": characters,
                      "merges": [["a", "b"], [SPACE, "ab"], [SPACE, "a"]]}}


strips_text = " ab<x>  a b\n<y>ab <x><y> z<w>z <w>\u00c3\u00a9"
strips = [("<x>", "rs"), ("<y>", "l"), ("<w>", "w"), ("<z>", "ln"), ("\n", "r")]
llama2 = {"type": "Sequence", "normalizers": [PREPEND, REPLACE]}
for name, parts in {"llama2": (llama2, None), "llama2_strips": (llama2, None, strips),
                    "gemma": (REPLACE, {"type": "Split", "pattern": {"String": " "}, "behavior": "MergedWithPrevious",
                                        "invert": False}, strips[2:]),
                    "metaspace": (None, metaspace("first", False), strips), "metaspace_split": (None, metaspace("always", True), (), True)}.items():
    dump("tokenizers", name, {"text": strips_text, "tokenizer": characters_json(*parts)})
deepseek = tokenizer_json(merged, ["a b", G + " ab", "1 2"], False)
deepseek["pre_tokenizer"] = {"type": "Sequence", "pretokenizers": [
    {"type": "Split", "pattern": {"Regex": regex}, "behavior": "Isolated", "invert": False} for regex in
    ["[\r\n]", "\\s?\\p{L}+", "\\s?\\p{P}+", "[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+"]] +
    [{"type": "Digits", "individual_digits": True}, dict(byte_level, use_regex=False)]}
dump("tokenizers", "deepseek_coder", {"text": sample_text, "tokenizer": deepseek})

# Added tokens of vocabularies that the target has.
sides = "<x> a<y>b \n<z>ab <x><xx><|end|>a <w>\u00c3\u00a9 <tool>"
for base, first in ((0, 57), (1, 57), (2, 261), (3, 11)):
    def entry(i, content, flags):
        return {"id": first + i, "content": content, "single_word": "w" in flags, "lstrip": "l" in flags, "rstrip": "r" in flags,
                "normalized": "n" in flags, "special": "s" in flags}
    plain = [("<x>", "s"), ("<x", ""), ("<y>", ""), ("<z>", "n"), ("b <", ""), ("<|end|>", "s"), ("<|", "n"), ("<z>ab", "ns")]
    with_sides = [("<x>", "rs"), ("<y>", "l"), ("<w>", "w"), ("<z>", "ln"), (" ", "r"), ("<tool>", "ns")]
    for name, tokens in (("plain", plain), ("sides", with_sides)):
        entries = [entry(i, *token) for i, token in enumerate(tokens)]
        listed = entries if base < 3 else []
        described = {str(each["id"]): {k: v for k, v in each.items() if k != "id"} for each in entries}
        dump("added_tokens", f"{name}{base}", {"base": base, "text": sides, "list": listed,
             "config": {"added_tokens_decoder": described, "bos_token": "<x>", "eos_token": {"content": "<y>"}, "add_bos_token": True,
                        "add_eos_token": False, "pad_token": None, "chat_template": "{{ messages[0].content }}<x>"},
             "added": {"<tool>": first + 5} if name == "sides" else {"<late>": 290},
             "specials": {"additional_special_tokens": ["<tool>"], "eos_token": {"content": "<y>"}},
             "generation": {"eos_token_id": [first, 299], "bos_token_id": first}})

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
