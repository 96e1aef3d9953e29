"""Vocabularies of Hugging Face: tokenizer.json, and tokens that are added to it."""
from corpus import G, SPACE, dump
from tokenizer_json import all_bytes, byte_level, llama3, tokenizer_json

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


def added(first, tokens):
    return [{"id": first + i, "content": content, "single_word": "w" in flags, "lstrip": "l" in flags, "rstrip": "r" in flags,
             "normalized": "n" in flags, "special": "s" in flags} for i, (content, flags) in enumerate(tokens)]


def characters_json(normalizer, words, tokens=(), whole=False):
    decoders = [{"type": "Replace", "pattern": {"String": SPACE}, "content": " "}, {"type": "ByteFallback"}, {"type": "Fuse"},
                {"type": "Strip", "content": " ", "start": 1, "stop": 0}]
    return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": added(262, tokens), "normalizer": normalizer,
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
    plain = [("<x>", "s"), ("<x", ""), ("<y>", ""), ("<z>", "n"), ("b <", ""), ("<|end|>", "s"), ("<|", "n"), ("<z>ab", "ns")]
    with_sides = [("<x>", "rs"), ("<y>", "l"), ("<w>", "w"), ("<z>", "ln"), (" ", "r"), ("<tool>", "ns")]
    for name, tokens in (("plain", plain), ("sides", with_sides)):
        entries = added(first, tokens)
        listed = entries if base < 3 else []
        described = {str(each["id"]): {k: v for k, v in each.items() if k != "id"} for each in entries}
        dump("added_tokens", f"{name}{base}", {"base": base, "text": sides, "list": listed,
             "config": {"added_tokens_decoder": described, "bos_token": "<x>", "eos_token": {"content": "<y>"}, "add_bos_token": True,
                        "add_eos_token": False, "pad_token": None, "chat_template": "{{ messages[0].content }}<x>"},
             "added": {"<tool>": first + 5} if name == "sides" else {"<late>": 290},
             "specials": {"additional_special_tokens": ["<tool>"], "eos_token": {"content": "<y>"}},
             "generation": {"eos_token_id": [first, 299], "bos_token_id": first}})
