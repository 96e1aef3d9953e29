"""The decoder in PyTorch: RMSNorm, RoPE, grouped-query attention, SwiGLU, tied embeddings.

The modules are named as the tensors of a GGUF file of architecture "llama", so that a
state dict is the tensor list of the file.
"""

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn


@dataclass
class Shape:
    vocab: int = 1024
    dim: int = 128
    layers: int = 6
    heads: int = 8
    kv_heads: int = 4
    hidden: int = 384
    context: int = 512
    theta: float = 1e4
    eps: float = 1e-5

    @property
    def head_dim(self):
        return self.dim // self.heads


class Norm(nn.Module):
    def __init__(self, shape):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(shape.dim))
        self.eps = shape.eps

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps) * self.weight


def rotation(shape):
    """Cosine and sine of each position and pair, [context, head_dim / 2]."""
    pairs = torch.arange(0, shape.head_dim, 2, dtype=torch.float64)
    angles = torch.outer(torch.arange(shape.context, dtype=torch.float64),
                         shape.theta ** (-pairs / shape.head_dim))
    return angles.cos().float(), angles.sin().float()


def rotate(x, cos, sin):
    """Turns the neighbouring pairs (2i, 2i + 1), as the architecture "llama" wants it."""
    even, odd = x[..., 0::2], x[..., 1::2]
    return torch.stack((even * cos - odd * sin, even * sin + odd * cos), -1).flatten(-2)


class Block(nn.Module):
    def __init__(self, shape):
        super().__init__()
        self.shape = shape
        kv_dim = shape.kv_heads * shape.head_dim
        self.attn_norm = Norm(shape)
        self.attn_q = nn.Linear(shape.dim, shape.dim, bias=False)
        self.attn_k = nn.Linear(shape.dim, kv_dim, bias=False)
        self.attn_v = nn.Linear(shape.dim, kv_dim, bias=False)
        self.attn_output = nn.Linear(shape.dim, shape.dim, bias=False)
        self.ffn_norm = Norm(shape)
        self.ffn_gate = nn.Linear(shape.dim, shape.hidden, bias=False)
        self.ffn_up = nn.Linear(shape.dim, shape.hidden, bias=False)
        self.ffn_down = nn.Linear(shape.hidden, shape.dim, bias=False)

    def attention(self, x, cos, sin, mask):
        shape = self.shape
        rows, length, _ = x.shape
        group = shape.heads // shape.kv_heads
        # Heads of one group lie next to each other: query head h reads key head h // group.
        q = self.attn_q(x).view(rows, length, shape.heads, shape.head_dim).transpose(1, 2)
        k = self.attn_k(x).view(rows, length, shape.kv_heads, shape.head_dim).transpose(1, 2)
        v = self.attn_v(x).view(rows, length, shape.kv_heads, shape.head_dim).transpose(1, 2)
        q = rotate(q, cos, sin) / math.sqrt(shape.head_dim)
        k = rotate(k, cos, sin).repeat_interleave(group, dim=1)
        v = v.repeat_interleave(group, dim=1)
        weights = (q @ k.transpose(-1, -2) + mask).softmax(-1)
        return self.attn_output((weights @ v).transpose(1, 2).reshape(rows, length, shape.dim))

    def forward(self, x, cos, sin, mask):
        x = x + self.attention(self.attn_norm(x), cos, sin, mask)
        y = self.ffn_norm(x)
        return x + self.ffn_down(F.silu(self.ffn_gate(y)) * self.ffn_up(y))


class Decoder(nn.Module):
    def __init__(self, shape):
        super().__init__()
        self.shape = shape
        self.token_embd = nn.Embedding(shape.vocab, shape.dim)
        self.blk = nn.ModuleList(Block(shape) for _ in range(shape.layers))
        self.output_norm = Norm(shape)
        cos, sin = rotation(shape)
        self.register_buffer("cos", cos, persistent=False)
        self.register_buffer("sin", sin, persistent=False)
        mask = torch.full((shape.context, shape.context), float("-inf")).triu(1)
        self.register_buffer("mask", mask, persistent=False)
        self.initialise()

    def initialise(self):
        nn.init.normal_(self.token_embd.weight, std=0.1)
        for name, weight in self.named_parameters():
            if weight.dim() == 2 and name != "token_embd.weight":
                std = weight.shape[1] ** -0.5
                # Every block adds twice to the stream: keep its sum near one.
                if "attn_output" in name or "ffn_down" in name:
                    std /= math.sqrt(2 * self.shape.layers)
                nn.init.normal_(weight, std=std)

    def forward(self, tokens):
        """Logits [rows, length, vocab] for tokens [rows, length]."""
        length = tokens.shape[1]
        cos, sin, mask = self.cos[:length], self.sin[:length], self.mask[:length, :length]
        x = self.token_embd(tokens)
        for block in self.blk:
            x = block(x, cos, sin, mask)
        return F.linear(self.output_norm(x), self.token_embd.weight)


@torch.no_grad()
def greedy(model, tokens, count, stop):
    """Up to `count` tokens after `tokens`, ending before the token `stop`."""
    start = len(tokens)
    tokens = list(tokens)
    while len(tokens) - start < count and len(tokens) < model.shape.context:
        best = int(model(torch.tensor([tokens]))[0, -1].argmax())
        if best == stop:
            break
        tokens.append(best)
    return tokens[start:]
