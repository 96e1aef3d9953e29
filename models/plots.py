"""The plots of the stories, as templates that stories.py expands.

A plot is a list of beats. Where two people of the same gender may be in one sentence,
the sentence names them, so that a pronoun is never in doubt.
"""

OPENING = (
    "[[Once upon a time|Long ago|Many years ago], there was {a look} {kind} "
    "[named|called] {name}. {He} lived in {home} near {place}."
    "|[Once upon a time|Once], {a look} {kind} named {name} lived in {home} near {place}."
    "|In {home} near {place} lived {a look} {kind} [named|called] {name}."
    "|{Name} was {a look} {kind} who lived in {home} [close to|near] {place}.] "
    "[Every [morning|evening], {he} liked to {hobby}.|Most of all, {he} loved to {hobby}."
    "|]")

FINE_DAY = (
    "[One [day|morning|afternoon], {fair}[|, and {name} felt [cheerful|happy|wide awake]]."
    "|It was a [lovely|bright|quiet] [day|morning], and {fair}.]")

MEET = (
    "[Just then|After a while|A little later], {a f_look} {f_kind} named {f_name} "
    "[came by|came along the path|walked past].")

WORRY = (
    "[\"What is wrong, {name}?\" asked {f_name}.|\"Why are you so sad?\" asked the {f_kind}."
    "|\"You look worried,\" said {f_name}. \"What happened?\"]")

THANKS = (
    "[\"Thank you, {f_name}!\" [said|cried] {name}.|\"Thank you so much!\" said {name}."
    "|\"You are a true friend,\" said {name}.] [|\"You are welcome,\" [said {f_name}|answered the "
    "{f_kind}][| with a smile].]")

FRIENDS = (
    "[From that day on, {name} and {f_name} were [good|the best of] friends."
    "|After that, the {kind} and the {f_kind} [met every day|were never lonely again]."
    "|And so {name} and {f_name} became friends.]")

HOMEWARD = (
    "[That night|In the evening|When the moon came up], {name} [went home|walked home]"
    "[| with a happy heart] and [slept well|fell asleep at once|dreamed of {place}].")

LOST_TREASURE = [
    OPENING,
    "{He} had {a full_obj}, and {he} [took it everywhere|loved it very much"
    "|never went out without it].",
    "[" + FINE_DAY + "|]",
    "{Name} went {to_place} [to play|for a walk|for a picnic]. But [on the way home"
    "|when {he} wanted to leave|at noon], {he} saw that the {obj} was gone.",
    "[{He} looked [everywhere|high and low], but {he} could not find it.|{He} sat down and "
    "began to cry.|\"Oh no!\" {he} cried. \"Where can it be?\"]",
    MEET, WORRY,
    "\"[I have lost my {obj}|My {full_obj} is gone],\" [said|answered|sobbed] {name}. "
    "[\"Can you help me?\"|\"I do not know where to look.\"]",
    "[\"Do not cry,\" said {f_name}. \"We will look for it together.\"|\"Of course I will help "
    "you,\" said the {f_kind}.|{F_name} nodded. \"Four eyes see more than two.\"]",
    "They looked {empty_spot}, but they found only {find}. Then they looked {spot}[, and there was "
    "the {obj}!|. There lay the {full_obj}!]",
    THANKS,
    "[|Since then, {name} has always taken good care of the {obj}.|{Name} held the {obj} tight "
    "all the way home.|{Name} learned that it is good to ask for help.]",
    "[" + FRIENDS + "|]",
]

LEARNING = [
    OPENING,
    "[{He} had one wish|{Name} had a secret wish]: {he} wanted to [learn to|be able to] {do}.",
    FINE_DAY,
    "{Name} [tried it|tried to {do}] [for the first time|all alone], but {trouble}. "
    "[\"I will never learn it,\" {he} [said|sighed].|{He} felt [ashamed|sad] and wanted to give "
    "up.|\"Why is it so difficult?\" {he} asked.]",
    MEET,
    "[\"I can teach you,\" said {f_name}. \"{Doing} is not so hard.\"|\"I was afraid of {doing} "
    "too,\" said the {f_kind}. \"[Let me show you|Try once more].\"|\"Nobody can {do} on the first "
    "day,\" said {f_name}. \"Let us practise together.\"]",
    "[So they practised every [day|morning|evening] for [a week|a month|many weeks]"
    "|Day after day, {f_name} showed {name} what to do|They began slowly, one small step at a "
    "time]. [Sometimes it went wrong, but {name} did not give up.|Little by little, it became "
    "easier.|{Name} made mistakes, and then {he} made fewer.]",
    "[At last|One day|In the end|After all that work], {name} {did} [without any help|as if it "
    "were easy|better than anyone else]. [\"Look at me!\" {he} [cried|shouted]. \"I can {do}!\""
    "|{He} was so proud that {he} laughed out loud.]",
    THANKS,
    "[{Name} had learned that practice is better than luck.||Now {he} knew that nobody learns "
    "anything in one day.|And whenever somebody wanted to give up, {name} told this story.]",
]

SHARING = [
    OPENING,
    FINE_DAY,
    "{Name} packed {food} and went {to_place} [to eat it in peace|for a picnic].",
    "[On the way|{At_place}], {he} met {a f_look} {f_kind} named {f_name}. [\"I am so hungry,\" "
    "said {f_name}. \"I have not eaten [all day|since yesterday].\"|{F_name} looked at the food "
    "and sighed. \"I have nothing to eat,\" said the {f_kind}.]",
    "[At first, {name} wanted to keep everything.|{Name} was hungry too.|{Name} thought about it.] "
    "[But then {he} felt sorry for the {f_kind}.|But {name} had a kind heart.] \"[There is enough "
    "for two|We can share it|Take half of mine],\" {he} said. [|So they sat down in the shade and "
    "ate together.]",
    "[A few days later|The next winter|Some weeks later], {foul}. {Name} [had nothing left to eat"
    "|could not go out to find food]. [Then there was a knock at the door.|Suddenly, somebody "
    "called {his} name.] It was {f_name}, with {treat}! \"You shared with me, and now I "
    "share with you,\" said the {f_kind}.",
    "[|They ate until they were full and told each other stories.|{Name} was so happy that {he} "
    "hugged {f_name}.|\"I am glad that we met,\" said {name}.]",
    "[Those who share are never poor.|A gift often finds its way back.|Food tastes better when "
    "there is a friend at the table.]",
]

QUARREL = [
    OPENING,
    "{His} [best friend|neighbour] was {a f_look} {f_kind} named {f_name}.",
    "One day, they found {a full_obj} {spot}. [\"It is mine!\" cried {name}. \"I saw it first!\""
    "|\"I want to have it,\" said {name}.] [\"No, it is mine!\" shouted {f_name}.|\"But I picked "
    "it up,\" said the {f_kind}.]",
    "They [pulled and pulled|argued all [morning|afternoon]], until the {obj} {damage}. [{Name} "
    "went home in anger, and {f_name} was angry too.|Then neither "
    "of them said a word.|{F_name} ran away, and {name} was left alone {at_place}.]",
    "That night, {name} could not sleep. [\"A friend is worth more than {a obj},\" {he} thought."
    "|{He} missed {f_name} more than the {obj}.|{He} was sorry for what {he} had said.]",
    "[The next morning|Early the next day], {he} went to see the {f_kind}. \"I am sorry,\" said "
    "{name}. [\"I was selfish.\"|\"Please forgive me.\"] [\"I am sorry too,\" said {f_name}."
    "|{F_name} smiled and [nodded|held out a hand].]",
    "Together they mended the {obj} with {cure}, and it was [almost as "
    "good as new|even more beautiful than before]. [From then on, they shared it|They took turns "
    "with it every day], and they never [quarrelled|argued] again.",
]

STORM = [
    OPENING,
    "[One [night|evening]|Late in the autumn], {foul}. [{Name} was afraid and hid under {his} "
    "bed.|{Name} shut the door and lit a candle.|{Name} listened and could not sleep.]",
    "[Suddenly|At midnight], there was a knock at the door. Outside stood {a f_look} {f_kind} "
    "[who was wet and cold|who was shaking with cold]. \"My name is {f_name},\" said the {f_kind}. "
    "[\"I have lost my way. May I come in?\"|\"My home is gone. May I stay here tonight?\"]",
    "[\"Come in and sit by the fire,\" said {name}.|{Name} opened the door wide. \"There is room "
    "for both of us,\" {he} said.] [{He} gave {f_name} a dry blanket and {food}.|{He} made hot tea "
    "and cut a loaf of bread in two.]",
    "[They told stories until {the_foul} was over.|They talked all night, and {name} forgot to be "
    "afraid.|Soon they were both asleep.]",
    "In the morning, there were {traces} everywhere, and the door was in pieces. \"[You helped me, "
    "so I will help you|Let me mend it for you],\" said {f_name}. By [noon|evening], the door was "
    "[as good as new|whole again|stronger than before].",
    THANKS, FRIENDS,
]

RESCUE = [
    OPENING, FINE_DAY,
    "{Name} was [walking|playing] {at_place} when {he} heard a [weak|small|frightened] voice. "
    "[\"Help! Help!\" it called.|\"Is anybody there?\" it called. \"Please help me!\"]",
    "{He} ran [to see who it was|as fast as {he} could]. It was {a f_look} {f_kind}, {trapped}. "
    "[\"I have been here since yesterday,\" said the {f_kind}.|\"I cannot get out by myself,\" "
    "said the {f_kind}.] [\"My name is {f_name}.\"|\"I am {f_name}, and I am so tired.\"]",
    "[{Name} was not strong, but {he} was clever.|{Name} was afraid, but {he} did not run away."
    "|\"Do not worry, {f_name},\" said {name}. \"I have an idea.\"] {He} {freed}, [and {f_name} "
    "was free|and soon {f_name} was free again].",
    "[\"You saved my life!\" cried {f_name}.|\"How can I thank you?\" asked {f_name}.] [\"Anyone "
    "would have done it,\" said {name}.|\"I am just glad that you are safe,\" said {name}.]",
    "[The next day, {f_name} brought {name} {prize}.|To say thank you, {f_name} gave {name} "
    "{a full_obj}.|]",
    "[Even a small {kind} can do great things.|Everybody {at_place} heard of it, and they all "
    "called {name} a hero.|" + FRIENDS + "]",
]

NOISE = [
    OPENING,
    "One [dark|windy|cold] night, {name} woke up. [There was a strange noise|{He} heard something "
    "outside]: {noise}. [\"What if it is {a fear}?\" {he} [thought|whispered].|{He} was sure that "
    "it was {a fear}, and {he} [pulled the blanket over {his} head|began to shake].]",
    "[But the noise did not stop.|{He} waited, and there it was again: {noise}.] [At last, {he} "
    "took a lantern and opened the door.|So {he} took a deep breath and went outside.]",
    "[It was not {a fear} at all|There was no {fear}]. It was only {a f_look} {f_kind} named "
    "{f_name}, who {cause}! [\"Did I wake you?\" asked {f_name}. \"I am sorry.\"|\"Good evening,\" "
    "said {f_name}. \"Did I frighten you?\"]",
    "[\"I thought that you were {a fear},\" said {name}, and they both laughed.|{Name} laughed "
    "until {his} sides hurt. \"You gave me such a fright!\" {he} said.]",
    "[|They sat on the step and looked at the stars.|Then {name} made tea for both of them, and "
    "they talked until dawn.|\"Come in,\" said {name}. \"I have {food} that we can share.\"]",
    "[After that night, {name} was not afraid of the dark any more.|Things are often less terrible "
    "when we look at them.|" + FRIENDS + "]",
]

CONTEST = [
    OPENING,
    "[One [spring|summer|autumn], there was a big race {at_place}|Every year, there was a race "
    "{at_place}], and the winner got {prize}. [{Name} wanted to win it.|{Name} dreamed of it for "
    "weeks.] [{He} ran up and down every day to get ready.|{He} practised from morning to night.]",
    "[But {f_name}, {a f_look} {f_kind}, was faster than anyone.|But there was also {a f_look} "
    "{f_kind} named {f_name}, who had never lost.] [\"You have no chance,\" said {f_name}.|\"I "
    "will win again,\" said the {f_kind}.] [{Name} said nothing.|\"We will see,\" answered "
    "{name}.]",
    "On the day of the race, {fair}. [They all began to run.|\"Ready, steady, go!\" somebody "
    "called.] {F_name} was soon far ahead, but then the {f_kind} [stumbled over a root|slipped and "
    "fell] and could not get up.",
    "[{Name} could have run past|Now {name} could win the race], but {he} stopped. [\"Are you "
    "hurt?\" {he} asked.|\"Let me help you up,\" {he} said.] {He} helped {f_name} to walk, and "
    "they crossed the line together, the last of all.",
    "[Everyone clapped and cheered.|The crowd was silent, and then it cheered.] \"You are the real "
    "winner,\" said {f_name}, and gave {name} a hug. [There was no prize for {name}, but {he} had "
    "found a friend.|To be kind is better than to be first.|The judge gave {prize} to both of "
    "them.]",
]

PRESENT = [
    OPENING,
    "[Tomorrow was|It was nearly] the birthday of {his} friend {f_name}, {a f_look} {f_kind}, and "
    "{name} [had no present yet|did not know what to give]. [\"I have no money,\" {he} said. "
    "\"What can I do?\"|{He} thought and thought.]",
    "[At the shop {at_place}, {he} saw {a full_obj}, but it cost too much.|{He} searched "
    "{at_place}, but {he} found only {find}.] [Then {name} had an idea.|All at once, {he} knew "
    "what to do.] [{He} [baked|made] {food} and put a candle on it.|{He} wrote a song about "
    "{f_name} and learned it by heart.|{He} made a crown of flowers with {his} own hands.]",
    "The next day, {fair}. {Name} went to see {f_name}. [\"Happy birthday!\" {he} [called|cried]. "
    "\"I made this myself.\"|\"It is not much,\" {he} said, \"but it comes from my heart.\"]",
    "[{F_name} was so happy that [there were tears in {f_his} eyes|{f_he} could not speak]."
    "|{F_name} jumped for joy.] [\"This is the best present of all,\" said the {f_kind}.|\"Nobody "
    "has ever given me anything so lovely,\" said the {f_kind}.]",
    "[They danced and sang until the sun went down.|They celebrated together [{at_place}|until "
    "late at night].] [A present need not cost much to be precious.|What is made with love is "
    "worth more than gold.|" + HOMEWARD + "]",
]

LOST_WAY = [
    OPENING, FINE_DAY,
    "{Name} [followed a butterfly|set out to see the world|went for a walk] and went [farther and "
    "farther|on and on], until {he} did not know where {he} was. [The trees all looked the same."
    "|It was getting dark.|There was no path any more.] [{He} was [tired|cold] and afraid.|\"I "
    "want to go home,\" {he} [said|whispered].]",
    MEET, WORRY,
    "[\"I am lost,\" said {name}. \"I live near {place}.\"|\"I cannot find my way home,\" said "
    "{name}. \"Do you know {place}?\"]",
    "[\"I know the way,\" said {f_name}.|\"It is not far,\" said the {f_kind}.] [\"Come with me.\""
    "|\"Just follow me.\"] They walked [past a tall tower and over a narrow bridge|through a dark "
    "wood and across a field|along a stream and up a steep path]. [{F_name} sang a song, and "
    "{name} was not afraid any more.|On the way, they talked about everything in the world.]",
    "[At last|Soon], {name} saw {place}, and {he} [cried for joy|knew where {he} was]. " + THANKS,
    "[{Name} gave {f_name} {food}, and they ate it together.|\"Please come and visit me,\" said "
    "{name}. [\"I will,\" said {f_name}.|And {f_name} came, every Sunday.]]",
    "[" + HOMEWARD + "|" + FRIENDS + "]",
]

# By the names that the places in words.py know them by.
PLOTS = {"lost treasure": LOST_TREASURE, "learning": LEARNING, "sharing": SHARING,
         "quarrel": QUARREL, "storm": STORM, "rescue": RESCUE, "noise": NOISE,
         "contest": CONTEST, "present": PRESENT, "lost way": LOST_WAY}
