#!/usr/bin/env python3
"""Writes added_tokens.json beside it: what Hugging Face's `tokenizers` makes of BPE over characters (Llama 2, Mistral and
Gemma), and of added tokens that swallow white space or stand for single words, there and in byte-level BPE.

    pip install tokenizers==0.23.3 && python3 tests/model/tokenizers/make_added_tokens.py

The vocabularies are drawn: pieces over few letters, so that many merges compete and most characters are bytes. Their 256
byte tokens are left out of the file; their ids begin at "first_byte".
"""
import json
import pathlib
import random

from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

SPACE = "\u2581"
REPLACE = normalizers.Replace(" ", SPACE)
LLAMA = normalizers.Sequence([normalizers.Prepend(SPACE), REPLACE])


def metaspace(scheme, split=False):
    return pre_tokenizers.Metaspace(replacement=SPACE, prepend_scheme=scheme, split=split)


# What a family's tokenizer.json states; "bytes" is GPT-2's.
FAMILIES = [
    {"normalizer": LLAMA, "strip": True},
    {"normalizer": LLAMA, "strip": True, "ignore_merges": True},
    {"normalizer": REPLACE, "words": pre_tokenizers.Split(" ", "merged_with_previous")},
    {"normalizer": normalizers.Sequence([normalizers.NFC(), REPLACE])},
    {"words": metaspace("first"), "strip": True},
    {"words": metaspace("always"), "strip": True},
    {"words": metaspace("never"), "ignore_merges": True},
    {"words": metaspace("first", split=True), "strip": True, "ignore_merges": True},
    {"words": metaspace("always", split=True), "strip": True},
    {"bytes": True},
    {"bytes": True, "normalizer": normalizers.NFC(), "ignore_merges": True},
]
ADDED = ["<x>", "<|end|>", "[INST]", "\n\n", SPACE * 2, "the", " q", "<e\u0301>", "\u00a0"]


def draw_vocabulary(draw, whole_alphabet):
    vocab = {}

    def add(piece):
        vocab.setdefault(piece, len(vocab))

    for piece in ["<unk>", "<s>", "</s>"]:
        add(piece)
    first_byte = len(vocab)
    if whole_alphabet:
        pieces = list("abcdehtx<>") + ["\u0120", "\u010a"]
        for piece in sorted(pre_tokenizers.ByteLevel.alphabet()):
            add(piece)
    else:
        pieces = [SPACE] + draw.sample(list("abcdehtx<>/|\n") + ["\u00e9", "\u4f60"], 9)
        for piece in [f"<0x{byte:02X}>" for byte in range(256)] + pieces:
            add(piece)
    merges = []
    for _ in range(70):  # of two that stand: a merge can reach it
        left, right = draw.choice(pieces), draw.choice(pieces)
        if len(left + right) <= 6 and (left, right) not in merges:
            merges.append((left, right))
            add(left + right)
            pieces.append(left + right)
    if not whole_alphabet:
        merges.append(("<0x09>", "<0x09>"))
        add("<0x09><0x09>")
    for piece in ["hello", SPACE + "the"]:  # to which no merge leads
        add(piece)
    return vocab, merges, first_byte


def build(seed, bytes=False, normalizer=None, words=None, ignore_merges=False, strip=False):
    draw = random.Random(seed)
    vocab, merges, first_byte = draw_vocabulary(draw, bytes)
    if bytes:
        t = Tokenizer(models.BPE(vocab, merges, ignore_merges=ignore_merges))
        words, t.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    else:
        t = Tokenizer(models.BPE(vocab, merges, unk_token="<unk>", fuse_unk=True, byte_fallback=True,
                                 ignore_merges=ignore_merges))
        t.decoder = decoders.Sequence([decoders.Replace(SPACE, " "), decoders.ByteFallback(), decoders.Fuse()] +
                                      [decoders.Strip(" ", 1, 0)] * strip)
    if normalizer:
        t.normalizer = normalizer
    if words:
        t.pre_tokenizer = words
    # Half of the vocabularies have nothing that swallows: what they encode comes back.
    exact = seed % 2 == 0
    t.add_special_tokens([AddedToken(each, rstrip=not exact and each == "<s>") for each in ["<unk>", "<s>", "</s>"]])
    for each in draw.sample(ADDED, 5):
        sides = {side: not exact and draw.random() < 0.4 for side in ["lstrip", "rstrip", "single_word", "normalized"]}
        token = AddedToken(each, **dict({"normalized": False}, **sides))
        (t.add_special_tokens if each not in vocab and draw.random() < 0.5 else t.add_tokens)([token])
    if draw.random() < 0.5:
        t.post_processor = processors.TemplateProcessing(single="<s> $A", pair="<s> $A $B", special_tokens=[("<s>", 1)])
    return t, first_byte


def texts(seed, added):
    draw = random.Random(seed)
    parts = list("abcdehtx<>") + [" "] * 4 + ["  ", "\n", "\n\n", "\t", "\u00a0", "\u3000", "\u0085", "\u180e", SPACE, "e\u0301",
                                              "\u00e9", "\u4f60", "\U0001f999", "\u24b6", "_", "1", "\u200d", "the", "hello"]
    fixed = ["", " ", "  ", "the", " the", "hello", SPACE, "\t\t\t"] + [form % each for each in added for form in ("%s", " %s ", "a\u3000%s\nb", "a%sb")]
    return fixed + ["".join(draw.choice(added if draw.random() < 0.25 else parts) for _ in range(draw.randint(2, 14)))
                    for _ in range(24)]


def ids_of(t, text):
    try:
        return t.encode(text).ids
    except BaseException as error:  # a panic: one of two tokens lies in what the other swallows
        if "bad split" not in str(error):
            raise
        return None


def main():
    cases = []
    for seed in range(2 * len(FAMILIES)):
        rules = FAMILIES[seed // 2]
        t, first_byte = build(seed, **rules)
        state = json.loads(t.to_str())
        model = state["model"]
        model["merges"] = [list(merge) for merge in model["merges"]]
        if not rules.get("bytes"):
            model["vocab"] = {token: id for token, id in model["vocab"].items() if len(token) != 6 or not token.startswith("<0x")}
        rows = [[text, ids_of(t, text)] for text in texts(seed, [each["content"] for each in state["added_tokens"]])]
        cases.append({"tokenizer": state, "first_byte": first_byte, "bytes": rules.get("bytes", False), "exact": seed % 2 == 0,
                      "rows": [row for row in rows if row[1] is not None]})
    path = pathlib.Path(__file__).with_name("added_tokens.json")
    path.write_text("[" + ",\n".join(json.dumps(case, separators=(",", ":")) for case in cases) + "]\n")


if __name__ == "__main__":
    main()
