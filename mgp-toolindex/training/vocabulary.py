"""Which word pieces the table has: the teacher's, without those that no text can reach, and whole words of the trade."""
import collections
import re

from words import RUN, WIDE, Pieces, fold, split_camel

# Rows and their pieces stay below 4.2 MB with 128 dimensions.
ROWS = 29_500
# The number of packages or services that must contain a word before it becomes a piece of its own.
LEAST = 3


def reachable(piece):
    """Latin pieces, and single characters of Chinese and Japanese."""
    continues, text = piece.startswith("##"), piece.removeprefix("##")
    if not text or not all(c.isalnum() for c in text):
        return False
    if WIDE.fullmatch(text):
        return not continues
    # What folding changes is never looked up.
    return fold(text) == text and all(ord(c) < 0x250 for c in text)


def whole_words(texts, said_by, pieces):
    """Words that come apart in the teacher's vocabulary, those of most packages first."""
    who = collections.defaultdict(set)
    for text, by in zip(texts, said_by):
        seen = set()
        # The last word may be cut.
        for run in RUN.findall(WIDE.sub(r" \1 ", text))[:-1]:
            seen.add(fold(run))
            seen.update(fold(w) for w in split_camel(run))
        for word in seen:
            who[word].add(by)
    split = [
        (len(by), word)
        for word, by in who.items()
        if len(by) >= LEAST and 3 <= len(word) <= 24 and re.fullmatch(r"[a-z]+[0-9]?", word) and len(pieces.of_word(word)) > 1
    ]
    return [w for _, w in sorted(split, key=lambda x: (-x[0], x[1]))]


def vocabulary(teachers, texts, said_by):
    """(pieces, rows of the teacher's pieces among them in its vocabulary, the whole words among them)."""
    kept = [(piece, row) for row, piece in enumerate(teachers) if reachable(piece)]
    more = whole_words(texts, said_by, Pieces([piece for piece, _ in kept]))[: max(0, ROWS - len(kept))]
    return [piece for piece, _ in kept] + more, [row for _, row in kept], more
