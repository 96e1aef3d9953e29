"""Trains the story model and writes it, or measures and samples the written one.

    python3 train.py                  trains and writes stories.gguf
    python3 train.py --resume FILE    trains on from a --checkpoint FILE, or from stories.gguf
    python3 train.py --evaluate       the loss of stories.gguf on held_back.txt
    python3 train.py --greedy "text"  what stories.gguf says after the text

Every story is used once: the stream of seeds is longer than the training, so the loss
that is printed on the way is already one on stories not seen before.

What is hard to learn here is that the one who was called Greta is Greta in every later
line: it takes a pair of attention heads that find a word's first use, and until they are
there nothing rewards one half of them. Plain training did not find them in 1800 steps.
So rows of exchanges (stories.py), where a name comes back every few words, are most of
the training until their names are learned, and a few of it afterwards; and a word of the
cast weighs more in the loss where it comes back.
"""

import argparse
import io
import math
import time
from pathlib import Path

import sentencepiece
import torch
import torch.nn.functional as F

import gguf_file
import stories
import words
from model import Decoder, Shape, greedy
from muon import Muon

HERE = Path(__file__).resolve().parent
FILE = HERE / "stories.gguf"
HELD_BACK = HERE / "held_back.txt"

STEPS = 1800
BATCH_TOKENS = 2048
PEAK_RATE = 1.5e-3
# AdamW's rate, for the embedding and the norms, beside Muon's.
ADAM_SHARE = 0.6
WARM_UP = 20
# A row of 256 holds a story and costs less; every fifth batch sees the full context.
EXCHANGE_ROW, SHORT_ROW, LONG_EVERY = 128, 256, 5
# Of so many batches, all but one are exchanges before their words are learned; one is afterwards.
BEFORE, AFTER = 4, 8
LEARNED = 0.15  # nats for each word of the cast that comes back, over
RECENT = 20     # so many batches of exchanges
CAST_WEIGHT = 4
TOKENIZER_STORIES = 10_000
# Where a resumed training takes its stories from, and every training its exchanges: far beyond
# those of the first one.
RESUMED_SEED, EXCHANGE_SEED = 100_000_000, 500_000_000
UNKNOWN, BOS, EOS = 0, 1, 2


def train_tokenizer(shape):
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=(stories.story(seed) for seed in range(TOKENIZER_STORIES)),
        model_writer=model, model_type="bpe", vocab_size=shape.vocab, byte_fallback=True,
        character_coverage=1.0, unk_id=UNKNOWN, bos_id=BOS, eos_id=EOS, pad_id=-1,
        # Text goes in as it is: GGUF readers do not apply sentencepiece's normaliser.
        normalization_rule_name="identity", remove_extra_whitespaces=False,
        add_dummy_prefix=True, minloglevel=1)
    return sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())


class Rows:
    """Token rows that each begin with a text of `tell`; the last text of a row may be cut."""

    def __init__(self, encode, tell, first_seed):
        self.encode, self.tell, self.seed = encode, tell, first_seed

    def row(self, length):
        tokens = []
        # One token more than the model reads: the row is its input and its answer.
        while len(tokens) < length + 1:
            tokens.append(BOS)
            tokens.extend(self.encode(self.tell(self.seed)))
            tokens.append(EOS)
            self.seed += 1
        return tokens[:length + 1]

    def batch(self, length):
        return torch.tensor([self.row(length) for _ in range(BATCH_TOKENS // length)])


def cast(encode):
    """The pieces of everybody's name and kind, and of the treasures."""
    named = [name for names in (words.HERO_NAMES, words.FRIEND_NAMES) for group in names.values()
             for name in group]
    kinds = [kind for kind, _, _ in words.HERO_KINDS] + words.FRIEND_KINDS
    treasures = [noun for noun, _, _, _ in words.OBJECTS]
    article = encode("a")
    return {piece for word in named + kinds + treasures
            for piece in encode("a " + word)[len(article):]}


def weights(targets, members):
    """CAST_WEIGHT where a piece of the cast comes back in its story, 0 for BOS, else 1."""
    result = torch.ones(targets.shape)
    for row, pieces in enumerate(targets.tolist()):
        seen = set()
        for i, piece in enumerate(pieces):
            if piece == BOS:
                # Nothing precedes a BOS that could announce it, and no runtime asks for one.
                seen.clear()
                result[row, i] = 0
            elif piece in seen:
                result[row, i] = CAST_WEIGHT
            elif piece in members:
                seen.add(piece)
    return result


def rate(step, steps):
    """Linear warm-up, then linearly down to a hundredth of the peak."""
    return PEAK_RATE * min(1, (step + 1) / WARM_UP) * (1.01 - step / steps)


def make_optimizers(model):
    matrices = [weight for name, weight in model.named_parameters()
                if weight.dim() == 2 and name != "token_embd.weight"]
    vectors = [weight for weight in model.parameters() if weight.dim() == 1]
    groups = [{"params": [model.token_embd.weight], "weight_decay": 0.1},
              {"params": vectors, "weight_decay": 0.0}]
    return Muon(matrices), torch.optim.AdamW(groups, betas=(0.9, 0.95))


def losses(model, batch, members):
    """What is trained on, the plain mean, and the mean over the cast that comes back."""
    logits, targets = model(batch[:, :-1]), batch[:, 1:]
    weight = weights(targets, members).flatten()
    nats = F.cross_entropy(logits.flatten(0, 1), targets.flatten(), reduction="none")
    back = weight == CAST_WEIGHT
    return ((nats * weight).sum() / weight.sum(), nats[weight > 0].mean().item(),
            nats[back].mean().item())


def start(resume):
    shape = Shape()
    model = Decoder(shape)
    if resume and Path(resume).suffix == ".gguf":
        model, _ = gguf_file.read(resume)
    elif resume:
        model.load_state_dict(torch.load(resume))
    return model, train_tokenizer(shape)


def train(steps, checkpoint, resume):
    torch.manual_seed(0)
    model, pieces = start(resume)
    print("parameters:", sum(weight.numel() for weight in model.parameters()), flush=True)
    members = cast(pieces.encode)
    muon, adam = make_optimizers(model)
    rows = Rows(pieces.encode, stories.story, RESUMED_SEED if resume else 0)
    exchanges = Rows(pieces.encode, stories.exchange, EXCHANGE_SEED)
    begin, recent, names, learned = time.time(), [], [], False
    for step in range(steps):
        for optimizer, share in ((muon, 1), (adam, ADAM_SHARE)):
            for group in optimizer.param_groups:
                group["lr"] = share * rate(step, steps)
        exchange = step % AFTER == AFTER - 1 if learned else step % BEFORE != BEFORE - 1
        if exchange:
            batch = exchanges.batch(EXCHANGE_ROW)
        else:
            batch = rows.batch(model.shape.context if step % LONG_EVERY == 0 else SHORT_ROW)
        loss, plain, back = losses(model, batch, members)
        for optimizer in (muon, adam):
            optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for optimizer in (muon, adam):
            optimizer.step()
        if exchange:
            names = names[-RECENT + 1:] + [back]
            learned = learned or (len(names) == RECENT and sum(names) / RECENT < LEARNED)
        else:
            recent.append(plain)
        if (step + 1) % 50 == 0 or step + 1 == steps:
            print(f"step {step + 1}  stories {sum(recent) / max(1, len(recent)):.4f}  "
                  f"names {sum(names) / max(1, len(names)):.3f}  next seed {rows.seed}  "
                  f"{time.time() - begin:.0f} s", flush=True)
            recent = []
            if checkpoint:
                torch.save(model.state_dict(), checkpoint)
    return model, pieces


def held_back_documents():
    return [text.strip() for text in HELD_BACK.read_text().split(stories.SEPARATOR)]


@torch.no_grad()
def evaluate(model, tokenizer):
    """The mean over the predicted tokens of every document, each read from its BOS."""
    nats, tokens, size = 0.0, 0, 0
    for text in held_back_documents():
        row = ([tokenizer.bos] + tokenizer.encode(text))[:model.shape.context]
        logits = model(torch.tensor([row[:-1]]))[0]
        nats += F.cross_entropy(logits.double(), torch.tensor(row[1:]), reduction="sum").item()
        tokens += len(row) - 1
        size += len(tokenizer.decode(row[1:]).encode())
    print(f"{tokens} tokens, {size} bytes, {nats / tokens:.6f} nats per token, "
          f"{nats / math.log(2) / size:.6f} bits per byte")


def write_everything(model, pieces):
    gguf_file.write(FILE, model, pieces)
    seeds = range(stories.HELD_BACK_SEED, stories.HELD_BACK_SEED + 40)
    told = [stories.tell(seed) for seed in seeds]
    HELD_BACK.write_text(f"\n{stories.SEPARATOR}\n".join(text for text, _ in told) + "\n")

    model, tokenizer = gguf_file.read(FILE)
    for text, _ in told:
        assert tokenizer.encode(text) == pieces.encode(text), "the two tokenizers disagree"
    first = greedy(model, [tokenizer.bos], 128, tokenizer.eos)
    (HERE / "greedy_bos.txt").write_text(tokenizer.decode(first) + "\n")
    evaluate(model, tokenizer)
    tokens = sum(len(pieces.encode(text)) for text, _ in told)
    # The grammar rolls these dice; no model can expect to guess them.
    print(f"the grammar's own choices: {sum(nats for _, nats in told) / tokens:.6f} nats per token")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument("--checkpoint", help="where to keep the float32 weights while training")
    parser.add_argument("--resume", metavar="FILE", help="such a file or a GGUF, to go on from")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--evaluate", action="store_true")
    parser.add_argument("--greedy", metavar="PROMPT", help="may be empty")
    parser.add_argument("--count", type=int, default=400, help="tokens for --greedy")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)

    if arguments.evaluate:
        evaluate(*gguf_file.read(FILE))
    elif arguments.greedy is not None:
        model, tokenizer = gguf_file.read(FILE)
        prompt = tokenizer.encode(arguments.greedy) if arguments.greedy else []
        told = greedy(model, [tokenizer.bos] + prompt, arguments.count, tokenizer.eos)
        print(tokenizer.decode(prompt + told))
    else:
        write_everything(*train(arguments.steps, arguments.checkpoint, arguments.resume))


if __name__ == "__main__":
    main()
