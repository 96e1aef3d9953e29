"""A program as mypy --strict sees it: run by nobody. Each `type: ignore` is a mistake that mypy must tell."""
from __future__ import annotations

from typing import Any, Iterator

import numpy as np
from numpy.typing import NDArray

import inlay

x = np.ones((2, 8), np.float32)
w = np.ones(8, np.float32)
y: NDArray[Any] = inlay.rms_norm(x, w, eps=1e-6)
out: NDArray[np.float32] = inlay.rms_norm(x, w, out=y.astype(np.float32))
codes, scale = inlay.rms_norm(x, w, dtype=np.int8, y_scale=True)
weights, ids, rows, row_tokens, ends = inlay.moe_routing(x, top_k=2, score="sigmoid")
inlay.add(inlay.View(x.view(np.uint16), "bf16"), x, backend="reference")
backend: inlay.Backend = inlay.backend("cpu", threads=2)
inlay.gelu(x, form="tanh", backend=backend)
weight: inlay.Weight = inlay.import_gguf(x.view(np.uint8), type="Q4_0", scales="f16")
weight(x, bias=w)
model = inlay.Model("stories.gguf")
text: inlay.Text = model.generate("Once", top_p=0.9, seed=3)
pieces: Iterator[str] = model.chat([{"role": "user", "content": "Hi"}], stream=True)
tokens: list[int] = text.tokens + model.tokenize("a")

inlay.rms_norm(x)  # type: ignore[call-overload]
inlay.rms_norm(x, w, eps="small")  # type: ignore[call-overload]
inlay.rms_norm([1.0], w)  # type: ignore[call-overload]
inlay.gelu(x, form="tnah")  # type: ignore[call-overload]
inlay.copy_blocks(x, x, scale=1)  # type: ignore[call-arg]
inlay.pack_linear(x, dtype="f64")  # type: ignore[arg-type]
inlay.Model("m", kv_type="f8")  # type: ignore[arg-type]
number: int = model.generate("a")  # type: ignore[assignment]
