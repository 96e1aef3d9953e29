#!/usr/bin/env python3
"""Writes ggml_blocks.bin beside it: blocks of GGUF files, and the numbers that gguf-py reads in them.

    pip install gguf==0.19.0 && python3 tests/support/make_ggml_blocks.py

For each type: its number and a count of blocks (u32 each), the blocks, their elements in f32. The bytes are drawn at
random. Scales of the first blocks are ordinary numbers of both signs, then come the largest and the smallest that are
finite, subnormal ones among them.
"""
import pathlib
import struct

import gguf
import numpy as np

# Where a block has an f16; MXFP4's scale is its first byte.
HALVES = {"Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0], "Q5_1": [0, 2], "Q8_0": [0], "Q2_K": [80, 82], "Q3_K": [108],
          "Q4_K": [0, 2], "Q5_K": [0, 2], "Q6_K": [208], "IQ4_NL": [0], "IQ4_XS": [0], "MXFP4": []}
SCALES = [0x2B17, 0xA93C, 0x3C00, 0x0001, 0x83FF, 0x7BFF]
EXPONENTS = [124, 130, 128, 0, 1, 252]

rng = np.random.default_rng(31)
with open(pathlib.Path(__file__).with_name("ggml_blocks.bin"), "wb") as out:
    for name, halves in HALVES.items():
        kind = gguf.GGMLQuantizationType[name]
        elements, size = gguf.GGML_QUANT_SIZES[kind]
        count = 6 if elements == 32 else 4
        blocks = rng.integers(0, 256, (count, size), dtype=np.uint8)
        for b in range(count):
            which = b if elements == 32 or b < 2 else b + 1
            for k, at in enumerate(halves):
                scale = SCALES[which] if k == 0 else SCALES[(which + 1) % 3]
                blocks[b, at:at + 2] = np.frombuffer(struct.pack("<H", scale), np.uint8)
            if not halves:
                blocks[b, 0] = EXPONENTS[which]
        numbers = gguf.quants.dequantize(blocks, kind).astype("<f4")
        assert np.isfinite(numbers).all(), name
        out.write(struct.pack("<II", kind.value, count) + blocks.tobytes() + numbers.tobytes())
