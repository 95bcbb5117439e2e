"""Writes src/embed/table/pieces.tsv: how texts come apart, by the reference tokenizer and by the one the table was trained with."""
from tokenizers import Tokenizer

PLAIN = """read the contents of a file
What will the weather be like in Berlin tomorrow?
please translate this sentence into French
Find all restaurants near the central station that are open late.
how do I merge two branches
play some quiet music for the evening
the quick brown fox jumps over the lazy dog
compare the price of gold and silver since 1990
book a table for two at eight
remind me to water the plants every Sunday
show the latest news about the election
send a letter to my landlord about the broken window
convert 20 miles to kilometres
Search for papers on protein folding
draw a map of the old town
turn off the lights in the kitchen
is there a train from Hamburg to Vienna?
calculate the area of a circle with radius 5
write a short story about a lighthouse keeper
unbelievably disproportionate characteristics
list the files in my home directory
what is the capital of Australia
who won the championship last year?
write down the minutes of the meeting
naïve café façade
Zürich Köln Málaga
水 火 山
""".strip().split("\n")
OURS = """getWeatherForecast
read_file
delete_s3_object_v2
JavaScript and GitHub, JSON over HTTP
listUserAccounts(userID)
HTTPServer2Client
text-to-speech.convert
microservices.kubernetes.io/Pod#status
データベースを検索する
使用必应搜索指定的关键词
créer un événement à l'été
QKE091vBmySh
x1y2z3 a/b:c
FileNotFoundError
iPhone eBay WebP PostgreSQL YouTube
naïveCase ÉtéCase
100% of $5 & more
zażółć gęślą jaźń
don't can't it's
antidisestablishmentarianism floccinaucinihilipilification
""".strip().split("\n")


def write(path, tokenizer, pieces):
    reference = Tokenizer.from_file(tokenizer)
    reference.no_truncation()
    reference.no_padding()
    with open(path, "w", encoding="utf-8") as out:
        for text in PLAIN:
            # Signs only separate here.
            got = [t for t in reference.encode(text, add_special_tokens=False).tokens if any(c.isalnum() for c in t)]
            out.write(f"bert\t{text}\t{' '.join(got)}\n")
        for text in OURS:
            out.write(f"own\t{text}\t{' '.join(pieces.pieces[row] for row in pieces.rows(text))}\n")
