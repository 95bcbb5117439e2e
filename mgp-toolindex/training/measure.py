"""Measures a table, or the teacher, on labelled sets of tools and queries: alone, and together with BM25.

The sets are read to measure and for nothing else. `--teacher` is the folder of train.py; the
teacher's vectors of the sets are kept there.
"""
import argparse
import collections
import json
import math
import os
import re

import numpy as np
import Stemmer
from scipy.sparse import csr_matrix

SETS = ["metatool", "bfcl", "sealtools", "stabletoolbench", "livemcp", "mcp_large", "mcpm_server"]
STEM = Stemmer.Stemmer("english")
STOP = set(
    "a an and are as at be been being but by can could did do does for from had has have he her him his how i if in into is it its "
    "me my no not of on or our please she should so some such than that the their them then there these they this those to too us was "
    "we were what when where which who will with would you your help need want like get give let just any also about".split()
)


def lines(path):
    with open(path, encoding="utf-8") as file:
        return [json.loads(line) for line in file if line.strip()]


def split_name(name):
    name = re.sub(r"([a-z0-9])([A-Z])", r"\1 \2", name)
    name = re.sub(r"([A-Z]+)([A-Z][a-z])", r"\1 \2", name)
    return re.sub(r"[_\-./#:]+", " ", name).strip()


def properties(tool):
    found = (tool.get("inputSchema") or {}).get("properties")
    return found if isinstance(found, dict) else {}


def sentence(tool):
    """What of a tool is embedded."""
    names = " ".join(split_name(name) for name in properties(tool))
    return split_name(tool["name"]) + ". " + (tool.get("description") or "") + (" Parameters: " + names if names else "")


def document(tool):
    """What of a tool is indexed by words."""
    names = " ".join(split_name(name) for name in properties(tool))
    texts = " ".join(str(p.get("description") or "") for p in properties(tool).values() if isinstance(p, dict))
    server = tool.get("server_name") or ("" if tool["server_id"] in ("metatool", "bfcl") else split_name(tool["server_id"]))
    name = split_name(tool["name"])
    return " ".join([name, name, tool.get("description") or "", names, texts, server, tool.get("server_description") or "", " ".join(tool.get("categories") or [])])


def stems(text):
    out = []
    for word in re.findall(r"[^\W_]+", split_name(text)):
        word = word.lower()
        if re.search("[\u3040-\u30ff\u3400-\u9fff]", word):
            out += [word[i : i + 2] for i in range(len(word) - 1)] or [word]
        elif word not in STOP and (len(word) > 1 or word.isdigit()):
            out.append(STEM.stemWord(word))
    return out


class Bm25:
    def __init__(self, texts, k1=1.2, b=0.75):
        counts = [collections.Counter(t) for t in texts]
        size = np.array([sum(c.values()) for c in counts], dtype=np.float32)
        df = collections.Counter(w for c in counts for w in c)
        self.at = {w: i for i, w in enumerate(df)}
        rows, cols, vals = [], [], []
        for i, c in enumerate(counts):
            norm = k1 * (1 - b + b * size[i] / max(size.mean(), 1e-6))
            for w, f in c.items():
                idf = math.log(1 + (len(texts) - df[w] + 0.5) / (df[w] + 0.5))
                rows.append(i)
                cols.append(self.at[w])
                vals.append(idf * f * (k1 + 1) / (f + norm))
        self.matrix = csr_matrix((np.array(vals, dtype=np.float32), (cols, rows)), shape=(len(df), len(texts)))

    def scores(self, words):
        got = [self.at[w] for w in set(words) if w in self.at]
        return np.asarray(self.matrix[got].sum(0)).ravel() if got else np.zeros(self.matrix.shape[1], np.float32)


class Set:
    """One labelled set, with what does not depend on the table."""

    def __init__(self, folder):
        self.name = os.path.basename(folder)
        self.tools = lines(os.path.join(folder, "tools.jsonl"))
        self.queries = lines(os.path.join(folder, "queries.public.jsonl"))
        self.sentences = [sentence(t) for t in self.tools]
        bm = Bm25([stems(document(t)) for t in self.tools])
        self.words = np.stack([bm.scores(stems(q["query"])) for q in self.queries]).astype(np.float16)
        self.by_server = self.name == "mcpm_server"
        at = {t["id"]: i for i, t in enumerate(self.tools)}
        self.server = [t["server_id"] for t in self.tools]
        self.wanted = []
        for q in self.queries:
            if self.by_server:
                groups = [[s] for s in q["relevant_servers"]]
            else:
                groups = [[at[r] for r in g if r in at] for g in (q.get("groups") or [[r] for r in q["relevant"]])]
            self.wanted.append(groups)

    def score(self, i, order):
        seen, ranked = set(), []
        for t in order:
            key = self.server[t] if self.by_server else t
            if key not in seen:
                seen.add(key)
                ranked.append(key)
        of = collections.defaultdict(list)
        for g, members in enumerate(self.wanted[i]):
            for m in members:
                of[m].append(g)
        hit, dcg, at5 = set(), 0.0, 0
        for place, key in enumerate(ranked[:10]):
            new = next((g for g in of.get(key, ()) if g not in hit), None)
            if new is not None:
                hit.add(new)
                dcg += 1 / math.log2(place + 2)
                at5 += place < 5
        n = len(self.wanted[i])
        return at5 / n, dcg / sum(1 / math.log2(p + 2) for p in range(min(n, 10)))

    def run(self, tools, queries, mix):
        """R@5 and NDCG@10 of vectors alone (mix 1), with BM25 (between), or of BM25 alone (mix 0)."""
        out = []
        for i in range(len(self.queries)):
            words = self.words[i].astype(np.float32)
            near = tools @ queries[i] if mix > 0 else words
            if mix in (0, 1):
                total = near
            else:
                total = mix * stretch(near) + (1 - mix) * stretch(words)
            top = np.argpartition(-total, min(100, len(total) - 1))[:100]
            out.append(self.score(i, top[np.argsort(-total[top], kind="stable")]))
        return np.array(out).mean(0)


def stretch(scores, most=100):
    """The best hundred between 0 and 1; everything else 0."""
    best = np.argpartition(-scores, min(most, len(scores) - 1))[:most]
    best = best[scores[best] > 0]
    out = np.zeros_like(scores)
    if len(best):
        low, high = scores[best].min(), scores[best].max()
        out[best] = (scores[best] - low) / max(high - low, 1e-6) if high > low else 1
        out[best] = np.maximum(out[best], 1e-6)
    return out


def unit(v):
    v = np.asarray(v, np.float32)
    return v / np.maximum(np.linalg.norm(v, axis=1, keepdims=True), 1e-9)


def report(sets, vectors, mixes=(1, 0.5), title="", say=print):
    """`vectors(set)` gives those of tools and queries. Prints a line per mix; returns {(mix, set): (R@5, NDCG@10)}."""
    got = {}
    for s in sets:
        tools, queries = vectors(s)
        for mix in mixes:
            got[mix, s.name] = s.run(tools, queries, mix)
    for mix in mixes:
        mean = np.mean([got[mix, s.name] for s in sets], 0)
        say(f"{title:14} {mix:3}  " + "  ".join(f"{s.name[:6]} {got[mix, s.name][0]:.3f}/{got[mix, s.name][1]:.3f}" for s in sets) + f"  MACRO {mean[0]:.4f}/{mean[1]:.4f}")
    return got


def of_table(path, most=160):
    """What gives a set's vectors from a table."""
    import pack
    import student
    from words import Pieces

    _, names, table = pack.read(path)
    pieces = Pieces(names)
    vectors = lambda texts: student.embed(table, student.bags([pieces.rows(t)[:most] for t in texts], len(names)))
    return lambda s: (vectors(s.sentences), vectors([q["query"] for q in s.queries]))


def of_teacher(folder):
    import teacher

    def vectors(s):
        path = os.path.join(folder, f"set_{s.name}.npz")
        if not os.path.exists(path):
            encode = teacher.Teacher(folder).encode
            np.savez(path, tools=encode(s.sentences), queries=encode([q["query"] for q in s.queries]))
        kept = np.load(path)
        return kept["tools"], kept["queries"]

    return vectors


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--sets", required=True, help="folder with a folder per evaluation set")
    arguments.add_argument("--table", default=os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "data", "table.bin"))
    arguments.add_argument("--teacher", help="measure the teacher instead")
    given = arguments.parse_args()
    sets = [Set(os.path.join(given.sets, name)) for name in SETS]
    report(sets, of_teacher(given.teacher) if given.teacher else of_table(given.table), (0, 1, 0.5), "teacher" if given.teacher else "table")


if __name__ == "__main__":
    main()
