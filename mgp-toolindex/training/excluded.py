"""Training data left out because an evaluation set contains it: texts by their hash, whole packages by their name.

The list (excluded.txt) is made with `excluded.py --sets DIR --work DIR`, so that a training run needs no evaluation data.
"""
import argparse
import glob
import hashlib
import json
import os
import re

RUN = 8


def words(text):
    return re.findall(r"[^\W_]+", re.sub(r"([a-z0-9])([A-Z])", r"\1 \2", text).lower())


def name_of(text):
    return hashlib.blake2b(" ".join(words(text)).encode(), digest_size=5).hexdigest()


def runs(text, n=RUN):
    w = words(text)
    return {" ".join(w[i : i + n]) for i in range(len(w) - n + 1)}


class Seen:
    """The texts of the evaluation sets."""

    def __init__(self, folder):
        self.whole, self.runs, self.described = set(), set(), set()
        for path in sorted(glob.glob(os.path.join(folder, "*", "queries.*.jsonl"))):
            for line in open(path, encoding="utf-8"):
                self.note(json.loads(line)["query"])
        for path in sorted(glob.glob(os.path.join(folder, "*", "tools.jsonl"))):
            for line in open(path, encoding="utf-8"):
                tool = json.loads(line)
                text = tool.get("description") or ""
                self.note(text)
                self.note(tool["name"] + " " + text)
                self.note(re.split(r"(?<=[.!?。])\s|\n", text.strip())[0])
                self.note(tool.get("server_description") or "")
                if len(words(text)) >= 4:
                    self.described.add(" ".join(words(text)))
                found = (tool.get("inputSchema") or {}).get("properties")
                for key, p in (found if isinstance(found, dict) else {}).items():
                    if isinstance(p, dict) and isinstance(p.get("description"), str):
                        self.note(p["description"])
                        self.note(key + " " + p["description"])

    def note(self, text):
        w = words(text)
        if len(w) >= 3:
            self.whole.add(" ".join(w))
        self.runs |= runs(text)

    def has(self, text):
        return " ".join(words(text)) in self.whole or not self.runs.isdisjoint(runs(text))

    def has_server(self, package):
        return any(" ".join(words(text)) in self.described for _, text in package["t"])


class Excluded:
    """The list in its stored form."""

    def __init__(self, path):
        self.packages, self.texts = set(), set()
        for line in open(path, encoding="utf-8"):
            kind, _, value = line.rstrip("\n").partition(" ")
            if kind == "package":
                self.packages.add(value)
            elif kind == "texts":
                self.texts.update(value[i : i + 10] for i in range(0, len(value), 10))

    def __call__(self, text):
        return name_of(text) in self.texts


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--sets", required=True, help="folder with a folder per evaluation set")
    arguments.add_argument("--work", required=True, help="the folder of train.py")
    given = arguments.parse_args()
    import train

    path, seen, work = os.path.join(train.HERE, "excluded.txt"), Seen(given.sets), train.Work(given.work)
    # Packages that are no longer in sources.tsv stay named.
    packages = Excluded(path).packages if os.path.exists(path) else set()
    packages |= {server["n"] for server in work.servers() if seen.has_server(server)}
    left = set()

    def leave_out(text):
        if seen.has(text):
            left.add(name_of(text))
            return True
        return False

    work.build(packages, leave_out)
    names = sorted(left)
    with open(path, "w", encoding="utf-8") as out:
        out.writelines(f"package {name}\n" for name in sorted(packages))
        out.writelines("texts " + "".join(names[i : i + 15]) + "\n" for i in range(0, len(names), 15))


if __name__ == "__main__":
    main()
