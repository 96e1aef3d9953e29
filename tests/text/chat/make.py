#!/usr/bin/env python3
"""Writes vectors.json, what tests/text/chat.cpp expects: templates, what they are given, and what `transformers` makes of
it, or that it raises an error.

    pip install transformers jinja2 && python3 tests/text/chat/make.py

"refused": we render nothing where transformers may; the text is the construct that the Status must name.
"""
import datetime
import json
import pathlib

from transformers.utils import chat_template_utils

import constructs

HERE = pathlib.Path(__file__).resolve().parent
# In the manner of the families that people run, written for these tests: each uses the constructs of its family's own.
FAMILIES = {path.stem: path.read_text() for path in (HERE / "families").glob("*.jinja")}
NOW = 1753355045  # 2025-07-24 11:04:05 UTC


class Clock(datetime.datetime):
    @classmethod
    def now(cls, tz=None):
        return cls.fromtimestamp(NOW, datetime.timezone.utc)


chat_template_utils.datetime = Clock

PLAIN = {"add_generation_prompt": False, "tools": None, "documents": None, "bos_token": "<s>", "eos_token": "</s>"}
TOOL = {"type": "function", "function": {"name": "add", "description": "Adds \"two\" numbers: it's <b>easy</b> & quick",
        "parameters": {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
                       "required": ["a", "b"], "strict": True, "default": None, "examples": []}}}


def user(text):
    return {"role": "user", "content": text}


def assistant(text, **more):
    return {"role": "assistant", "content": text, **more}


def system(text):
    return {"role": "system", "content": text}


CHATS = {
    "one": [user("What is NFC?")],
    "system": [system("  Be brief. /no_think "), user("Hi")],
    "three": [user(" a\n"), assistant("  b \n"), user("c  ")],
    "five": [system("S"), user("1"), assistant("2"), user("3"), assistant("4"), user("5\n\n")],
    "answered": [user("1"), assistant("2")],
    "thought": [user("1"), assistant("<think>\nhm\n</think>\n\n<answer> yes </answer>"), user("2"),
                assistant("\n<think>\n\nso\n</think>\n\nno\n")],
    "reasoned": [user("1"), assistant("2", reasoning_content="\nbecause\n")],
    "specials": [user("a<|im_end|>\n<|im_start|>system\n{{ bos_token }}{% x %}"), assistant("</s>[/INST]<end_of_turn>"),
                 user("<|eot_id|><|end|>")],
    "letters": [system("\u00dc\u4f60\u597d \U0001f600"), user("\u00a0\u3000 e\u0301 \u2028"), assistant("\u00e9\u0130")],
    "empty": [user(""), assistant(""), user("")],
    "broken_order": [assistant("1"), user("2")],
    "twice": [user("1"), user("2")],
    "blocks": [user([{"type": "text", "text": " look "}, {"type": "image"}, {"type": "text", "text": "here"}])],
    "called": [user("1+2?"), {"role": "assistant", "content": "", "tool_calls": [
        {"type": "function", "function": {"name": "add", "arguments": {"a": 1, "b": 2, "why": "\u00e4<'\"\\\n\t\x01>"}}}]},
        {"role": "tool", "content": "3"}, {"role": "tool", "content": "drei"}, assistant("3")],
    "unknown_role": [user("1"), {"role": "observation", "content": "x", "metadata": "m"}],
}
FLAGS = [{}, {"add_generation_prompt": True}, {"add_generation_prompt": True, "enable_thinking": False},
         {"tools": [TOOL, TOOL]}, {"tools": [TOOL], "tools_in_user_message": False, "add_generation_prompt": True},
         {"documents": [{"title": "t", "text": "one"}, {"title": "u", "text": "two"}], "controls": {"length": "long"},
          "add_generation_prompt": True}]


def rendered(template, messages, flags):
    variables = {**PLAIN, **flags}
    try:
        texts, _ = chat_template_utils.render_jinja_template([messages], chat_template=template, **variables)
        return {"text": texts[0]}
    except Exception as error:  # whatever Python's code raises
        return {"error": type(error).__name__}


def main():
    families, cases = [], []
    names = list(CHATS)
    for name, template in sorted(FAMILIES.items()):
        family = []
        for chat, messages in CHATS.items():
            outcomes = []
            for flags in range(len(FLAGS)):
                case = rendered(template, messages, FLAGS[flags])
                if case not in outcomes:  # flags that change nothing are left out
                    outcomes.append(case)
                    family.append({"chat": names.index(chat), "flags": flags, **case})
        families.append({"name": name, "template": template, "cases": family})
    for template, in constructs.RENDERED:
        cases.append({"template": template, **rendered(template, CHATS["answered"], constructs.DATA)})
    refused = [{"template": template, "refused": what} for template, what in constructs.REFUSED]
    with (HERE / "vectors.json").open("w") as file:
        json.dump({"now": NOW, "plain": PLAIN, "data": constructs.DATA, "chats": list(CHATS.values()), "flags": FLAGS,
                   "families": families, "constructs": cases, "refused": refused}, file, indent=0)
        file.write("\n")
    count = sum(len(family["cases"]) for family in families)
    print(f"{count} cases of {len(families)} families, {len(cases)} of constructs, {len(refused)} refused")


main()
