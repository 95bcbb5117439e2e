"""From the texts of packages to training texts: names, descriptions, parameters, lines of a read-me file, and requests
made of them.
"""
import collections
import re

import numpy as np

import wishes
from measure import split_name

NAME, DOC, FIRST, PARAM, ASK, PACKAGE, README, CODE = "name", "doc", "first", "param", "ask", "package", "readme", "code"
KINDS = [NAME, DOC, FIRST, PARAM, ASK, PACKAGE, README, CODE, "wish", "wishes", "words"]
PER_SERVICE, CODE_TEXTS, SPACE = 90, 15000, re.compile(r"\s+")
IRREGULAR = {"has": "have", "does": "do", "is": "be", "goes": "go", "accesses": "access", "processes": "process", "addresses": "address", "caches": "cache"}


def clean(text):
    return SPACE.sub(" ", re.sub(r"\\[nrt\"'`]", " ", text or "")).strip()


def first(text):
    return re.split(r"(?<=[.!?。])\s|\n", text.strip())[0][:260]


def base(verb):
    """`Creates` as one would ask for it: `create`."""
    verb = verb.lower()
    if verb in IRREGULAR:
        return IRREGULAR[verb]
    if len(verb) < 5 or not verb.endswith("s") or verb.endswith(("ss", "us", "is")):
        return verb
    if verb.endswith("ies"):
        return verb[:-3] + "y"
    if verb.endswith(("sses", "shes", "ches", "xes", "zzes")):
        return verb[:-2]
    return verb[:-1]


def asked(text):
    """A description as the end of a request."""
    words = first(text).rstrip(".!?").split(" ")
    if not words[0][:1].isalpha() or not 2 <= len(words) <= 30:
        return None
    words[0] = base(words[0]) if words[0][1:].islower() else words[0]
    return " ".join(words)


class Texts:
    """Distinct texts with their kind, and the pairs among them that belong together."""

    def __init__(self, leave_out):
        self.at, self.list, self.pairs, self.left = {}, [], [], 0
        # The current source (a service, a package, `code` or `wishes`), and the first source of each text.
        self.who, self.said_by = None, []
        self.leave_out = leave_out

    def add(self, kind, text):
        text = clean(text)[:420]
        if len(text) < 4:
            return None
        if text not in self.at:
            if self.leave_out(text):
                self.left += 1
                return None
            self.at[text] = len(self.list)
            self.list.append((kind, text))
            self.said_by.append(self.who)
        return self.at[text]

    def pair(self, a, b):
        if a is not None and b is not None and a != b:
            self.pairs.append((a, b))


def of_tool(texts, rng, name, description, parameters, server):
    called = split_name(name)
    names = " ".join(split_name(key) for key, _ in parameters)
    doc = texts.add(DOC, called + ". " + description[:360] + (" Parameters: " + names if names else ""))
    if doc is None:
        return None
    says = texts.add(FIRST, first(description))
    short = texts.add(NAME, (server + " " if server and rng.random() < 0.3 else "") + called)
    texts.pair(says, doc)
    texts.pair(short, says)
    described = [(key, text) for key, text in parameters if text]
    if described:
        key, text = described[rng.integers(len(described))]
        texts.pair(texts.add(PARAM, split_name(key) + ": " + text[:200]), doc)
    wish = asked(description)
    if wish and rng.random() < 0.6:
        if rng.random() < 0.3:
            wish += " " + wishes.filled(rng, lambda: split_name(name).lower())
        how = wishes.OPEN[rng.integers(len(wishes.OPEN))]
        texts.pair(texts.add(ASK, how.format(wish)), doc)
        return wish, doc
    return None


def several(texts, rng, group):
    """Requests for two or three things that one server does."""
    for i in range(0, len(group) - 2, 3):
        if rng.random() < 0.5:
            wish = wishes.AND[rng.integers(len(wishes.AND))].format(*(w for w, _ in group[i : i + 3]))
            at = texts.add("wishes", wish)
            for _, doc in group[i : i + 2]:
                texts.pair(at, doc)


def readme_lines(readme):
    readme = re.sub(r"```.*?```", " ", readme, flags=re.S)
    readme = re.sub(r"<[^>]+>|!?\[([^\]]*)\]\([^)]*\)", r" \1 ", readme)
    for line in readme.split("\n"):
        line = re.sub(r"^[\s#>*\-|\d.]+", "", line).replace("|", " ").replace("`", "").replace("*", "")
        if 20 < len(line) < 300:
            yield line


def build(operations, code, packages, words, vectors, leave_out):
    """`operations`: (service, name, text, [(parameter, text)]); `code`: doc strings; `packages`: texts of packages."""
    rng, texts = np.random.default_rng(3), Texts(leave_out)
    taken, groups = collections.Counter(), collections.defaultdict(list)
    for i in rng.permutation(len(operations)):
        service, name, text, parameters = operations[i]
        taken[service] += 1
        texts.who = service
        if taken[service] <= PER_SERVICE:
            got = of_tool(texts, rng, name, clean(text), parameters, service)
            if got:
                groups[service].append(got)
    for texts.who, group in groups.items():
        several(texts, rng, group)
    for package in packages:
        texts.who = package["n"]
        about = texts.add(PACKAGE, package["d"])
        server, group = split_name(package["n"].split("/")[-1]), []
        for name, text in package["t"]:
            got = of_tool(texts, rng, name, clean(text), [], server)
            if got:
                group.append(got)
                if about is not None and rng.random() < 0.2:
                    texts.pair(about, got[1])
        several(texts, rng, group)
        for text in package["p"][:25]:
            texts.add(PARAM, text)
        for line in list(readme_lines(package["r"]))[:60]:
            texts.add(README, line)
    texts.who = "code"
    for i in rng.permutation(len(code))[:CODE_TEXTS]:
        texts.add(CODE, code[i])
    texts.who = "wishes"
    for kind, text in wishes.wishes(rng, words, 16000, 12000):
        texts.add(kind, text)
    for kind, text in wishes.pairs(rng, words, vectors, 2 * len(words)):
        texts.add(kind, text)
    return texts
