#!/usr/bin/env python3
"""Writes cases.json beside it: what Hugging Face's `tokenizers` makes of difficult texts.

    pip install tokenizers==0.23.3 && python3 tests/model/tokenizers/make.py

The rules of each family (normalizer, pre-tokenizer, post-processor) are built here in code, as the family's own
tokenizer.json states them. The vocabulary is ours: it is learned from the texts below as one word each, so that
merges reach over every place where a pre-tokenizer might cut, and a cut in the wrong place changes the ids.
"""
import json
import pathlib

import tokenizers
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

TEXTS = [
    "", " ", "  ", "\n", "\t", "a", "Hello, world!", "  leading and trailing  ",
    "It's 2024 and WE'LL see 1234567; I'M, YOU'RE, they'Ve, he'd, o'clock's 'tis ''s",
    "don't DON'T Don\u2019t l'\u00e9t\u00e9 it'\u017f 'S'T'RE'VE'M'LL'D's't're've'm'll'd",
    "tabs\tand\r\nlines\n\n\n  indented\n\n  \n x\r\r\n\t\n", "a \n b  \n\nc   \r\n   d\n ", "x = 1;\n\n\treturn x;\n}\n",
    "int main() { return a[i] += ++b; }  // ===\n/* path/to/file */ http://a.b/c?d=e\n//\n/\n",
    "1 12 123 1234 12345 3.14159 1,000,000 0x1F 10\u00b2 \u00bd \u2167 \u0663\u0664\u0665 \u0967\u0968\u0969 \u00b9\u00b2\u00b3 1a2b3c",
    "helloWorld HTMLParser iPhone McDonald UPPERlower XMLHttpRequest aB Ab AB ab \u01c5abc \u01c5ABC \u02b0x",
    "\u0416\u0443\u0440\u043d\u0430\u043b\u041c\u043e\u0441\u043a\u0432\u0430 \u041f\u0440\u0438\u0432\u0435\u0442, \u043c\u0438\u0440! \u0393\u03b5\u03b9\u03ac \u03c3\u03bf\u03c5 \u039a\u03cc\u03c3\u03bc\u03b5\u03a3",
    "\u4f60\u597d\uff0c\u4e16\u754c\u3002\u65e5\u672c\u8a9e\u306e\u30c6\u30ad\u30b9\u30c8\uff01 \ud55c\uad6d\uc5b4 \ubb38\uc7a5\uc785\ub2c8\ub2e4. \u4e2d\u6587abc\u4e2d\u6587123",
    "caf\u00e9 cafe\u0301 na\u00efve nai\u0308ve A\u030angstro\u0308m \u212b \u2126 \u212a e\u0301\u0302 q\u0307\u0323 \u1e69 s\u0323\u0307",
    "\u1112\u1161\u11ab\u1100\u116e\u11a8 \ud55c\uad6d \u0344 \u0958 \u0915\u093c \u09c7\u09be \ufb1d \u05d9\u05b4 \uf900 \uf90a \u2f800",
    "\u0939\u093f\u0928\u094d\u0926\u0940 \u0e20\u0e32\u0e29\u0e32\u0e44\u0e17\u0e22 \u0627\u0644\u0639\u064e\u0631\u064e\u0628\u0650\u064a\u0651\u0629 \u05e2\u05b4\u05d1\u05b0\u05e8\u05b4\u05d9\u05ea",
    "\u0301start x\u0301\u0302\u0303 \u0301 1\u0301 .\u0301 \n\u0301 \u20e3 1\ufe0f\u20e3 a\u200db \u200d",
    "\U0001f999\U0001f468\u200d\U0001f469\u200d\U0001f467\u200d\U0001f466 \U0001f1e9\U0001f1ea\U0001f44d\U0001f3fd!\u2764\ufe0f \u2603\n\U0001d400\U0001d7d8",
    "a\u00a0b \u00a0 c\u1680d\u2003e\u2028f\u2029g\u202fh\u205fi\u3000j \u3000k\u3000\u3000l",
    "a\u0085b \u0085 \u180e c\u180ed\u200be\u2060f\ufeffg \u000b\u000c\u001c\u001f\u0000x",
    "!!! ... ??? --- *** ### $$$ <<< >>> === ~~~ ^^^ |||  ... !\n\n ?\n  .\r\n",
    " \u2014 \u201cquoted\u201d \u2018it\u2019s\u2019 \u2026 \u20ac5 \u00a39 \u00a5 5% #1 @me a_b __init__ a-b/c\\d",
    "aaaaaaaaaaaaaaaaaaaa                    \n\n\n\n\n\n\n\n\t\t\t\t\t", "x" + " " * 9 + "y" + " " * 9,
    "<|bos|>a<|eot|> b<think>c</think>\n<tool>d\u00e9<tool>", "<think><think> <|bos|", "<|bos|><too\u006c> de\u0301<t\u0301ool>",
]

GPT4 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}%s| ?[^\s\p{L}\p{N}]+[\r\n]*"
        r"|\s*[\r\n]+|\s+(?!\S)|\s+")
TEKKEN = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+"
          r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*"
          r"|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")
O200K = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
         r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
         r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")
QWEN35 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*"
          r"|\s*[\r\n]+|\s+(?!\S)|\s+")
LING = (r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+")
DEEPSEEK_V3 = ["\\p{N}{1,3}", "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+",
               "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+"
               "| ?[\\p{P}\\p{S}]+[\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+"]
DEEPSEEK_CODER = ["[\r\n]", "\\s?\\p{L}+", "\\s?\\p{P}+", "[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+"]

DEEPSEEK_LLM = ["[\r\n]", "\\s?[" + "".join("""
A-Za-z\u00b5\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u01ba\u01bc-\u01bf\u01c4-\u0293\u0295-\u02af\u0370-\u0373\u0376
\u0377\u037b-\u037d\u037f\u0386\u0388-\u038a\u038c\u038e-\u03a1\u03a3-\u03f5\u03f7-\u0481\u048a-\u052f\u0531-
\u0556\u10a0-\u10c5\u13a0-\u13f5\u13f8-\u13fd\u1c90-\u1cba\u1cbd-\u1cbf\u1d00-\u1d2b\u1d6b-\u1d77\u1d79-\u1d9a
\u1e00-\u1f15\u1f18-\u1f1d\u1f20-\u1f45\u1f48-\u1f4d\u1f50-\u1f57\u1f59\u1f5b\u1f5d\u1f5f-\u1f7d\u1f80-\u1fb4
\u1fb6-\u1fbc\u1fbe\u1fc2-\u1fc4\u1fc6-\u1fcc\u1fd0-\u1fd3\u1fd6-\u1fdb\u1fe0-\u1fec\u1ff2-\u1ff4\u1ff6-\u1ffc
\u2102\u2107\u210a-\u2113\u2115\u2119-\u211d\u2124\u2126\u2128\u212a-\u212d\u212f-\u2134\u2139\u213c-\u213f
\u2145-\u2149\u214e\u2183\u2184\u2c00-\u2c7b\u2c7e-\u2ce4\u2ceb-\u2cee\u2cf2\u2cf3\ua640-\ua66d\ua680-\ua69b
\ua722-\ua76f\ua771-\ua787\ua78b-\ua78e\uab70-\uabbf\ufb00-\ufb06\ufb13-\ufb17\uff21-\uff3a\uff41-\uff5a
\U00010400-\U0001044f\U000104b0-\U000104d3\U000104d8-\U000104fb\U00010c80-\U00010cb2\U00010cc0-\U00010cf2
\U000118a0-\U000118df\U0001e900-\U0001e943
""".split()) + "]+", "\\s?[!-/:-~\uff01-\uff0f\uff1a-\uff5e\u2018-\u201f\u3000-\u3002]+",
                "\\s+$", "[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+"]
LOWER, UPPER = r"[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]", r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]"
KIMI_K2 = (r"[\p{Han}]+"
           r"|[^\r\n\p{L}\p{N}]?" + UPPER + "*" + LOWER + r"+(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
           r"|[^\r\n\p{L}\p{N}]?" + UPPER + "+" + LOWER + r"*(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
           r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")


def byte_level(use_regex):
    return pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=use_regex)


def split(*expressions, then=()):
    steps = [pre_tokenizers.Split(Regex(regex), "isolated") for regex in expressions]
    return pre_tokenizers.Sequence([*steps, *then, byte_level(False)])


# Name in GGUF: what differs from GPT-2.
FAMILIES = {
    "gpt-2": {"words": byte_level(True)},
    "smollm": {"words": pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), byte_level(True)])},
    "llama-bpe": {"words": split(GPT4 % "{1,3}"), "ignore_merges": True, "bos": True},
    "smaug-bpe": {"words": split(GPT4 % "{1,3}"), "bos": True},
    "qwen2": {"words": split(GPT4 % ""), "nfc": True},
    "deepseek-r1-qwen": {"words": split(GPT4 % ""), "nfc": True, "bos": True},
    "tekken": {"words": split(TEKKEN), "ignore_merges": True, "bos": True},
    "gpt-4o": {"words": split(O200K)},
    "qwen35": {"words": split(QWEN35), "nfc": True},
    "bailingmoe": {"words": split(LING)},
    "deepseek-v3": {"words": split(*DEEPSEEK_V3)},
    "deepseek-coder": {"words": split(*DEEPSEEK_CODER, then=[pre_tokenizers.Digits(individual_digits=True)])},
    "deepseek-llm": {"words": split(*DEEPSEEK_LLM, then=[pre_tokenizers.Digits(individual_digits=True)])},
    "kimi-k2": {"words": split(KIMI_K2), "ignore_merges": True},
}


def learn():
    learner = Tokenizer(models.BPE())
    learner.pre_tokenizer = byte_level(False)
    plain = [text for text in TEXTS if "<|" not in text]  # letters must not merge into a special token
    rare = [text for text in plain if "\u00a0" in text or "\u0085" in text]  # twice: pairs that occur once are not learned
    learner.train_from_iterator(
        plain + rare, trainers.BpeTrainer(vocab_size=256 + 500, min_frequency=2, show_progress=False,
                                   initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    model = json.loads(learner.to_str())["model"]
    # Tokens to which no merge leads: only a model that ignores merges takes them.
    for word in ["\u0120world", "Hello", "123", "helloWorld"]:
        model["vocab"].setdefault(word, len(model["vocab"]))
    return model["vocab"], [tuple(merge) for merge in model["merges"]]


def build(vocab, merges, words, nfc=False, ignore_merges=False, bos=False):
    t = Tokenizer(models.BPE(vocab, merges, ignore_merges=ignore_merges))
    if nfc:
        t.normalizer = normalizers.NFC()
    t.pre_tokenizer = words
    t.decoder = decoders.ByteLevel()
    t.add_special_tokens(["<|bos|>", "<|eot|>"])
    t.add_tokens([AddedToken("<think>", normalized=False), AddedToken("</think>", normalized=False),
                  AddedToken("<tool>", normalized=True)])
    byte_offsets = processors.ByteLevel(trim_offsets=False)
    t.post_processor = byte_offsets if not bos else processors.Sequence([byte_offsets, processors.TemplateProcessing(
        single="<|bos|> $A", pair="<|bos|> $A <|bos|> $B", special_tokens=[("<|bos|>", t.token_to_id("<|bos|>"))])])
    return t


def main():
    vocab, merges = learn()
    families = {name: build(vocab, merges, **rules) for name, rules in FAMILIES.items()}
    out = {"made by": f"make.py with tokenizers {tokenizers.__version__}", "texts": TEXTS, "families": {}}
    for name, t in families.items():
        state = json.loads(t.to_str())
        model = state["model"]
        out.setdefault("vocab", model.pop("vocab"))
        out.setdefault("merges", [" ".join(merge) for merge in model.pop("merges")])
        model.pop("vocab", None), model.pop("merges", None)
        out["families"][name] = {"tokenizer": state, "ids": [t.encode(text).ids for text in TEXTS]}
    path = pathlib.Path(__file__).with_name("cases.json")
    path.write_text(json.dumps(out, separators=(",", ":")).replace('"families"', '\n"families"')
                    .replace('},"ids"', '},\n"ids"').replace(']},"', ']},\n"') + "\n")


if __name__ == "__main__":
    main()
