"""Models: a text is the one that the command line writes, whole, in pieces, beside others; seeds, stops, ends; chats through a
template; bars; what is refused.

  model.py MODEL [INLAY]      INLAY: the command line"""
import gc
import io
import pathlib
import sys
import threading
import types

import inlay
from formulas import expect

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1]))
from command_line import run_prompts

path = sys.argv[1]
prompts = ["Once upon a time", "The little dog", "One day, Lily"]
steps = []
model = inlay.Model(path, progress=lambda done, layers: steps.append((done, layers)))
expect(steps == [(i + 1, len(steps)) for i in range(len(steps))] and len(steps) > 1, "each layer is told of: %s" % steps)

terminal, sys.stderr = sys.stderr, io.StringIO()
inlay.Model(path, progress=True).close()
shown, sys.stderr = sys.stderr.getvalue(), io.StringIO()
inlay.Model(path).close()
unseen, sys.stderr = sys.stderr.getvalue(), terminal
expect("stories.gguf" in shown and "/%d" % len(steps) in shown and unseen == "", "tqdm's bar, and none where nobody looks: %r %r" % (shown, unseen))

texts = model.generate_all(prompts, max_tokens=24)
expect(all(isinstance(text, str) and len(text.tokens) == 24 and text.end == "tokens" for text in texts), texts)
expect([model.generate(prompt, max_tokens=24) for prompt in prompts] == texts, "together as alone")
expect(model.generate(model.tokenize(prompts[0]), max_tokens=24) == texts[0], "tokens as words")
if len(sys.argv) > 2:
    expect(run_prompts(sys.argv[2], path, prompts, 24) == texts, "as `inlay run` writes")

pieces = list(model.generate(prompts[0], max_tokens=24, stream=True))
expect("".join(pieces) == texts[0] and len(pieces) > 12, "in pieces: %s" % pieces)
for piece in model.generate(prompts[0], max_tokens=100000, ignore_eos=True, stream=True):
    break  # who asks for no more ends the text
gc.collect()
expect(model.generate(prompts[0], max_tokens=24) == texts[0], "and the model is free again")

# The same one token at a time: its second waits until nobody asks for more, and there is no third.
gate, calls, plain = threading.Event(), [], model._model


class Gated(threading.Event):
    def clear(self):
        super().clear()
        gate.set()


class Slow:
    def generate(self, *given):
        def on_text(i, text, token):
            calls.append(token)
            if len(calls) == 2:
                gate.wait()
            return given[-1](i, text, token)

        return plain.generate(*given[:-1], on_text)


inlay.model.threading = types.SimpleNamespace(Event=Gated, Thread=threading.Thread)
model._model = Slow()
stream = model.generate(prompts[0], max_tokens=24, stream=True)
next(stream)
stream.close()
inlay.model.threading, model._model = threading, plain
expect(len(calls) == 2, "%d tokens where one was read" % len(calls))
word = texts[0].split()[3]
cut = model.generate(prompts[0], max_tokens=24, stop=word)
expect(cut == texts[0][:texts[0].index(word)] and cut.end == "stop", "a stop string: %r" % cut)
held = model.generate(prompts[0], max_tokens=24, stop=texts[0][-2:] + "#")
expect(held == texts[0] and "".join(model.generate(prompts[0], max_tokens=24, stop=texts[0][-2:] + "#", stream=True)) == held,
       "what might have become a stop string is not lost: %r" % held)
draw = {"max_tokens": 24, "temperature": 0.9, "top_k": 40, "top_p": 0.95}
first = model.generate(prompts[0], seed=7, **draw)
expect(first == model.generate(prompts[0], seed=7, **draw) != model.generate(prompts[0], seed=8, **draw), "a seed is its text")

template = "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}{% if add_generation_prompt %}answer:{% endif %}{% if loud %}!{% endif %}"
messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Who is Tom?"}]
rendered = model.tokenize_chat(messages, template=template)
expect(rendered == model.tokenize("system: Be brief.\nuser: Who is Tom?\nanswer:")[-len(rendered):], "a chat in tokens")
answer = model.chat(messages, template=template, max_tokens=12)
expect(answer == model.generate(rendered, max_tokens=12) == "".join(model.chat(messages, template=template, max_tokens=12, stream=True)), "answers")
expect(len(model.tokenize_chat(messages, template=template, switches={"loud": True})) == len(rendered) + 1, "a switch")
expect(model.tokenize_chat(messages, template=template, switches={"loud": False}) == rendered, "a switch that is off")

with inlay.Model(path, backend=inlay.backend("cpu", threads=1), kv_type="int8", context=32, batch=2) as small:
    expect(small.generate(prompts[0], max_tokens=100, ignore_eos=True).end == "context", "the context ends it")
closed = inlay.Model(path)
closed.close()


class Interrupted(Exception):
    pass


def interrupt(done, layers):
    raise Interrupted


def refused(kind, words, function, *given, **named):
    try:
        function(*given, **named)
    except Exception as wrong:
        return expect(type(wrong) is kind and words in str(wrong), "%s in %s: %s" % (words, type(wrong).__name__, wrong))
    sys.exit("FAILED: taken: " + words)


refused(FileNotFoundError, "/no/such/model.gguf", inlay.Model, "/no/such/model.gguf")
refused(ValueError, "kv_type is 'f8'", inlay.Model, path, kv_type="f8")
refused(ValueError, "context is -1", inlay.Model, path, context=-1)
refused(TypeError, "backend is of type int", inlay.Model, path, backend=3)
refused(Interrupted, "", inlay.Model, path, progress=interrupt)
refused(ValueError, "the model is closed", closed.generate, "a")
refused(ValueError, "the model is closed", closed.tokenize, "a")
refused(ValueError, "tokens is 0; it must be in 1..", model.generate, "a", max_tokens=0)
refused(ValueError, "top_p is 2", model.generate, "a", top_p=2.0)
refused(TypeError, "there is no argument 'heat'", model.generate, "a", heat=1.0)
refused(TypeError, "top_k is of type float", model.generate, "a", top_k=1.5)
refused(TypeError, "prompt is of type int", model.generate, 3)
refused(TypeError, "prompts is a str", model.generate_all, "abc")
refused(TypeError, "stop has a int", model.generate, "a", stop=[3])
refused(ValueError, "stops", model.generate, "a", stop="")
refused(ValueError, "a token of the prompt is -5", model.generate, [1, -5])
refused(ValueError, "the prompt", model.generate, [])
refused(ValueError, "top_p is 2", lambda: list(model.generate("a", top_p=2.0, stream=True)))
refused(LookupError, "the model has no chat template", model.chat, messages)
refused(ValueError, "chat_template", model.chat, messages, template="{% for %}")
refused(TypeError, "messages[0] is 'a'", model.chat, ["a"])
refused(TypeError, "messages[0]['content'] is of type int", model.chat, [{"role": "user", "content": 3}])
refused(TypeError, "switches['loud'] is no bool", model.chat, messages, template=template, switches={"loud": 1})

# One call at a time: a second one is refused, and the first goes on.
stream = model.generate(prompts[0], max_tokens=24, stream=True)
begun, go_on = threading.Event(), threading.Event()
held = inlay._core.Model(path, None, None, 0, 0, 0, None)


def hold(i, text, token):
    begun.set()
    go_on.wait()
    return False


thread = threading.Thread(target=held.generate, args=(["a"], 9, {}, [], False, hold))
thread.start()
begun.wait()
refused(ValueError, "model is in another call", held.generate, ["a"], 9, {}, [], False, hold)
go_on.set()
thread.join()
expect("".join(stream) == texts[0], "a stream that is read later")
refused(Interrupted, "", held.generate, ["a"], 9, {}, [], False, lambda *_: interrupt(0, 0))
print("OK")
