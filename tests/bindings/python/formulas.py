"""A valid call of each operator, and what it must give: sums in numpy's double, written out from docs/ops.

Each case is (operator, positional and named arguments, results by name); a result that is `changed` stands for what an argument
becomes in place."""
import math
import sys

import numpy as np

rng = np.random.default_rng(1)


def expect(holds, what):
    if not holds:
        sys.exit("FAILED: %s" % (what,))


def noise(*shape, low=-1.0, high=1.0):
    return rng.uniform(low, high, shape).astype(np.float32)


def double(*arrays):
    return [array.astype(np.float64) for array in arrays]


def softmax(x):
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def attention(q, k, v, visible):
    """q [n, heads, dim], k and v [keys, kv_heads, dim]; `visible` [n, keys]. out, lse."""
    q, k, v = double(q, k, v)
    group = q.shape[1] // k.shape[1]
    k, v = np.repeat(k, group, axis=1), np.repeat(v, group, axis=1)
    scores = np.einsum("ihd,jhd->hij", q, k) / math.sqrt(q.shape[2])
    scores = np.where(visible[None], scores, -np.inf)
    out = np.einsum("hij,jhd->ihd", softmax(scores), v)
    return out, np.log(np.exp(scores).sum(axis=-1)).T


def pack_int8(w):
    """[n, k] to the panels of linear_int8: 16 channels by 4 inputs."""
    n, k = w.shape
    padded = np.zeros((-(-n // 16) * 16, -(-k // 4) * 4), np.int8)
    padded[:n, :k] = w
    return np.ascontiguousarray(padded.reshape(-1, 16, padded.shape[1] // 4, 4).transpose(0, 2, 1, 3)).reshape(-1, padded.shape[1] // 4, 64)


def pack_w4(codes):
    """[n, k] of 4-bit codes to the panels of linear_w4a16: a 32-bit word of 8 slots for each of 16 channels."""
    n, k = codes.shape
    padded = np.zeros((-(-n // 16) * 16, -(-k // 8) * 8), np.uint8)
    padded[:n, :k] = codes
    packed = padded[:, 0::2] | padded[:, 1::2] << 4
    return np.ascontiguousarray(packed.reshape(-1, 16, packed.shape[1] // 4, 4).transpose(0, 2, 1, 3)).reshape(-1, packed.shape[1] // 4, 64)


def by_panel(values, fill=0):
    """[n, groups] to [panels, groups, 16]."""
    n, groups = values.shape
    padded = np.full((-(-n // 16) * 16, groups), fill, values.dtype)
    padded[:n] = values
    return np.ascontiguousarray(padded.reshape(-1, 16, groups).transpose(0, 2, 1))


def row_wise():
    x, residual, weight, bias = noise(5, 33), noise(5, 33), noise(33), noise(33)
    total = x.astype(np.float64) + residual
    yield "rms_norm", (x, weight), {"residual": residual.copy(), "eps": 0.01}, {
        "out": total / np.sqrt((total ** 2).mean(axis=1, keepdims=True) + 0.01) * weight, "residual": total}
    centred = x - x.astype(np.float64).mean(axis=1, keepdims=True)
    yield "layer_norm", (x,), {"weight": weight, "bias": bias}, {
        "out": centred / np.sqrt((centred ** 2).mean(axis=1, keepdims=True) + 1e-5) * weight + bias}
    erf = np.vectorize(math.erf)
    yield "gelu", (x,), {"up": residual}, {"out": x / 2 * (1 + erf(x / math.sqrt(2))) * residual}
    yield "swiglu", (x, residual), {}, {"out": x / (1 + np.exp(-x.astype(np.float64))) * residual}
    yield "add", (x, residual[:1]), {}, {"out": x.astype(np.float64) + residual[:1]}
    cube = noise(2, 3, 17)
    yield "softmax", (cube,), {"scale": 0.5}, {"out": softmax(cube.astype(np.float64) / 2)}
    yield "embedding", (x, np.array([4, 0, 4], np.int32)), {"scale": 2.0}, {"out": 2 * x[[4, 0, 4]]}
    yield "sampling", (noise(3, 11) + np.eye(3, 11, dtype=np.float32) * 4,), {"temperature": 0.0}, {"tokens": np.arange(3)}
    positions, inv_freq = np.array([[0, 7, 123456]], np.int64), np.array([[1.0, 0.25, 0.01]], np.float32)
    angles = positions.T * inv_freq.astype(np.float64)
    yield "rope_table", (positions, inv_freq), {}, {"cos": np.cos(angles), "sin": np.sin(angles)}
    cos, sin, heads = np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32), noise(3, 2, 8)
    a, b = double(heads[:, :, :3], heads[:, :, 3:6])
    c, s = cos[:, None], sin[:, None]
    yield "rope", (heads, cos, sin), {}, {"out": np.concatenate([a * c - b * s, a * s + b * c, heads[:, :, 6:]], axis=2)}


def linears():
    x, w, bias = noise(4, 24), noise(19, 24), noise(19)
    yield "linear", (x,), {"weight_rows": w, "bias": bias}, {"out": double(x)[0] @ w.T + bias}
    q, codes = rng.integers(-127, 128, (4, 24)).astype(np.int8), rng.integers(-127, 128, (19, 24)).astype(np.int8)
    scale = noise(19, low=0.001, high=0.01)
    yield "linear_int8", (q, pack_int8(codes), codes.sum(axis=1, dtype=np.int32)), {
        "x_scale": np.array([0.02], np.float32), "weight_scale": scale, "bias": bias}, {
        "out": (q.astype(np.int64) @ codes.T.astype(np.int64)) * (0.02 * scale.astype(np.float64)) + bias}
    nibbles, zeros, scales = rng.integers(0, 16, (19, 24)), rng.integers(0, 16, (19, 3)).astype(np.uint8), noise(19, 3)
    weights = (nibbles - np.repeat(zeros, 8, axis=1).astype(np.float64)) * np.repeat(scales, 8, axis=1)
    yield "linear_w4a16", (x, pack_w4(nibbles.astype(np.uint8)), by_panel(scales)), {"zeros": by_panel(zeros), "group": 8, "n": 19}, {
        "out": double(x)[0] @ weights.T}
    yield "quantize", (x,), {"row_scale": True}, {
        "out": np.rint(x / (np.abs(x).max(axis=1, keepdims=True) / np.float32(127))), "row_scale": np.abs(x).max(axis=1) / 127}
    yield "dequantize", (q, scale[:4, None].copy()), {}, {"out": q * scale[:4, None].astype(np.float64)}


def attentions():
    causal = np.tril(np.ones((5, 7), bool), 2)
    q, k, v = noise(2, 5, 4, 16), noise(2, 7, 2, 16), noise(2, 7, 2, 8)
    results = [attention(*each, causal) for each in zip(q, k, v)]
    out, lse = np.stack([out for out, _ in results]), np.stack([lse for _, lse in results])
    yield "flash_attention", (q, k, v), {"causal": True, "lse": True}, {"out": out, "lse": lse}
    keys, values = [noise(n, 2, 16) for n in (3, 6)], [noise(n, 2, 8) for n in (3, 6)]
    one = q[:, :1].copy()
    listed = [attention(*each, np.ones((1, len(each[1])), bool))[0] for each in zip(one, keys, values)]
    yield "incre_flash_attention", (one,), {"k_list": keys, "v_list": values, "v_dim": 8}, {"out": np.stack(listed)}
    # Blocks of four tokens, [blocks, kv_heads, 1, block_size, dim].
    k_cache, v_cache = noise(5, 2, 1, 4, 16), noise(5, 2, 1, 4, 8)
    table, lens = np.array([[3, 1], [0, 4]], np.int32), np.array([6, 3], np.int32)
    paged = []
    for i, length in enumerate(lens):
        pairs = [np.concatenate([cache[block, :, 0].transpose(1, 0, 2) for block in table[i]])[:length] for cache in (k_cache, v_cache)]
        paged.append(attention(q[i, :1], *pairs, np.ones((1, length), bool)))
    yield "paged_attention", (q[:, 0].copy(), k_cache, v_cache, table, lens), {"lse": True}, {
        "out": np.concatenate([out for out, _ in paged]), "lse": np.concatenate([lse for _, lse in paged])}
    parts, lses = noise(3, 4, 2, 8), noise(3, 4, 2)
    shares = softmax(lses.astype(np.float64).transpose(1, 2, 0))
    yield "merge_states", (parts, lses), {"lse": True}, {
        "out": np.einsum("ths,sthd->thd", shares, parts.astype(np.float64)), "lse": np.log(np.exp(lses.astype(np.float64)).sum(axis=0))}
    new_k, new_v, slots = noise(3, 2, 16), noise(3, 2, 8), np.array([5, -1, 18], np.int64)
    after = [k_cache.copy(), v_cache.copy()]
    for t, slot in enumerate(slots):
        if slot >= 0:
            for cache, new in zip(after, (new_k, new_v)):
                cache[slot // 4, :, 0, slot % 4] = new[t]
    yield "reshape_and_cache", (new_k, k_cache.copy(), slots), {"v": new_v, "v_cache": v_cache.copy()}, {
        "k_cache": after[0], "v_cache": after[1]}
    pairs = np.array([[0, 2], [4, 1]], np.int64)
    copied, swapped, target = k_cache.copy(), noise(3, 2, 1, 4, 16), np.array([[4, 0], [1, 2]], np.int64)
    copied[[2, 1]] = k_cache[[0, 4]]
    yield "copy_blocks", (k_cache.copy(), pairs), {}, {"k_cache": copied}
    expected = swapped.copy()
    expected[[0, 2]] = k_cache[[4, 1]]
    yield "swap_blocks", (k_cache, swapped.copy(), target), {}, {"target": expected}


def mixtures():
    logits = noise(6, 8, low=-3, high=3)
    chosen = np.argsort(-logits, axis=1, kind="stable")[:, :2]
    weights = np.take_along_axis(softmax(logits.astype(np.float64)), chosen, axis=1)
    order = np.argsort(chosen.ravel(), kind="stable")
    rows = np.empty(12, np.int64)
    rows[order] = np.arange(12)
    yield "moe_routing", (logits,), {"top_k": 2}, {
        "weights": weights, "ids": chosen, "rows": rows.reshape(6, 2), "row_tokens": order // 2,
        "expert_ends": np.cumsum(np.bincount(chosen.ravel(), minlength=8))}
    x = noise(12, 9)
    yield "moe_combine", (x, rows.reshape(6, 2).astype(np.int32), weights.astype(np.float32)), {}, {
        "out": np.einsum("tj,tjd->td", weights, x[rows.reshape(6, 2)].astype(np.float64))}


CASES = [*row_wise(), *linears(), *attentions(), *mixtures()]
