"""Words of a text as the crate's WordPiece finds them: the training side of src/embed/table/wordpiece.rs."""
import re
import unicodedata

CAMEL = [(re.compile(r"([a-z0-9])([A-Z])"), r"\1 \2"), (re.compile(r"([A-Z]+)([A-Z][a-z])"), r"\1 \2")]
# A run of letters and digits; everything else only separates.
RUN = re.compile(r"[^\W_]+")
WIDE = re.compile("([\u2e80-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0002fa1f])")
LONGEST = 100


def split_camel(word):
    for pattern, to in CAMEL:
        word = pattern.sub(to, word)
    return word.split()


def fold(text):
    """Lower case without accents."""
    text = unicodedata.normalize("NFD", text.lower())
    return "".join(c for c in text if not unicodedata.category(c).startswith("M"))


class Pieces:
    """Greedy longest-match word pieces over a list of pieces."""

    def __init__(self, pieces):
        self.pieces = list(pieces)
        self.at = {piece: row for row, piece in enumerate(self.pieces)}
        self.memo = {}

    def rows(self, text):
        out = []
        if not text.isascii():
            text = "".join(c for c in text if not unicodedata.category(c).startswith("M"))
        for run in RUN.findall(WIDE.sub(r" \1 ", text)):
            got = self.memo.get(run)
            if got is None:
                got = self.memo[run] = self.of_run(run)
            out += got
        return out

    def of_run(self, run):
        whole = fold(run)
        # A word that is known is not taken apart: `GitHub`, `JavaScript`.
        if whole in self.at:
            return [self.at[whole]]
        out = []
        for word in split_camel(run):
            out += self.of_word(fold(word))
        return out

    def of_word(self, word):
        if not word or len(word.encode()) > LONGEST:
            return []
        out, start = [], 0
        while start < len(word):
            end = len(word)
            while end > start:
                row = self.at.get(("##" if start else "") + word[start:end])
                if row is not None:
                    break
                end -= 1
            else:
                return []
            out.append(row)
            start = end
        return out
