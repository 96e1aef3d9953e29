"""Where the seeds go, and what several formats share."""
import json
import pathlib
import struct

CORPUS = pathlib.Path(__file__).resolve().parent.parent / "corpus"
SPACE = "\u2581"  # of SentencePiece


def write(target, name, data):
    (CORPUS / target).mkdir(parents=True, exist_ok=True)
    (CORPUS / target / name).write_bytes(data)


def floats(count, start=0):
    return struct.pack(f"<{count}f", *(((i * 37 + start) % 23 - 11) / 16 for i in range(count)))


def dump(target, name, content):
    write(target, name, json.dumps(content, ensure_ascii=False, separators=(",", ":")).encode())


# A byte as byte-level BPE writes it.
def alphabet(byte):
    prints = 0x21 <= byte <= 0x7E or 0xA1 <= byte <= 0xAC or byte >= 0xAE
    others = [b for b in range(256) if not (0x21 <= b <= 0x7E or 0xA1 <= b <= 0xAC or b >= 0xAE)]
    return chr(byte) if prints else chr(256 + others.index(byte))


G = alphabet(0x20)
