"""tokenizer.json of byte-level BPE."""
from corpus import alphabet

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
