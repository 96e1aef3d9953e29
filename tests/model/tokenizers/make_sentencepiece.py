#!/usr/bin/env python3
"""Writes sentencepiece.json beside it: what Google's `sentencepiece` makes of texts over vocabularies with every type of
piece: normal, unknown, control, user-defined, unused and byte.

    pip install sentencepiece==0.2.3 protobuf && python3 tests/model/tokenizers/make_sentencepiece.py

The vocabularies are drawn: pieces over few letters, so that many merges compete, unused pieces lie inside others, and
user-defined ones overlap what would merge.
"""
import json
import pathlib
import random

import sentencepiece
from sentencepiece import sentencepiece_model_pb2 as proto

SPACE = "\u2581"
TYPES = {"normal": 1, "unknown": 2, "control": 3, "user_defined": 4, "unused": 5, "byte": 6}


def model(seed, prefix, squeeze):
    draw = random.Random(seed)
    m = proto.ModelProto()
    seen = set()

    def add(piece, kind, score=0.0):
        if piece not in seen:
            seen.add(piece)
            m.pieces.add(piece=piece, score=score, type=TYPES[kind])

    add("<unk>", "unknown"), add("<s>", "control"), add("</s>", "control"), add("<mask>", "control")
    for piece in draw.sample(["<sep>", SPACE * 2, SPACE * 3, "\n\n", "ab", "abc", "<b>", "e" + SPACE, "th", "\u00e9"], 5):
        add(piece, "user_defined")
    for byte in range(256):
        add(f"<0x{byte:02X}>", "byte")
    rank = 0
    pieces = [SPACE] + list("abcdeht<>") + ["\u00e9"]
    for piece in pieces:
        add(piece, "unused" if piece != SPACE and draw.random() < 0.1 else "normal", -1000.0)  # decoding does not undo bytes of SPACE
    for _ in range(60):  # of two that stand: a merge can reach it
        piece = draw.choice(pieces) + draw.choice(pieces)
        if len(piece) <= 6 and piece not in seen:
            rank += 1
            add(piece, "unused" if draw.random() < 0.3 else "normal", -float(rank if draw.random() < 0.8 else rank // 2))
            pieces.append(piece)
    m.trainer_spec.model_type = proto.TrainerSpec.BPE
    m.trainer_spec.byte_fallback = True
    m.trainer_spec.unk_id, m.trainer_spec.bos_id, m.trainer_spec.eos_id, m.trainer_spec.pad_id = 0, 1, 2, -1
    m.normalizer_spec.name = "identity"
    m.normalizer_spec.add_dummy_prefix = prefix
    m.normalizer_spec.remove_extra_whitespaces = squeeze
    return m


def texts(seed):
    draw = random.Random(seed)
    parts = list("abcdeht") + [" ", "  ", "   ", "\n", "\n\n", "<sep>", "<b>", "<mask>", "<unk>", "<", ">", "\u00e9", "the", "abc",
                               "\u4f60", "\U0001f999"]
    fixed = ["", " ", "  ", "a<sep>b", "<sep>", "<sep><sep> a", " <sep> ", "the", "the the", "ab  c", "a   b    c  "]
    return fixed + ["".join(draw.choices(parts, k=draw.randint(1, 24))) for _ in range(29)]


cases = []
for seed in range(12):
    prefix, squeeze = seed % 2 == 0, seed // 2 % 2 == 1
    m = model(seed, prefix, squeeze)
    processor = sentencepiece.SentencePieceProcessor(model_proto=m.SerializeToString())
    rows = [[text, processor.encode(text)] for text in texts(seed)]
    pieces = [[p.piece, p.type, p.score] for p in m.pieces if p.type != TYPES["byte"]]
    first_byte = next(i for i, p in enumerate(m.pieces) if p.type == TYPES["byte"])  # the 256 are left out here
    cases.append({"pieces": pieces, "first_byte": first_byte, "prefix": prefix, "squeeze": squeeze, "rows": rows})
path = pathlib.Path(__file__).with_name("sentencepiece.json")
path.write_text(json.dumps(cases, separators=(",", ":")) + "\n")
