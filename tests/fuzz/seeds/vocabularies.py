"""llama2.c's files, and SentencePiece's."""
import struct

from corpus import SPACE, floats, write


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


# SentencePiece: protobuf.
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
