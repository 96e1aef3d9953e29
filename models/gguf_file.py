"""Writing the trained decoder to a GGUF file, and reading it back without help.

What is read back here is all that a runtime gets: the weights as rounded to f16, and the
pieces with their scores. The tokenizer below works from the file alone, so that the
numbers in README.md describe the file and not the training that made it.
"""

import numpy as np
import torch
from gguf import GGUFReader, GGUFWriter, LlamaFileType, TokenType

from model import Decoder, Shape

SPACE = "\u2581"  # what sentencepiece writes for a blank


def token_type(pieces, index):
    if pieces.IsUnknown(index):
        return TokenType.UNKNOWN
    if pieces.IsControl(index):
        return TokenType.CONTROL
    if pieces.IsByte(index):
        return TokenType.BYTE
    return TokenType.NORMAL


def write(path, model, pieces):
    """`pieces` is the sentencepiece processor that the model was trained with."""
    shape = model.shape
    writer = GGUFWriter(path, "llama")
    writer.add_name("Inlay Stories")
    writer.add_description("Small English stories, trained on text from a seeded grammar")
    writer.add_license("apache-2.0")
    writer.add_languages(["en"])
    writer.add_file_type(LlamaFileType.MOSTLY_F16)
    writer.add_vocab_size(shape.vocab)
    writer.add_context_length(shape.context)
    writer.add_embedding_length(shape.dim)
    writer.add_block_count(shape.layers)
    writer.add_feed_forward_length(shape.hidden)
    writer.add_head_count(shape.heads)
    writer.add_head_count_kv(shape.kv_heads)
    writer.add_layer_norm_rms_eps(shape.eps)
    writer.add_rope_dimension_count(shape.head_dim)
    writer.add_rope_freq_base(shape.theta)

    indices = range(shape.vocab)
    writer.add_tokenizer_model("llama")
    writer.add_tokenizer_pre("default")
    writer.add_token_list([pieces.IdToPiece(index).encode() for index in indices])
    writer.add_token_scores([pieces.GetScore(index) for index in indices])
    writer.add_token_types([token_type(pieces, index) for index in indices])
    writer.add_bos_token_id(pieces.bos_id())
    writer.add_eos_token_id(pieces.eos_id())
    writer.add_unk_token_id(pieces.unk_id())
    writer.add_add_bos_token(True)
    writer.add_add_eos_token(False)
    writer.add_add_space_prefix(True)

    for name, tensor in model.state_dict().items():
        values = tensor.detach().numpy().astype(np.float32)
        writer.add_tensor(name, values if values.ndim == 1 else values.astype(np.float16))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


class Tokenizer:
    """Sentencepiece's BPE from a file's pieces: the best score merges first."""

    def __init__(self, pieces, scores, types, bos, eos):
        self.pieces = pieces
        self.bos, self.eos = bos, eos
        self.types = types
        normal = [i for i, kind in enumerate(types) if kind == TokenType.NORMAL]
        self.rank = {pieces[i]: (scores[i], i) for i in normal}
        self.byte = {int(pieces[i][3:5], 16): i
                     for i, kind in enumerate(types) if kind == TokenType.BYTE}

    def encode(self, text):
        symbols = list(SPACE + text.replace(" ", SPACE))
        while True:
            pairs = [(-self.rank[a + b][0], i) for i, (a, b) in enumerate(zip(symbols, symbols[1:]))
                     if a + b in self.rank]
            if not pairs:
                break
            _, first = min(pairs)
            symbols[first:first + 2] = [symbols[first] + symbols[first + 1]]
        tokens = []
        for symbol in symbols:
            if symbol in self.rank:
                tokens.append(self.rank[symbol][1])
            else:
                tokens.extend(self.byte[value] for value in symbol.encode())
        return tokens

    def piece_bytes(self, token):
        if self.types[token] == TokenType.BYTE:
            return bytes([int(self.pieces[token][3:5], 16)])
        if self.types[token] == TokenType.NORMAL:
            return self.pieces[token].replace(SPACE, " ").encode()
        return b""

    def decode(self, tokens):
        text = b"".join(self.piece_bytes(token) for token in tokens)
        return text.decode(errors="replace").removeprefix(" ")


def read(path):
    """The decoder and the tokenizer of a file written above."""
    reader = GGUFReader(path)

    def value(key):
        return reader.fields[key].contents()

    shape = Shape(
        vocab=value("llama.vocab_size"), dim=value("llama.embedding_length"),
        layers=value("llama.block_count"), heads=value("llama.attention.head_count"),
        kv_heads=value("llama.attention.head_count_kv"),
        hidden=value("llama.feed_forward_length"), context=value("llama.context_length"),
        theta=value("llama.rope.freq_base"), eps=value("llama.attention.layer_norm_rms_epsilon"))
    model = Decoder(shape)
    model.load_state_dict({tensor.name: torch.from_numpy(tensor.data.astype(np.float32))
                           for tensor in reader.tensors})
    model.eval()
    tokenizer = Tokenizer(
        value("tokenizer.ggml.tokens"), value("tokenizer.ggml.scores"),
        value("tokenizer.ggml.token_type"), value("tokenizer.ggml.bos_token_id"),
        value("tokenizer.ggml.eos_token_id"))
    return model, tokenizer
