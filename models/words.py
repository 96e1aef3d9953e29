"""The words of the stories: who may appear, where, with what, and in which weather.

A story draws one entry from each table it needs and keeps it to its last line, so
every table holds things that may be exchanged for one another in a sentence.
"""

HE = {"he": "he", "him": "him", "his": "his", "himself": "himself"}
SHE = {"he": "she", "him": "her", "his": "her", "himself": "herself"}

# Heroes and those whom they meet come from different tables. If the two could be called
# the same, the likeliest text would call them the same: that a second name differs from
# the first is a small part of what is known about it, and greedy text has no dice.
HERO_NAMES = {
    "he": ["Tom", "Ben", "Max", "Leo", "Sam", "Finn", "Oscar", "Hugo", "Jack", "Toby", "Felix",
           "Otto", "Peter", "Milo"],
    "she": ["Mia", "Anna", "Lily", "Rosa", "Ella", "Nora", "Ruby", "Clara", "Daisy", "Emma",
            "Hazel", "Ivy", "Molly", "Poppy"],
}
FRIEND_NAMES = {
    "he": ["Albert", "Bruno", "Edgar", "George", "Henry", "Walter", "Arthur", "Oliver"],
    "she": ["Agatha", "Bertha", "Dora", "Edith", "Greta", "Martha", "Sophie", "Wilma"],
}

# Kind of hero, the home that suits it, and what it likes to do.
HERO_KINDS = [
    ("fox", "a warm den", ["tell stories", "look at the moon"]),
    ("rabbit", "a deep burrow", ["pick flowers", "draw pictures"]),
    ("mouse", "a tiny nest", ["read books", "bake bread"]),
    ("squirrel", "a hollow tree", ["build towers", "count the clouds"]),
    ("hedgehog", "a nest of leaves", ["draw pictures", "collect shells"]),
    ("frog", "a mossy hut", ["sing songs", "watch the stars"]),
    ("duck", "a nest of reeds", ["count the clouds", "collect shells"]),
    ("otter", "a cosy den", ["build towers", "play the flute"]),
    ("cat", "a little house", ["look at the moon", "read books"]),
    ("mole", "an underground room", ["play the flute", "tell stories"]),
    ("sparrow", "a nest of straw", ["sing songs", "pick flowers"]),
    ("pig", "a brick house", ["bake bread", "watch the stars"]),
]
FRIEND_KINDS = ["owl", "bear", "badger", "dog", "goat", "turtle", "horse", "crow", "goose",
                "beaver", "donkey", "sheep"]

LOOKS = ["small", "young", "little", "brown", "grey", "round", "clever", "shy", "gentle",
         "cheerful", "quiet", "funny"]
HELPER_LOOKS = ["old", "wise", "tall", "friendly", "kind", "stout", "big", "elderly", "sensible",
                "patient"]

# Place: its name, how to be there, how to go there, and what happens there.
PLACES = [
    ("the forest", "in the forest", "into the forest", ["lost way", "noise", "rescue"]),
    ("the meadow", "in the meadow", "to the meadow", ["lost treasure", "contest", "learning"]),
    ("the river", "by the river", "down to the river", ["rescue", "learning", "sharing"]),
    ("the lake", "by the lake", "to the lake", ["learning", "lost treasure", "quarrel"]),
    ("the hill", "on the hill", "up the hill", ["contest", "storm", "lost way"]),
    ("the garden", "in the garden", "into the garden", ["quarrel", "present", "noise"]),
    ("the beach", "on the beach", "to the beach", ["lost treasure", "storm", "learning"]),
    ("the village", "in the village", "to the village", ["present", "contest", "storm"]),
    ("the market", "at the market", "to the market", ["present", "sharing", "lost treasure"]),
    ("the mill", "at the mill", "to the mill", ["sharing", "noise", "storm"]),
    ("the orchard", "in the orchard", "to the orchard", ["sharing", "quarrel", "present"]),
    ("the valley", "in the valley", "down into the valley", ["lost way", "contest", "noise"]),
    ("the old bridge", "at the old bridge", "to the old bridge", ["quarrel", "rescue", "storm"]),
    ("the waterfall", "near the waterfall", "to the waterfall",
     ["rescue", "lost way", "lost treasure"]),
]

# A treasured object, the adjectives that may stand before it, how it comes to harm, and
# what mends it.
GLUE, THREAD, PATCH = "a little glue", "needle and thread", "a colourful patch"
OBJECTS = [
    ("ball", ["red", "blue", "yellow", "striped"], "got a big hole", PATCH),
    ("kite", ["red", "green", "orange", "paper"], "tore in two", PATCH),
    ("bell", ["silver", "golden", "tiny", "old"], "broke in two", GLUE),
    ("boat", ["wooden", "little", "white", "paper"], "got a big hole", GLUE),
    ("key", ["golden", "iron", "tiny", "old"], "broke in two", GLUE),
    ("scarf", ["warm", "red", "woollen", "striped"], "tore in two", THREAD),
    ("umbrella", ["yellow", "green", "old", "big"], "got a big hole", PATCH),
    ("lantern", ["old", "bright", "tin", "little"], "broke in two", GLUE),
    ("drum", ["tin", "round", "wooden", "big"], "got a big hole", PATCH),
    ("hat", ["blue", "straw", "tall", "orange"], "tore in two", THREAD),
    ("whistle", ["silver", "wooden", "tin", "little"], "broke in two", GLUE),
    ("basket", ["straw", "round", "old", "brown"], "got a big hole", THREAD),
    ("blanket", ["soft", "blue", "woollen", "warm"], "tore in two", THREAD),
    ("book", ["old", "green", "little", "big"], "tore in two", GLUE),
]

# Where a lost thing is looked for in vain, and where it is.
EMPTY_SPOTS = ["under a bush", "behind a big stone", "inside a hollow log", "in the tall grass",
               "beside the old well", "next to an empty barrel"]
SPOTS = ["under an apple tree", "behind the wooden gate", "between two rocks",
         "at the foot of an oak", "near the broken fence", "under a pile of leaves"]

# What lies in the wrong place.
FINDS = ["a shiny pebble", "an old boot", "a white feather", "an acorn", "a sleepy snail",
         "a rusty nail", "an empty nest", "a green bottle", "a spotted egg", "some dry leaves"]

FOODS = ["a loaf of bread", "an apple pie", "a honey cake", "a bowl of soup",
         "a basket of berries", "a bag of nuts", "an orange cake", "a piece of cheese",
         "a pot of porridge", "a plum tart"]

# What a grateful friend brings to the table.
TREATS = ["an enormous cake", "a jar of honey", "a basket of apples", "a pot of hot stew",
          "a sack of nuts", "an armful of fresh bread"]

# A skill: bare verb, past, and gerund, and the trouble it makes at first.
SKILLS = [
    ("swim", "swam", "swimming", "the water was cold and deep"),
    ("skate", "skated", "skating", "the ice was very slippery"),
    ("dance", "danced", "dancing", "the steps were hard to remember"),
    ("sing", "sang", "singing", "the high notes were hard to reach"),
    ("juggle", "juggled", "juggling", "the balls fell down again and again"),
    ("climb trees", "climbed trees", "climbing trees", "the branches were far from the ground"),
    ("paint", "painted", "painting", "the colours ran into each other"),
    ("whistle", "whistled", "whistling", "there was only a soft puff of air"),
    ("ride a bicycle", "rode a bicycle", "riding a bicycle", "the wheels shook from side to side"),
    ("row a boat", "rowed a boat", "rowing a boat", "the oars were long and heavy"),
    ("play the violin", "played the violin", "playing the violin", "the strings only squeaked"),
    ("knit", "knitted", "knitting", "the wool was full of knots"),
]

FAIR_WEATHER = ["the sun was shining", "the sky was clear and blue", "the air was warm and still",
                "a soft wind was blowing", "the birds were singing", "white clouds drifted by"]
# Foul weather: how it came, and what it left behind when it was over.
FOUL_WEATHER = [
    ("dark clouds covered the sky and rain began to fall", "the rain", "big puddles"),
    ("an icy wind came up and snow began to fall", "the snow", "deep white drifts"),
    ("thunder rolled over the hills and lightning flashed", "the storm", "broken branches"),
    ("a strong wind howled and bent the trees", "the wind", "fallen leaves"),
    ("hail as big as nuts came down from the sky", "the hail", "little heaps of ice"),
]

# A trap for the story of a rescue: where the victim is, and how it is freed.
TRAPS = [
    ("stuck in the mud", "pulled with a long rope"), ("caught in a net", "bit through the strings"),
    ("trapped under a fallen branch", "lifted the branch with a pole"),
    ("sitting at the bottom of a dry well", "let down a ladder"),
    ("stuck between two stones", "pushed the stones apart"),
    ("tangled in an old fishing line", "untied every knot"),
]

# What a noise in the night is taken for, and what it is.
NOISES = [
    ("tap, tap, tap", "ghost", "was knocking at the door with a gift"),
    ("scratch, scratch", "monster", "was looking for a place to sleep"),
    ("hoo, hoo, hoo", "wolf", "was practising a new song"),
    ("thump, thump", "giant", "was dancing to keep warm"),
    ("crunch, crunch", "dragon", "was eating an apple in the dark"),
    ("squeak, squeak", "witch", "was pushing an old cart up the path"),
]

PRIZES = ["a silver cup", "an enormous cake", "a golden ribbon", "a jar of honey",
          "a crown of flowers", "an ivory whistle"]
