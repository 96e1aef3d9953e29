"""Models: texts of prompts and chats, whole or as they are written."""
from __future__ import annotations

import codecs
import importlib.util
import os
import queue
import sys
import threading
from typing import Any, Callable, Iterator, Literal, Mapping, Sequence, Union, overload

from . import _core
from ._backend import resolve

Prompt = Union[str, Sequence[int]]
ENDS = {1: "tokens", 2: "stop", 3: "context", 4: "caller", 5: "failed"}


class Text(str):
    """A text that a model wrote. `end` says why it ended: "tokens" (it has as many as were asked for), "stop" (at a token that
    ends texts, or a stop string), "context" (no more would fit) or "caller"."""

    tokens: list[int]
    end: str


class Writing:
    """What has been written for one prompt."""

    def __init__(self) -> None:
        self.tokens: list[int] = []
        self.pieces: list[str] = []
        self.decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")

    def push(self, text: bytes, token: int) -> str:
        if token >= 0:
            self.tokens.append(token)
        self.pieces.append(self.decoder.decode(text))
        return self.pieces[-1]

    def finish(self, end: int) -> Text:
        text = Text("".join(self.pieces) + self.decoder.decode(b"", final=True))
        text.tokens, text.end = self.tokens, ENDS[end]
        return text


class Progress:
    """tqdm's bar over the layers of a model that is being loaded, where tqdm is installed and somebody looks."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.bar: Any = None

    def __call__(self, done: int, layers: int) -> None:
        if self.bar is None:
            self.bar = importlib.import_module("tqdm.auto").tqdm(total=layers, desc=os.path.basename(self.path), unit="layer", leave=False)
        self.bar.update(done - self.bar.n)
        if done == layers:
            self.bar.close()


def choose_progress(path: str, progress: Union[bool, Callable[[int, int], object], None]) -> Union[Callable[[int, int], object], None]:
    if progress is not None and not isinstance(progress, bool):
        return progress
    if progress is None:
        progress = importlib.util.find_spec("tqdm") is not None and sys.stderr is not None and sys.stderr.isatty()
    return Progress(path) if progress else None


class Model:
    """A GGUF file, or a directory with safetensors.

    backend       an inlay.Backend or its name; None: the CPU
    kv_type       of the cache: "f32", "f16", "bf16" or "int8"; None: f32 for a model of f32, else f16
    context       tokens of a text at most; 0: the model's
    cache_tokens  of all texts at once; 0: four contexts
    batch         texts that are written at once; 0: 32
    progress      called with (layers done, layers) as it loads; None: tqdm's bar where it is installed and stderr is a terminal

    Raises FileNotFoundError; ValueError for a file that is none, or options outside their range. One call at a time: a second
    one is refused."""

    def __init__(self, path: Union[str, "os.PathLike[str]"], *, backend: Union[_core.Backend, str, None] = None,
                 kv_type: Union[Literal["f32", "f16", "bf16", "int8"], None] = None, context: int = 0, cache_tokens: int = 0,
                 batch: int = 0, progress: Union[bool, Callable[[int, int], object], None] = None) -> None:
        name = os.fspath(path)
        self._model = _core.Model(name, None if backend is None else resolve(backend), kv_type, context, cache_tokens, batch,
                                  choose_progress(name, progress))

    def close(self) -> None:
        """Gives its memory back; what follows is refused."""
        self._model.close()

    def __enter__(self) -> "Model":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def tokenize(self, text: str) -> list[int]:
        return self._model.tokenize(text)

    def tokenize_chat(self, messages: Sequence[Mapping[str, str]], *, template: Union[str, None] = None,
                      switches: Union[Mapping[str, bool], None] = None) -> list[int]:
        """A chat up to where the answer begins. `template`: Jinja in place of the model's own; `switches`: what it asks for."""
        pairs = []
        for i, message in enumerate(messages):
            if not isinstance(message, Mapping) or set(message) != {"role", "content"}:
                raise TypeError("messages[%d] is %r; it must be {\"role\": .., \"content\": ..}" % (i, message))
            for key in ("role", "content"):
                if not isinstance(message[key], str):
                    raise TypeError("messages[%d][%r] is of type %s; it must be a str" % (i, key, type(message[key]).__name__))
            pairs.append((message["role"], message["content"]))
        try:
            return self._model.tokenize_chat(pairs, dict(switches or {}), template)
        except FileNotFoundError as missing:
            raise LookupError(str(missing).replace("chat_template", "template")) from None

    @overload
    def generate(self, prompt: Prompt, *, stream: Literal[True], max_tokens: int = ..., temperature: float = ...,
                 stop: Union[str, Sequence[str]] = ..., ignore_eos: bool = ..., **sampling: Union[float, bool]) -> Iterator[str]: ...
    @overload
    def generate(self, prompt: Prompt, *, stream: Literal[False] = ..., max_tokens: int = ..., temperature: float = ...,
                 stop: Union[str, Sequence[str]] = ..., ignore_eos: bool = ..., **sampling: Union[float, bool]) -> Text: ...

    def generate(self, prompt: Prompt, *, stream: bool = False, max_tokens: int = 256, temperature: float = 0.0,
                 stop: Union[str, Sequence[str]] = (), ignore_eos: bool = False, **sampling: Union[float, bool]) -> Union[Text, Iterator[str]]:
        """The text that follows a prompt, which is words or tokens; with `stream` its pieces as they are written.

        temperature  0: the likeliest token
        stop         where one of these stands in the text, it ends before it
        sampling     top_k, top_p, min_p, seed, repetition_penalty and the other scalars of inlay.sampling"""
        given = {"temperature": temperature, **sampling}
        if stream:
            return self._stream(prompt, max_tokens, given, read_stops(stop), ignore_eos)
        return self._write([prompt], max_tokens, given, read_stops(stop), ignore_eos)[0]

    def generate_all(self, prompts: Sequence[Prompt], *, max_tokens: int = 256, temperature: float = 0.0,
                     stop: Union[str, Sequence[str]] = (), ignore_eos: bool = False, **sampling: Union[float, bool]) -> list[Text]:
        """Texts of several prompts, written together: each is the one that its prompt has alone."""
        if isinstance(prompts, str):
            raise TypeError("prompts is a str; it must be a list of prompts")
        return self._write(list(prompts), max_tokens, {"temperature": temperature, **sampling}, read_stops(stop), ignore_eos)

    @overload
    def chat(self, messages: Sequence[Mapping[str, str]], *, stream: Literal[True], template: Union[str, None] = ...,
             switches: Union[Mapping[str, bool], None] = ..., max_tokens: int = ..., temperature: float = ...,
             stop: Union[str, Sequence[str]] = ..., **sampling: Union[float, bool]) -> Iterator[str]: ...
    @overload
    def chat(self, messages: Sequence[Mapping[str, str]], *, stream: Literal[False] = ..., template: Union[str, None] = ...,
             switches: Union[Mapping[str, bool], None] = ..., max_tokens: int = ..., temperature: float = ...,
             stop: Union[str, Sequence[str]] = ..., **sampling: Union[float, bool]) -> Text: ...

    def chat(self, messages: Sequence[Mapping[str, str]], *, stream: bool = False, template: Union[str, None] = None,
             switches: Union[Mapping[str, bool], None] = None, max_tokens: int = 256, temperature: float = 0.0,
             stop: Union[str, Sequence[str]] = (), **sampling: Union[float, bool]) -> Union[Text, Iterator[str]]:
        """The answer to messages {"role": .., "content": ..}, through the model's chat template, or `template`. The rest as
        generate(). LookupError: the model has no template."""
        tokens = self.tokenize_chat(messages, template=template, switches=switches)
        given = {"temperature": temperature, **sampling}
        if stream:
            return self._stream(tokens, max_tokens, given, read_stops(stop), False)
        return self._write([tokens], max_tokens, given, read_stops(stop), False)[0]

    def _write(self, prompts: Sequence[Prompt], max_tokens: int, sampling: dict[str, Any], stops: list[str],
               ignore_eos: bool) -> list[Text]:
        writings = [Writing() for _ in prompts]

        def on_text(i: int, text: bytes, token: int) -> bool:
            writings[i].push(text, token)
            return True

        ends = self._model.generate([read_prompt(prompt) for prompt in prompts], max_tokens, sampling, stops, ignore_eos, on_text)
        return [writing.finish(end) for writing, end in zip(writings, ends)]

    def _stream(self, prompt: Prompt, max_tokens: int, sampling: dict[str, Any], stops: list[str], ignore_eos: bool) -> Iterator[str]:
        """The text is written by a thread of its own; it ends where nobody asks for more."""
        pieces: queue.SimpleQueue[Union[str, BaseException, None]] = queue.SimpleQueue()
        writing, wanted, given = Writing(), threading.Event(), read_prompt(prompt)
        wanted.set()

        def on_text(_: int, text: bytes, token: int) -> bool:
            if piece := writing.push(text, token):
                pieces.put(piece)
            return wanted.is_set()

        def write() -> None:
            try:
                self._model.generate([given], max_tokens, sampling, stops, ignore_eos, on_text)
                pieces.put(None)
            except BaseException as failed:
                pieces.put(failed)

        def read() -> Iterator[str]:
            thread = threading.Thread(target=write, name="inlay", daemon=True)
            thread.start()
            try:
                while (piece := pieces.get()) is not None:
                    if isinstance(piece, BaseException):
                        raise piece
                    yield piece
            finally:
                wanted.clear()
                thread.join()

        return read()


def read_prompt(prompt: Prompt) -> Union[str, list[int]]:
    if isinstance(prompt, str):
        return prompt
    if isinstance(prompt, (bytes, Mapping)) or not hasattr(prompt, "__iter__"):
        raise TypeError("prompt is of type %s; it must be a str or a list of tokens" % type(prompt).__name__)
    return [int(token) for token in prompt]


def read_stops(stop: Union[str, Sequence[str]]) -> list[str]:
    stops = [stop] if isinstance(stop, str) else list(stop)
    for each in stops:
        if not isinstance(each, str):
            raise TypeError("stop has a %s; it must be a str, or a list of them" % type(each).__name__)
    return stops
