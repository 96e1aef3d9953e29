"""A model from Python: texts of several prompts at once are those that each gets alone and that the library's own command
line writes, as words and as tokens; stop strings, seeds, ends; chats in tokens, layers as they are loaded; and what is refused.

  model.py LIBRARY MODEL [INLAY]      INLAY: the command line
"""
import ctypes as c
import sys

from command_line import run_prompts
from inlay_ctypes import FLAG, INTEGER, NUMBER, TENSOR, Argument, BackendOptions, Failed, Inlay, Tensor

library, path = sys.argv[1:3]
inlay = Inlay(library)


class ModelOptions(c.Structure):
    _fields_ = [("size", c.c_size_t), ("backend", c.c_void_p), ("kv_type", c.c_char_p), ("context", c.c_int64),
                ("cache_tokens", c.c_int64), ("batch", c.c_int32), ("reserved", c.c_int32), ("on_progress", c.c_void_p),
                ("user", c.c_void_p)]


class Message(c.Structure):
    _fields_ = [("role", c.c_char_p), ("content", c.c_char_p), ("bytes", c.c_size_t)]


class Chat(c.Structure):
    _fields_ = [("size", c.c_size_t), ("messages", c.POINTER(Message)), ("message_count", c.c_size_t), ("switches", c.POINTER(Argument)),
                ("switch_count", c.c_size_t), ("chat_template", c.c_char_p)]


class Prompt(c.Structure):
    _fields_ = [("text", c.c_char_p), ("bytes", c.c_size_t), ("tokens", c.POINTER(c.c_int32)), ("count", c.c_size_t)]


class Request(c.Structure):
    _fields_ = [("size", c.c_size_t), ("prompts", c.POINTER(Prompt)), ("prompt_count", c.c_size_t), ("tokens", c.c_int64),
                ("sampling", c.POINTER(Argument)), ("sampling_count", c.c_size_t), ("stops", c.POINTER(c.c_char_p)),
                ("stop_count", c.c_size_t), ("ignore_eos", c.c_int32), ("reserved", c.c_int32)]


class Text(c.Structure):
    _fields_ = [("end", c.c_int32), ("reserved", c.c_int32), ("tokens", c.c_int64)]


OnText = c.CFUNCTYPE(c.c_int32, c.c_void_p, c.c_size_t, c.POINTER(c.c_char), c.c_size_t, c.c_int32)
END_TOKENS, END_STOP, END_CONTEXT, END_CALLER, END_FAILED = range(1, 6)
inlay.library.inlay_model_close.argtypes = [c.c_void_p]
inlay.library.inlay_model_close.restype = None


def expect(holds, what):
    if not holds:
        sys.exit("FAILED: %s" % (what,))


def open_model(where=path, **options):
    model = c.c_void_p(8)
    options = ModelOptions(size=c.sizeof(ModelOptions), **options)
    code = inlay.library.inlay_model_open(where.encode(), c.byref(options), c.byref(model))
    expect((code == 0) == bool(model), "a model, or none")
    inlay.check(code)
    return model


def scalar(name, value):
    argument = Argument(name=name.encode(), kind=NUMBER if isinstance(value, float) else INTEGER)
    setattr(argument, "number" if isinstance(value, float) else "integer", value)
    return argument


def tokenize(model, text):
    count, data = c.c_size_t(), text.encode()
    call = inlay.library.inlay_model_tokenize
    inlay.check(call(model, data, c.c_size_t(len(data)), None, c.c_size_t(0), c.byref(count)))
    tokens = (c.c_int32 * count.value)()
    inlay.check(call(model, data, c.c_size_t(len(data)), tokens, count, c.byref(count)))
    return tokens


def tokenize_chat(model, messages, switches=(), template=None, **other):
    given = (Message * len(messages))(*[Message(role, content, len(content or b"")) for role, content in messages])
    chat = Chat(**{"size": c.sizeof(Chat), "messages": given, "message_count": len(messages), "switches": (Argument * len(switches))(*switches),
                   "switch_count": len(switches), "chat_template": template, **other})
    count, tokens = c.c_size_t(), (c.c_int32 * 256)()
    inlay.check(inlay.library.inlay_model_tokenize_chat(model, c.byref(chat), tokens, c.c_size_t(256), c.byref(count)))
    return list(tokens[:count.value])


def generate(model, prompts, tokens=24, sampling=(), stops=(), ignore_eos=0, go_on=lambda i, n: True, **other):
    """Text, tokens and end of each prompt: words, or tokens as tokenize() gives them."""
    given = (Prompt * len(prompts))()
    for one, prompt in zip(given, prompts):
        if isinstance(prompt, str):
            one.text, one.bytes = prompt.encode(), len(prompt.encode())
        else:
            one.tokens, one.count = prompt, len(prompt)
    request = Request(size=c.sizeof(Request), prompts=given, prompt_count=len(prompts), tokens=tokens,
                      sampling=(Argument * len(sampling))(*sampling), sampling_count=len(sampling),
                      stops=(c.c_char_p * len(stops))(*[stop.encode() for stop in stops]), stop_count=len(stops),
                      ignore_eos=ignore_eos, **other)
    written, drawn = [b""] * len(prompts), [[] for _ in prompts]

    def on_text(_, i, text, size, token):
        written[i] += c.string_at(text, size)
        if token >= 0:
            drawn[i].append(token)
        return go_on(i, len(drawn[i]))

    texts, callback = (Text * len(prompts))(), OnText(on_text)
    inlay.check(inlay.library.inlay_model_generate(model, c.byref(request), callback, None, texts))
    for text, one in zip(texts, drawn):
        expect(text.tokens == len(one), "as many tokens as callbacks: %d, %d" % (text.tokens, len(one)))
    return [(text.decode(errors="replace"), one, result.end) for text, one, result in zip(written, drawn, texts)]


def refused(words, call, *given, **named):
    try:
        call(*given, **named)
    except Failed as failed:
        return expect(words in str(failed), "%s in: %s" % (words, failed))
    sys.exit("FAILED: taken, in place of: " + words)


prompts = ["Once upon a time", "The little dog", "One day, Lily", "Tom and his mom"]
model = open_model()
together = generate(model, prompts)
alone = [generate(model, [prompt])[0] for prompt in prompts]
expect(together == alone, "together as alone: %s / %s" % (together, alone))
expect(len({text for text, _, _ in together}) == 4 and all(len(text) > 20 for text, _, _ in together), together)
expect(all(len(drawn) == 24 and end == END_TOKENS for _, drawn, end in together), together)

if len(sys.argv) > 3:
    written = run_prompts(sys.argv[3], path, prompts, 24)
    expect(written == [text for text, _, _ in together], "as `inlay run` writes: %s" % written)

by_tokens = generate(model, [tokenize(model, prompt) for prompt in prompts])
expect(by_tokens == together, "tokens as words")

draw = [scalar("temperature", 0.9), scalar("top_k", 40), scalar("seed", 7)]
first, again = generate(model, prompts[:1], sampling=draw), generate(model, prompts[:1], sampling=draw)
other = generate(model, prompts[:1], sampling=draw[:2] + [scalar("seed", 8)])
expect(first == again and first != other and first != together[:1], "a seed is its text")

word = together[0][0].split()[3]
cut, drawn, end = generate(model, prompts[:1], stops=[word])[0]
expect(cut == together[0][0][:together[0][0].index(word)] and end == END_STOP, "a stop string ends it: %r" % cut)

text, drawn, end = generate(model, prompts[:2], go_on=lambda i, n: i == 1 or n < 5)[0]
expect(len(drawn) == 5 and end == END_CALLER and together[0][0].startswith(text), "the callback ends a text")
expect(generate(model, prompts) == together, "and the next call is as the first")
expect(generate(model, []) == [], "no prompt, no text")

short = open_model(context=16)
expect(generate(short, prompts[:1])[0][2] == END_CONTEXT, "the context ends it")
refused("prompts[0]: the prompt has ", generate, short, [" ".join(prompts * 3)])
refused("tokens is 0; it must be in 1..", generate, model, prompts, tokens=0)
refused("sampling: there is no argument 'heat'", generate, model, prompts, sampling=[scalar("heat", 1.0)])
refused("sampling: top_k is given a number", generate, model, prompts, sampling=[scalar("top_k", 1.0)])
refused("top_p is 2", generate, model, prompts, sampling=[scalar("top_p", 2.0)])
logits = Tensor((1, 4))
refused("sampling: logits is given; it must be a scalar", generate, model, prompts,
        sampling=[Argument(name=b"logits", kind=TENSOR, tensor=c.pointer(logits.dl))])
refused("stops: ", generate, model, prompts, stops=[""])
refused("ignore_eos is 2", generate, model, prompts, ignore_eos=2)
refused("reserved is 1", generate, model, prompts, reserved=1)
refused("a token of the prompt is -5", generate, model, [prompts[0], (c.c_int32 * 2)(1, -5)])
refused("prompts[1]: ", generate, model, [prompts[0], (c.c_int32 * 0)()])
expect(generate(model, prompts) == together, "and refusals leave nothing behind")


def reenter(i, n):
    if n == 1:
        refused("model is in another call", generate, model, prompts[:1])
    return True


expect(generate(model, prompts[:1], go_on=reenter) == together[:1], "a call within a call is refused")

template = b"{% for m in messages %}{{ m.role }}:{{ m.content }}{% endfor %}{% if loud %}!{% endif %}{% if add_generation_prompt %}:{% endif %}"
asked = [(b"user", b"the mill</s>")]
quiet = tokenize_chat(model, asked, template=template)
expect(len(quiet) > 4 and 2 not in quiet, "a message makes no special token: %s" % quiet)
loud = tokenize_chat(model, asked, [Argument(name=b"loud", kind=FLAG, integer=1)], template)
expect(len(loud) > len(quiet) and loud[:4] == quiet[:4], "a switch: %s" % loud)
expect(tokenize_chat(model, [], template=b"no message") == list(tokenize(model, "no message"))[-len(tokenize_chat(model, [], template=b"no message")):],
       "a template alone")
refused("3: the model has no chat template", tokenize_chat, model, asked)
refused("chat_template is empty", tokenize_chat, model, asked, template=b"")
refused("chat_template: ", tokenize_chat, model, asked, template=b"{% for %}")
refused("messages: ", tokenize_chat, model, asked, template=b"{{ raise_exception('no') }}")
refused("messages[0].role is null", tokenize_chat, model, [(None, b"a")], template=template)
refused("messages[1].content is null", tokenize_chat, model, [asked[0], (b"user", None)], template=template)
refused("switches[0], 'loud', is an integer; it must be a flag", tokenize_chat, model, asked, [scalar("loud", 1)], template)
refused("switches[0], 'loud', is 2; it must be 0 or 1", tokenize_chat, model, asked, [Argument(name=b"loud", kind=FLAG, integer=2)], template)
refused("switches[0] has no name", tokenize_chat, model, asked, [Argument(kind=FLAG, integer=1)], template)
refused("inlay_chat.size is 3", tokenize_chat, model, asked, template=template, size=3)
steps, on_progress = [], c.CFUNCTYPE(None, c.c_void_p, c.c_int64, c.c_int64)(lambda _, done, layers: steps.append((done, layers)))
inlay.library.inlay_model_close(open_model(on_progress=c.cast(on_progress, c.c_void_p)))
expect(steps and steps == [(i + 1, len(steps)) for i in range(len(steps))], "each layer is told of: %s" % steps)

refused("3: ", open_model, "/no/such/model.gguf")
refused("kv_type is 'f8'", open_model, kv_type=b"f8")
refused("context is -1; it must be in 0..", open_model, context=-1)
refused("batch is -2", open_model, batch=-2)
reference = inlay.open("reference")
slow = open_model(backend=reference, kv_type=b"f32", batch=2)
expect([len(drawn) for _, drawn, _ in generate(slow, prompts[:3], tokens=3)] == [3, 3, 3], "the reference writes too")
coded = open_model(kv_type=b"int8")
expect([len(drawn) for _, drawn, _ in generate(coded, prompts[:3], tokens=3)] == [3, 3, 3], "and so does a cache of int8")
for each in (model, short, slow, coded):
    inlay.library.inlay_model_close(each)
inlay.close(reference)
print("OK")
