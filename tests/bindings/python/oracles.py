"""Operators of the package against those of ONNX Runtime that were contributed to it for language models, which nobody here has
written: random shapes, heads, biases, lengths, block sizes.

  oracles.py [SHAPES]      how many of each operator; 60"""
import sys

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper

import inlay
from formulas import by_panel, expect, noise, pack_w4, rng

onnxruntime.set_default_logger_severity(3)
TYPES = {np.dtype(np.float32): TensorProto.FLOAT, np.dtype(np.int32): TensorProto.INT32, np.dtype(np.int64): TensorProto.INT64,
         np.dtype(np.uint8): TensorProto.UINT8}


def run(op, inputs, outputs, **attributes):
    """One node of ONNX Runtime; None is an input or an output that is left out."""
    names = ["i%d" % i if each is not None else "" for i, each in enumerate(inputs)]
    results = ["o%d" % i if wanted else "" for i, wanted in enumerate(outputs)]
    node = helper.make_node(op, names, results, domain="com.microsoft", **attributes)
    graph = helper.make_graph(
        [node], op, [helper.make_tensor_value_info(name, TYPES[each.dtype], each.shape) for name, each in zip(names, inputs) if name],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in results if name])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)], ir_version=9)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return session.run(None, {name: each for name, each in zip(names, inputs) if name})


def near(found, expected, scale, what):
    """Within 2e-5 of what the sums' terms amount to."""
    expect(found.shape == expected.shape, "%s has shape %s; expected %s" % (what, found.shape, expected.shape))
    worst = (np.abs(found.astype(np.float64) - expected) / (1e-6 + scale)).max() if found.size else 0
    expect(worst <= 2e-5, "%s is off by %g of its scale" % (what, worst))


def pick(*values):
    return values[rng.integers(len(values))]


def rms_norm():
    batch, tokens, dim = rng.integers(1, 4), rng.integers(1, 9), rng.integers(1, 300)
    x, skip, gamma, eps = noise(batch, tokens, dim), noise(batch, tokens, dim), noise(dim), pick(1e-6, 1e-5, 0.1)
    out, total = run("SkipSimplifiedLayerNormalization", [x, skip, gamma], [1, 0, 0, 1], epsilon=eps)
    residual = skip.reshape(-1, dim).copy()
    found = inlay.rms_norm(x.reshape(-1, dim), gamma, residual=residual, eps=eps)
    near(found, out.reshape(-1, dim), 1 + np.abs(out.reshape(-1, dim)), "rms_norm")
    near(residual, total.reshape(-1, dim), 1, "its residual")


def rope():
    batch, tokens, heads, pairs, cached = rng.integers(1, 4), rng.integers(1, 9), rng.integers(1, 6), 4 * rng.integers(1, 17), rng.integers(9, 40)
    rest, interleaved = pick(0, 0, 16), pick(False, True)
    dim = 2 * pairs + rest
    x, positions = noise(batch, tokens, heads * dim), rng.integers(0, cached, (batch, tokens))
    angles = rng.uniform(-3, 3, (cached, pairs))
    cos, sin = np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)
    partial = {"num_heads": int(heads), "rotary_embedding_dim": int(2 * pairs)} if rest else {"num_heads": int(heads)}
    out, = run("RotaryEmbedding", [x, positions, cos, sin], [1], interleaved=int(interleaved), **partial)
    found = inlay.rope(x.reshape(-1, heads, dim), cos, sin, positions=positions.ravel(), interleaved=interleaved)
    near(found.reshape(out.shape), out, 1, "rope")


def attention_multi_head():
    batch, q_len, heads, dim, v_dim = rng.integers(1, 4), rng.integers(1, 12), rng.integers(1, 6), 8 * rng.integers(1, 9), 8 * rng.integers(1, 9)
    causal = pick(False, True)
    kv_len = q_len if causal else rng.integers(1, 40)
    q, k, v = noise(batch, q_len, heads * dim), noise(batch, kv_len, heads * dim), noise(batch, kv_len, heads * v_dim)
    bias = noise(pick(1, batch), pick(1, heads), q_len, kv_len) if pick(False, True) else None
    scale = pick(0.0, 0.3)
    named = {"scale": scale} if scale else {}
    out, = run("MultiHeadAttention", [q, k, v, None, None, bias], [1], num_heads=int(heads), unidirectional=int(causal), **named)
    found = inlay.flash_attention(q.reshape(batch, q_len, heads, dim), k.reshape(batch, kv_len, heads, dim),
                                  v.reshape(batch, kv_len, heads, v_dim), bias=bias, causal=causal, scale=scale)
    near(found.reshape(out.shape), out, 1, "flash_attention")


def attention_grouped():
    """A chunk behind what the cache holds: each sequence has a length of its own, and q and the new k may be turned."""
    batch, kv_heads, group, dim = rng.integers(1, 4), rng.integers(1, 4), rng.integers(1, 4), 16 * rng.integers(1, 9)
    heads, turned, softcap = kv_heads * group, pick(False, True), pick(0.0, 0.0, 5.0)
    prompt = pick(False, True)
    new = int(rng.integers(1, 12)) if prompt else 1
    lens = np.full(batch, new, np.int32) if prompt else rng.integers(1, 30, batch).astype(np.int32)
    past = 0 if prompt else int(lens.max()) - 1
    window = pick(-1, -1, int(rng.integers(1, 20)))
    q, k, v = noise(batch, new, heads, dim), noise(batch, new, kv_heads, dim), noise(batch, new, kv_heads, dim)
    past_k, past_v = noise(batch, kv_heads, past, dim), noise(batch, kv_heads, past, dim)
    angles = rng.uniform(-3, 3, (40, dim // 2))
    cos, sin = np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)
    out, _, _ = run("GroupQueryAttention", [
        q.reshape(batch, new, -1), k.reshape(batch, new, -1), v.reshape(batch, new, -1), past_k, past_v, lens - 1,
        np.array(lens.max(), np.int32), cos if turned else None, sin if turned else None], [1, 1, 1], num_heads=int(heads),
        kv_num_heads=int(kv_heads), do_rotary=int(turned), local_window_size=int(window), softcap=softcap)
    if turned:
        positions = (lens[:, None] - new + np.arange(new)).astype(np.int64).ravel()
        q = inlay.rope(q.reshape(-1, heads, dim), cos, sin, positions=positions).reshape(q.shape)
        k = inlay.rope(k.reshape(-1, kv_heads, dim), cos, sin, positions=positions).reshape(k.shape)
    # Keys of its past, then its new ones; what lies behind a sequence's end may be anything.
    keys, values = np.full((batch, lens.max(), kv_heads, dim), np.nan, np.float32), np.full((batch, lens.max(), kv_heads, dim), np.nan, np.float32)
    for b, n in enumerate(lens):
        for all_, before, more in ((keys, past_k, k), (values, past_v, v)):
            all_[b, :n - new] = before[b, :, :n - new].transpose(1, 0, 2)
            all_[b, n - new:n] = more[b]
    # ONNX Runtime counts the query's own key among the window, Inlay does not.
    named = {"kv_lens": lens, "causal": True, "window_left": window - 1 if window > 0 else -1, "softcap": softcap}
    near(inlay.flash_attention(q, keys, values, **named).reshape(out.shape), out, 1, "flash_attention")
    near(inlay.incre_flash_attention(q, k=keys, v=values, **named).reshape(out.shape), out, 1, "incre_flash_attention")
    # The same in blocks of 4, of the last query alone.
    blocks = -(-int(lens.max()) // 4)
    cached = []
    for all_ in (keys, values):
        padded = np.zeros((batch, blocks * 4, kv_heads, dim), np.float32)
        padded[:, :all_.shape[1]] = np.nan_to_num(all_)
        cached.append(np.ascontiguousarray(padded.reshape(batch * blocks, 4, kv_heads, 1, dim).transpose(0, 2, 3, 1, 4)))
    table = np.arange(batch * blocks, dtype=np.int32).reshape(batch, blocks)
    found = inlay.paged_attention(np.ascontiguousarray(q[:, -1]), *cached, table, lens, window_left=named["window_left"], softcap=softcap)
    near(found.reshape(batch, -1), out[:, -1], 1, "paged_attention")


def linear_w4a16():
    rows, n, block = rng.integers(1, 9), rng.integers(1, 70), int(2 ** rng.integers(4, 8))
    k = int(rng.integers(1, 5)) * block
    groups = k // block
    x, scales, codes = noise(rows, k), noise(n, groups), rng.integers(0, 16, (n, k)).astype(np.uint8)
    zeros = rng.integers(0, 16, (n, groups)).astype(np.uint8) if pick(False, True) else None
    packed = (codes[:, 0::2] | codes[:, 1::2] << 4).reshape(n, groups, block // 2)
    points = None
    if zeros is not None:
        even = np.zeros((n, -(-groups // 2) * 2), np.uint8)
        even[:, :groups] = zeros
        points = (even[:, 0::2] | even[:, 1::2] << 4).ravel()
    out, = run("MatMulNBits", [x, packed, scales.ravel(), points], [1], K=k, N=int(n), bits=4, block_size=block)
    found = inlay.linear_w4a16(x, pack_w4(codes), by_panel(scales), zeros=None if zeros is None else by_panel(zeros), group=block, n=n)
    weights = (codes.astype(np.float64) - (8 if zeros is None else np.repeat(zeros, block, axis=1))) * np.repeat(scales, block, axis=1)
    near(found, out, np.abs(x) @ np.abs(weights).T, "linear_w4a16")


shapes = int(sys.argv[1]) if len(sys.argv) > 1 else 60
for check in (rms_norm, rope, attention_multi_head, attention_grouped, linear_w4a16):
    for _ in range(shapes):
        check()
print("OK: %d shapes" % (5 * shapes))
