"""Writes the table as the crate reads it in place (src/embed/table/file.rs), and reads it back."""
import struct

import numpy as np

MAGIC, VERSION, SLOTS, EMPTY = b"mgptable", 1, 1 << 16, 0xFFFF
HEAD = "<8sIIIIII32s"


def mixed(raw):
    h = 0x811C9DC5
    for byte in raw:
        h = ((h ^ byte) * 0x01000193) & 0xFFFFFFFF
    return h ^ (h >> 15)


def stored(piece):
    """A continuation begins with one `#` in the file; no piece has one of its own."""
    return (("#" + piece[2:]) if piece.startswith("##") else piece).encode()


def ordered(pieces):
    """The order of rows in the file: by length, so that no offsets are needed, then by bytes."""
    return sorted(range(len(pieces)), key=lambda i: (len(stored(pieces[i])), stored(pieces[i])))


def write(path, name, pieces, rows, scales):
    order = ordered(pieces)
    raws = [stored(pieces[i]) for i in order]
    assert len(raws) < EMPTY and len(set(raws)) == len(raws)
    longest = max(len(r) for r in raws)
    counts = np.bincount([len(r) for r in raws], minlength=longest + 1).astype("<u2")
    slots = np.full(SLOTS, EMPTY, "<u2")
    for row, raw in enumerate(raws):
        at = mixed(raw) % SLOTS
        while slots[at] != EMPTY:
            at = (at + 1) % SLOTS
        slots[at] = row
    text = b"".join(raws)
    head = struct.pack(HEAD, MAGIC, VERSION, rows.shape[1], len(raws), SLOTS, longest, len(text), name.encode())
    with open(path, "wb") as out:
        for part in (head, counts.tobytes(), scales[order].astype("<f4").tobytes(), slots.tobytes(), text, rows[order].astype("i1").tobytes()):
            out.write(part)


def read(path):
    """(name, pieces, table in f32)."""
    raw = open(path, "rb").read()
    magic, version, wide, many, slots, longest, text, name = struct.unpack_from(HEAD, raw)
    assert magic == MAGIC and version == VERSION
    at = struct.calcsize(HEAD)
    counts = np.frombuffer(raw, "<u2", longest + 1, at)
    at += counts.nbytes
    scales = np.frombuffer(raw, "<f4", many, at)
    at += scales.nbytes + 2 * slots
    pieces = []
    for length, count in enumerate(counts):
        for _ in range(count):
            piece = raw[at : at + length].decode()
            pieces.append("#" + piece if piece.startswith("#") else piece)
            at += length
    rows = np.frombuffer(raw, "i1", many * wide, at).reshape(many, wide)
    return name.rstrip(b"\0").decode(), pieces, rows.astype(np.float32) * scales[:, None]
