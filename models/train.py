"""Trains the story model and writes it, or measures and samples the written one.

    python3 train.py                  trains and writes stories.gguf
    python3 train.py --resume FILE    trains on from the weights of --checkpoint FILE
    python3 train.py --evaluate       the loss of stories.gguf on held_back.txt
    python3 train.py --greedy "text"  what stories.gguf says after the text

Every story is used once: the stream of seeds is longer than the training, so the loss
that is printed on the way is already one on stories not seen before.
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
from model import Decoder, Shape, greedy

HERE = Path(__file__).resolve().parent
FILE = HERE / "stories.gguf"
HELD_BACK = HERE / "held_back.txt"

STEPS = 1800
BATCH_TOKENS = 2048
PEAK_RATE = 2.5e-3
WARM_UP = 100
# The last part of the training sees rows of the full context, the first part shorter
# ones, which hold a story and cost less.
SHORT_ROW, SHORT_PART = 256, 0.85
TOKENIZER_STORIES = 10_000
# Where a resumed training takes its stories from: far beyond those of the first one.
RESUMED_SEED = 100_000_000
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
    """Token rows that each begin with a story; the last story of a row may be cut."""

    def __init__(self, pieces, first_seed):
        self.pieces = pieces
        self.seed = first_seed

    def row(self, length):
        tokens = []
        # One token more than the model reads: the row is its input and its answer.
        while len(tokens) < length + 1:
            tokens.append(BOS)
            tokens.extend(self.pieces.encode(stories.story(self.seed)))
            tokens.append(EOS)
            self.seed += 1
        return tokens[:length + 1]

    def batch(self, length):
        return torch.tensor([self.row(length) for _ in range(BATCH_TOKENS // length)])


def rate(step, steps):
    """Linear warm-up, then half a cosine down to a hundredth of the peak."""
    if step < WARM_UP:
        return PEAK_RATE * (step + 1) / WARM_UP
    done = (step - WARM_UP) / max(1, steps - WARM_UP)
    return PEAK_RATE * (0.01 + 0.99 * 0.5 * (1 + math.cos(math.pi * done)))


def make_optimizer(model):
    matrices = [weight for weight in model.parameters() if weight.dim() == 2]
    vectors = [weight for weight in model.parameters() if weight.dim() == 1]
    groups = [{"params": matrices, "weight_decay": 0.1}, {"params": vectors, "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, betas=(0.9, 0.95))


def batch_loss(model, batch):
    logits = model(batch[:, :-1])
    targets = batch[:, 1:].clone()
    # Nothing precedes a BOS that could announce it, and no runtime asks for one.
    targets[targets == BOS] = -100
    return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


def train(steps, checkpoint, resume):
    torch.manual_seed(0)
    shape = Shape()
    pieces = train_tokenizer(shape)
    model = Decoder(shape)
    if resume:
        model.load_state_dict(torch.load(resume))
    print("parameters:", sum(weight.numel() for weight in model.parameters()), flush=True)
    optimizer = make_optimizer(model)
    rows = Rows(pieces, RESUMED_SEED if resume else 0)
    start, recent = time.time(), []
    for step in range(steps):
        length = SHORT_ROW if step < SHORT_PART * steps else shape.context
        for group in optimizer.param_groups:
            group["lr"] = rate(step, steps)
        loss = batch_loss(model, rows.batch(length))
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        recent.append(loss.item())
        if (step + 1) % 50 == 0 or step + 1 == steps:
            print(f"step {step + 1}  loss {sum(recent) / len(recent):.4f}  "
                  f"next seed {rows.seed}  {time.time() - start:.0f} s", flush=True)
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
        size += sum(len(tokenizer.piece_bytes(token)) for token in row[1:])
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
    parser.add_argument("--resume", metavar="FILE", help="such a file, to go on from")
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
