"""Small English stories from a grammar, one for each seed.

    python3 stories.py --seed 7 --count 3

prints three stories separated by the line <|endoftext|>. The same seed gives the same
story on every machine: the only source of chance is random.Random(seed).random(),
whose sequence Python guarantees not to change between versions.

A plot (plots.py) is a template. In it

    [one|two|]        stands for one of the alternatives, which may nest or be empty;
    {slot}            for a word that the story fixed at its beginning;
    {a slot}          for that word after the right one of "a" and "an";
    {Slot}, {A slot}  for the same with a capital letter.

The slots are drawn once for each story, so that the hero, the friend, the treasure and
the place stay who and what they are.
"""

import argparse
import math
import random
import re

import plots
import words

SEPARATOR = "<|endoftext|>"
# Seeds from here on are for measuring; training counts up from 0 and never gets here.
HELD_BACK_SEED = 1_000_000_000


class Chance:
    """Uniform choices, and the information that they have cost so far in nats."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.nats = 0.0

    def pick(self, options):
        self.nats += math.log(len(options))
        return options[int(self.random.random() * len(options))]


def with_article(phrase):
    # Every word of the grammar that is written with a vowel at its start is also
    # spoken with one, so the letter decides.
    return ("an " if phrase[0].lower() in "aeiou" else "a ") + phrase


def capitalised(text):
    return text[0].upper() + text[1:]


def draw_slots(chance):
    """Who and where: what every story is about. The friend's slots begin with f_."""
    gender = chance.pick([words.HE, words.SHE])
    slots = dict(gender, name=chance.pick(words.HERO_NAMES[gender["he"]]))
    slots["look"] = chance.pick(words.LOOKS)
    slots["kind"], slots["home"], hobbies = chance.pick(words.HERO_KINDS)
    slots["hobby"] = chance.pick(hobbies)
    slots["place"], slots["at_place"], slots["to_place"], happenings = chance.pick(words.PLACES)
    slots["plot"] = chance.pick(happenings)
    return slots


# Tables that only some plots need: the slots they fill, and how. They are drawn when
# a plot first asks for one of their slots, so that a story pays only for what it tells.
def draw_friend(chance):
    gender = chance.pick([words.HE, words.SHE])
    return {"f_he": gender["he"], "f_his": gender["his"], "f_look": chance.pick(words.HELPER_LOOKS),
            "f_name": chance.pick(words.FRIEND_NAMES[gender["he"]]),
            "f_kind": chance.pick(words.FRIEND_KINDS)}


def draw_object(chance):
    noun, adjectives, damage, cure = chance.pick(words.OBJECTS)
    return {"obj": noun, "full_obj": chance.pick(adjectives) + " " + noun,
            "damage": damage, "cure": cure}


TABLES = {
    ("f_he", "f_his", "f_look", "f_name", "f_kind"): draw_friend,
    ("obj", "full_obj", "damage", "cure"): draw_object,
    ("empty_spot",): lambda c: {"empty_spot": c.pick(words.EMPTY_SPOTS)},
    ("spot",): lambda c: {"spot": c.pick(words.SPOTS)},
    ("find",): lambda c: {"find": c.pick(words.FINDS)},
    ("food",): lambda c: {"food": c.pick(words.FOODS)},
    ("treat",): lambda c: {"treat": c.pick(words.TREATS)},
    ("prize",): lambda c: {"prize": c.pick(words.PRIZES)},
    ("fair",): lambda c: {"fair": c.pick(words.FAIR_WEATHER)},
    ("do", "did", "doing", "trouble"):
        lambda c: dict(zip(("do", "did", "doing", "trouble"), c.pick(words.SKILLS))),
    ("foul", "the_foul", "traces"):
        lambda c: dict(zip(("foul", "the_foul", "traces"), c.pick(words.FOUL_WEATHER))),
    ("trapped", "freed"): lambda c: dict(zip(("trapped", "freed"), c.pick(words.TRAPS))),
    ("noise", "fear", "cause"):
        lambda c: dict(zip(("noise", "fear", "cause"), c.pick(words.NOISES))),
}
DRAW = {slot: draw for slots, draw in TABLES.items() for slot in slots}


def fill(reference, slots, chance):
    article, _, slot = reference.rpartition(" ")
    capital = reference[0].isupper()
    slot = slot.lower()
    if slot not in slots:
        slots.update(DRAW[slot](chance))
    value = with_article(slots[slot]) if article else slots[slot]
    return capitalised(value) if capital else value


def alternatives(template, start):
    """Splits the bracket that opens at `start`; returns its parts and where it ends."""
    parts, depth, begin = [], 0, start + 1
    for position in range(start, len(template)):
        letter = template[position]
        if letter == "[":
            depth += 1
        elif letter == "]":
            depth -= 1
        if (letter == "|" and depth == 1) or depth == 0:
            parts.append(template[begin:position])
            begin = position + 1
        if depth == 0:
            return parts, position + 1
    raise ValueError("unclosed bracket in: " + template)


def expand(template, slots, chance):
    """Left to right, so that only the alternatives taken draw anything."""
    text = []
    position = 0
    while position < len(template):
        letter = template[position]
        if letter == "[":
            parts, position = alternatives(template, position)
            text.append(expand(chance.pick(parts), slots, chance))
        elif letter == "{":
            end = template.index("}", position)
            text.append(fill(template[position + 1:end], slots, chance))
            position = end + 1
        else:
            text.append(letter)
            position += 1
    return "".join(text)


def tell(seed):
    """The story of a seed, and how many nats of chance went into it."""
    chance = Chance(seed)
    slots = draw_slots(chance)
    text = " ".join(expand(" ".join(plots.PLOTS[slots["plot"]]), slots, chance).split())
    # Some words start a sentence in one template and not in another.
    text = re.sub(r"(?<=[.!?] )[a-z]", lambda match: match.group().upper(), text)
    return capitalised(text), chance.nats


def story(seed):
    return tell(seed)[0]


def exchange(seed):
    """Two who meet and name each other in every line: who is who, without the rest of a story."""
    chance = Chance(seed)
    text = " ".join(["{Name} lived in {home}.", plots.MEET, plots.WORRY, plots.THANKS, plots.WORRY,
                     plots.THANKS, plots.FRIENDS])
    return " ".join(expand(text, draw_slots(chance), chance).split())


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seed", type=int, default=HELD_BACK_SEED)
    parser.add_argument("--count", type=int, default=40)
    arguments = parser.parse_args()
    seeds = range(arguments.seed, arguments.seed + arguments.count)
    print(f"\n{SEPARATOR}\n".join(story(seed) for seed in seeds))


if __name__ == "__main__":
    main()
