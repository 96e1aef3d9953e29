"""inlay.torch: torch.ops.inlay through torch's own opcheck, torch.compile and torch.export, against numpy's sums in formulas.py and
torch's attention; models of torch and transformers after quantize_, against weights that torch itself has rounded; what is refused."""
import inspect
import sys

import numpy as np
import torch
import transformers

import inlay
import inlay.torch
from formulas import CASES, expect

torch.manual_seed(1)
ops = torch.ops.inlay


def tensors(value):
    if isinstance(value, np.ndarray):
        return torch.from_numpy(value.copy())
    return [tensors(each) for each in value] if isinstance(value, list) else value


def near(found, expected, bound, what):
    found, expected = found.double(), torch.as_tensor(expected).double()
    expect(found.shape == expected.shape, "%s has shape %s; expected %s" % (what, found.shape, expected.shape))
    error = (found - expected).abs().max().item()
    expect(error <= bound * (1 + expected.abs().max().item()), "%s is off by %g" % (what, error))


def check_cases():
    """Each operator in both forms: that which changes nothing, and that whose results, further ones too, are given."""
    for op, positional, named, expected in CASES:
        described = next(each for each in inlay.operators.describe() if each.name == op)
        given = dict(inspect.signature(getattr(inlay, op)).bind(*positional, **named).arguments)
        for field in described.on_request:
            if given.get(field.name) is True:
                given[field.name] = np.zeros(expected[field.name].shape, np.float32)
        first = [field.name for field in described.positional]
        names = [field.name for field in described.results]
        changed = {field.name for field in described.named if field.role == "optional_out" and field.name in given} if names else set()
        made = getattr(inlay, op)(*[tensors(each) for each in positional], **{name: tensors(value) for name, value in named.items()})
        made = [torch.from_numpy(each) for each in (made if isinstance(made, tuple) else (made,)) if each is not None]
        for form in ("default", "out") if names else ("default",):
            if form == "default" and changed - {"lse"}:
                continue  # what else is written changes the result, which is not that of the formula
            results = dict(zip(names, made)) if form == "out" else {}
            left_out = changed if form == "default" else described.extents

            def fresh():
                named = {name: tensors(value) for name, value in given.items() if name not in first and name not in left_out}
                return tuple(tensors(given[name]) for name in first), {**named, **{name: torch.zeros_like(each) for name, each in results.items()}}

            overload = getattr(getattr(ops, op), form)
            torch.library.opcheck(overload, *fresh())
            arguments, named = fresh()
            returned = overload(*arguments, **named)
            returned = returned if isinstance(returned, tuple) else (returned,)
            found = {**dict(zip(names, returned)), **dict(zip(first, arguments)), **named}
            for name in expected.keys() - left_out:
                near(found[name], expected[name], 1e-5, "%s.%s: %s" % (op, form, name))


def attend(q, k, v, weight):
    out = ops.flash_attention(q, k, v, causal=True)
    flat = out.flatten(0, 2)
    residual = torch.ones_like(flat)
    normed = torch.empty_like(flat)
    ops.rms_norm.out(flat, weight, residual=residual, out=normed)
    return out, normed + residual


def check_tracing():
    """A function that changes a tensor of its own, through torch.compile and torch.export, also at other extents. The backend
    aot_eager makes all that inductor is given; inductor itself, which calls a C++ compiler for minutes where torch has other
    operators to fuse, runs in docs/python.md's example."""
    compiled = torch.compile(attend, fullgraph=True, dynamic=True, backend="aot_eager")

    class Attend(torch.nn.Module):
        def forward(self, q, k, v, weight):
            return attend(q, k, v, weight)

    def inputs(tokens):
        return torch.randn(2, tokens, 4, 32), torch.randn(2, tokens, 4, 32), torch.randn(2, tokens, 4, 32), torch.rand(32)

    at = {1: torch.export.Dim("tokens", min=2, max=64)}
    exported = torch.export.export(Attend(), inputs(5), dynamic_shapes=(at, at, at, None)).module()
    for tokens in (5, 9):
        given = inputs(tokens)
        q, k, v, weight = given
        attention = torch.nn.functional.scaled_dot_product_attention(*[each.transpose(1, 2) for each in (q, k, v)], is_causal=True).transpose(1, 2)
        total = attention.flatten(0, 2) + 1
        wanted = torch.nn.functional.rms_norm(total, (32,), weight, 1e-5) + total
        for name, function in (("eager", attend), ("compile", compiled), ("export", exported)):
            out, normed = function(*given)
            near(out, attention, 1e-5, name + ": flash_attention")
            near(normed, wanted, 1e-5, name + ": rms_norm")
    # A plain loop over the keys that each query sees.
    for i in range(tokens):
        for h in range(4):
            p = torch.softmax(k[0, :i + 1, h].double() @ q[0, i, h].double() / 32 ** 0.5, 0)
            near(out[0, i, h], p @ v[0, :i + 1, h].double(), 1e-5, "flash_attention, of a loop")


def rounded(weight, group, largest):
    """What quantize_ makes of a weight, by torch alone."""
    n, k = weight.shape
    rows = torch.nn.functional.pad(weight, (0, -k % group)).reshape(n, -1, group)
    scale = rows.abs().amax(-1, keepdim=True) / largest
    return (torch.round(rows / torch.where(scale == 0, 1, scale)) * scale).reshape(n, -1)[:, :k]


class Rounded(torch.nn.Module):
    """A linear over rounded weights, and for w4a8 and int8 over rounded activations."""

    def __init__(self, linear, kind, group):
        super().__init__()
        self.group, largest = (linear.in_features, 127) if kind == "int8" else (group, 7)
        self.weight = rounded(linear.weight.detach().float(), self.group, largest).double()
        self.bias, self.kind = linear.bias, kind

    def forward(self, x):
        rows = x.float().reshape(-1, x.shape[-1])
        if self.kind != "w4a16":
            rows = rounded(rows, self.group, 127)
        y = rows.double() @ self.weight.T
        return (y if self.bias is None else y + self.bias).to(x.dtype).reshape(*x.shape[:-1], -1)


def replace_by_torch(module, kind, group):
    for name, child in module.named_children():
        if type(child) is torch.nn.Linear:
            setattr(module, name, Rounded(child, kind, group))
        else:
            replace_by_torch(child, kind, group)
    return module


def check_linears():
    for kind in ("w4a16", "w4a8", "int8"):
        for k, n, bias, dtype in ((64, 48, True, torch.float32), (52, 19, False, torch.float32), (7, 1, True, torch.float32),
                                  (96, 33, True, torch.bfloat16), (40, 16, True, torch.float16)):
            def build():
                torch.manual_seed(k)
                linear = torch.nn.Linear(k, n, bias, dtype=dtype)
                linear.weight.data[0] = 0
                return torch.nn.Sequential(linear, torch.nn.Identity())

            x = torch.randn(2, 3, k, dtype=dtype)
            wanted = replace_by_torch(build(), kind, 16)(x)
            module = inlay.torch.quantize_(build(), kind, group_size=16)
            near(module(x), wanted.detach(), 1e-5 if dtype == torch.float32 else 1e-2, "%s of [%d, %d], %s" % (kind, n, k, dtype))
            expect(module(x[:0]).shape == (0, 3, n) and module(x).dtype == dtype and not list(module.parameters()), "a quantized module")
            near(module(x.transpose(0, 1)), module(x).transpose(0, 1), 0, "rows in another order")
    module = torch.nn.Sequential(torch.nn.Linear(64, 32), torch.nn.SiLU(), torch.nn.Linear(32, 8))
    inlay.torch.quantize_(module)
    again = inlay.torch.quantize_(torch.nn.Sequential(torch.nn.Linear(64, 32), torch.nn.SiLU(), torch.nn.Linear(32, 8)))
    again.load_state_dict(module.state_dict())
    x = torch.randn(4, 64)
    for name, function in (("load_state_dict", again), ("compile", torch.compile(module, fullgraph=True, backend="aot_eager")),
                           ("export", torch.export.export(module, (x,)).module())):
        near(function(x), module(x), 1e-6, name)


def build_llama():
    torch.manual_seed(3)
    config = transformers.LlamaConfig(hidden_size=64, intermediate_size=160, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
                                      vocab_size=97, max_position_embeddings=64, initializer_range=0.2, bos_token_id=1, eos_token_id=None, pad_token_id=0)
    return transformers.LlamaForCausalLM(config).eval()


def check_llama():
    """A model of transformers: its logits are those of weights that torch has rounded, and so is what it writes."""
    prompt = torch.tensor([[1, 5, 9, 33]])
    how = {"max_new_tokens": 12, "do_sample": False, "attention_mask": torch.ones_like(prompt)}
    for kind, bound in (("w4a16", 1e-4), ("w4a8", 2e-2), ("int8", 2e-2)):
        wanted, model = replace_by_torch(build_llama(), kind, 32), inlay.torch.quantize_(build_llama(), kind)
        near(model(prompt).logits, wanted(prompt).logits, bound, "logits of " + kind)
        far = (model(prompt).logits - build_llama()(prompt).logits).abs().max()
        expect(far > 1e-3, "weights are rounded: %g" % far)
        written = model.generate(prompt, **how)
        expect(written.shape == (1, 16), "generate writes %s" % list(written.shape))
        if kind == "w4a16":
            expect(torch.equal(written, wanted.generate(prompt, **how)), "what %s writes" % kind)
    near(inlay.torch.quantize_(build_llama(), skip=["lm_head", "model"])(prompt).logits, build_llama()(prompt).logits, 0, "all is skipped")


def check_memory():
    """What is remembered of a signature is that signature's; memory is read where it lies now."""
    whole = torch.arange(96, dtype=torch.float32).reshape(4, 24).requires_grad_()
    weight = torch.ones(8)
    for turn in range(2):
        for x in (whole[:2, :8], whole[1:, 8:16], whole[::2, 8:16], whole[:2, :8].bfloat16(), whole[:1, 16:]):
            found = ops.rms_norm(x, weight)
            wanted = torch.nn.functional.rms_norm(x.float(), (8,), weight, 1e-5)
            expect(found.dtype == x.dtype, "the type of a result is %s" % found.dtype)
            near(found, wanted, 1e-5 if x.dtype == torch.float32 else 1e-2, "rms_norm of %s" % list(x.shape))
        expect(ops.rms_norm(whole[:0, :8], weight).shape == (0, 8), "no rows")
        for asked in (torch.float16, torch.float32):
            expect(ops.embedding(whole, torch.tensor([1, 3]), dtype=asked).dtype == asked, "the type that is asked for")
    gone = torch.ones(2, 8)
    gone.untyped_storage().resize_(0)
    refused(ValueError, "rms_norm: x has shape [2, 8] and no memory", ops.rms_norm, gone, weight)


def refused(kind, words, function, /, *arguments, **named):
    before = [each.clone() for each in arguments if isinstance(each, torch.Tensor) and each.device.type == "cpu" and each.data_ptr()]
    try:
        function(*arguments, **named)
    except Exception as wrong:
        expect(type(wrong) is kind and words in str(wrong), "%s with %r in: %s: %s" % (kind.__name__, words, type(wrong).__name__, wrong))
    else:
        sys.exit("FAILED: taken: " + words)
    for each, now in zip(before, [each for each in arguments if isinstance(each, torch.Tensor) and each.device.type == "cpu" and each.data_ptr()]):
        expect(torch.equal(each, now), "%s: an argument was written" % words)


def check_refusals():
    x, weight = torch.ones(2, 8), torch.ones(8)
    refused(TypeError, "rms_norm: x has dtype float64", ops.rms_norm, x.double(), weight)
    refused(TypeError, "rms_norm: weight has dtype i32", ops.rms_norm, x, weight.int())
    refused(TypeError, "rms_norm: the result that is asked for has dtype float64", ops.rms_norm, x, weight, dtype=torch.float64)
    refused(ValueError, "rms_norm: weight", ops.rms_norm, x, torch.ones(9))
    refused(ValueError, "rms_norm: x", ops.rms_norm, torch.ones(8, 2).T, weight)
    refused(ValueError, "rms_norm: eps is -1", ops.rms_norm, x, weight, eps=-1.0)
    refused(ValueError, "rms_norm: weight is on device cpu; it must be on meta", ops.rms_norm, x.to("meta"), weight)
    refused(ValueError, "gelu: form", ops.gelu, x, form="tnah")
    refused(ValueError, "linear: n is -1", ops.linear, x, weight=torch.ones(1, 8, 16), n=-1)
    refused(ValueError, "n is unknown", ops.linear, x, weight=torch.ones(1, 8, 16))
    refused(ValueError, "rms_norm: out", ops.rms_norm.out, x, weight, out=torch.zeros(3, 8))
    refused(ValueError, "no such", ops.add, x, x, backend="no such backend")
    quantize_, linear = inlay.torch.quantize_, torch.nn.Linear
    refused(TypeError, "module is of type Tensor", quantize_, x)
    refused(ValueError, "module is a Linear itself", quantize_, linear(8, 8))
    for kind, words, named in ((ValueError, "kind is 'w3'", {"kind": "w3"}), (ValueError, "group_size is 12", {"group_size": 12}),
                               (TypeError, "group_size is of type float", {"group_size": 8.0}), (ValueError, "skip names 'head'", {"skip": ["head"]})):
        refused(kind, words, quantize_, torch.nn.Sequential(linear(8, 8)), **named)
    broken = linear(8, 8)
    broken.weight.data[3, 3] = float("nan")
    for kind, words, last in ((TypeError, "1.weight has dtype float64", linear(8, 8, dtype=torch.float64)),
                              (ValueError, "1.weight is on device meta", linear(8, 8, device="meta")), (ValueError, "1.weight holds NaN", broken)):
        module = torch.nn.Sequential(linear(8, 8), last)
        refused(kind, words, quantize_, module)
        expect(type(module[0]) is linear, "nothing is replaced where one is refused")


for check in (check_refusals, check_memory, check_linears, check_llama, check_cases, check_tracing):
    with torch.no_grad():
        check()
    print("OK: " + check.__name__, flush=True)
