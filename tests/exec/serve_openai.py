"""OpenAI's own client against a server that tests/exec/command_line_serve.cpp has started: sys.argv[1] is its address."""

import sys
from concurrent.futures import ThreadPoolExecutor

import openai

client = openai.OpenAI(base_url=sys.argv[1], api_key="none", timeout=120, max_retries=0)
model = client.models.list().data[0].id
assert client.models.retrieve(model).id == model

# Completions: the same text whole, in pieces, alone and beside others.
settings = {"model": model, "max_tokens": 24, "temperature": 0.8, "top_p": 0.9, "seed": 5}
whole = client.completions.create(prompt="Once upon a time", **settings)
assert whole.object == "text_completion" and len(whole.choices) == 1, whole
assert whole.choices[0].finish_reason == "length", whole
assert whole.usage.completion_tokens == 24, whole
assert whole.usage.total_tokens == whole.usage.prompt_tokens + 24, whole

events = list(
    client.completions.create(
        prompt="Once upon a time", stream=True, stream_options={"include_usage": True}, **settings
    )
)
assert "".join(e.choices[0].text for e in events if e.choices) == whole.choices[0].text
assert [e.choices[0].finish_reason for e in events if e.choices and e.choices[0].finish_reason] == ["length"]
assert events[-1].choices == [] and events[-1].usage == whole.usage, events[-1]

with ThreadPoolExecutor(6) as threads:
    for each in threads.map(lambda _: client.completions.create(prompt="Once upon a time", **settings), range(6)):
        assert each.choices[0].text == whole.choices[0].text

several = client.completions.create(prompt=["Tom", "Lily"], n=2, **settings)
assert [c.index for c in several.choices] == [0, 1, 2, 3]

# Chat.
messages = [
    {"role": "system", "content": "Tell a story."},
    {"role": "user", "content": [{"type": "text", "text": "Once upon"}, {"type": "text", "text": " a time"}]},
]
chat = {"model": model, "messages": messages, "max_completion_tokens": 16, "temperature": 0, "user": "somebody"}
answer = client.chat.completions.create(**chat)
assert answer.choices[0].message.role == "assistant" and answer.choices[0].message.content, answer
with client.chat.completions.create(stream=True, **chat) as stream:
    deltas = [chunk.choices[0].delta for chunk in stream]
assert deltas[0].role == "assistant"
assert "".join(delta.content or "" for delta in deltas) == answer.choices[0].message.content

stopped = client.chat.completions.create(stop=["a", "e"], **chat)
assert stopped.choices[0].finish_reason == "stop", stopped
assert not set("ae") & set(stopped.choices[0].message.content), stopped


# Errors are of the classes that a program catches.
def refused(kind, param, code=None, **changes):
    try:
        client.chat.completions.create(**{**chat, **changes})
    except kind as error:
        assert error.param == param and error.code == code, (error.param, error.code)
        assert error.type == "invalid_request_error", error.type
        return
    raise AssertionError(f"{changes} was not refused")


refused(openai.BadRequestError, "temperature", temperature=3)
refused(openai.BadRequestError, "tools", tools=[{"type": "function", "function": {"name": "f"}}])
refused(openai.BadRequestError, "messages", "context_length_exceeded", messages=[{"role": "user", "content": "a " * 2000}])
refused(openai.NotFoundError, "model", "model_not_found", model="another")
print("all is well")
