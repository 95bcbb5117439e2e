"""Trains the table: one row per word piece, so that the sum of a text's rows points where the teacher's sentence vector points."""
import numpy as np
from scipy.sparse import csr_matrix


def bags(lists, width):
    """Texts as a sparse matrix of how often each row occurs."""
    ends = np.cumsum([0] + [len(x) for x in lists])
    cols = np.concatenate([np.asarray(x, np.int32) for x in lists if len(x)]) if ends[-1] else np.zeros(0, np.int32)
    m = csr_matrix((np.ones(len(cols), np.float32), cols, ends), shape=(len(lists), width))
    m.sum_duplicates()
    return m


def unit(v):
    return v / np.maximum(np.linalg.norm(v, axis=1, keepdims=True), 1e-9)


def embed(table, matrix):
    return unit(matrix @ table)


class Batch:
    """Forward and backward of a batch of bags; only the rows that occur are touched."""

    def __init__(self, table, matrix):
        self.rows, cols = np.unique(matrix.indices, return_inverse=True)
        self.m = csr_matrix((matrix.data, cols, matrix.indptr), shape=(matrix.shape[0], len(self.rows)))
        sums = self.m @ table[self.rows]
        self.norm = np.maximum(np.linalg.norm(sums, axis=1, keepdims=True), 1e-6)
        self.x = sums / self.norm

    def back(self, grad):
        grad = (grad - self.x * (self.x * grad).sum(1, keepdims=True)) / self.norm
        return self.m.T @ grad


class Adam:
    """Adam that moves only the rows a batch has touched."""

    def __init__(self, table):
        self.m = np.zeros_like(table)
        self.v = np.zeros_like(table)
        self.seen = np.zeros((len(table), 1), np.float32)

    def step(self, table, rows, grad, rate):
        self.seen[rows] += 1
        self.m[rows] = m = 0.9 * self.m[rows] + 0.1 * grad
        self.v[rows] = v = 0.999 * self.v[rows] + 0.001 * grad * grad
        n = self.seen[rows]
        table[rows] -= rate * (m / (1 - 0.9**n)) / (np.sqrt(v / (1 - 0.999**n)) + 1e-8)


def softmax(s):
    s = np.exp(s - s.max(1, keepdims=True))
    return s / s.sum(1, keepdims=True)


def train(table, matrix, target, weight, *, pairs=None, pair_weight=None, steps, batch=512, rate=2e-3, like=10.0, pull=0.3, heat=0.05, guard=0.1, pair_batch=192, seed=0, say=None):
    """Moves `table` in place.

    `target`: unit vectors of the teacher in its evened space; their first dimensions are where bags should point.
    `weight`: how often a text is drawn. `like`: weight of the similarities within a batch.
    `pairs`: (k, 2) texts that belong together; `pull`: weight of the contrast over them. The teacher guards it: what it finds
    nearly as near as the pair itself (`guard`) is no counterexample.
    """
    table = np.ascontiguousarray(table, np.float32)
    rng = np.random.default_rng(seed)
    p = np.cumsum(weight / weight.sum())
    pp = np.cumsum(pair_weight / pair_weight.sum()) if pairs is not None else None
    wide = table.shape[1]
    adam, lost = Adam(table), []
    for step in range(steps):
        now = rate * min(1.0, 1.2 * (1 - step / steps), (step + 1) / 100)
        pick = np.minimum(np.searchsorted(p, rng.random(batch)), len(p) - 1)
        if pull:
            chosen = pairs[np.minimum(np.searchsorted(pp, rng.random(pair_batch)), len(pp) - 1)]
            pick = np.concatenate([pick, chosen[:, 0], chosen[:, 1]])
        b = Batch(table, matrix[pick])
        t = target[pick].astype(np.float32)
        x, y = b.x[:batch], unit(t[:batch, :wide])
        grad = np.zeros_like(b.x)
        grad[:batch] = -y / batch
        off = x @ x.T - t[:batch] @ t[:batch].T
        grad[:batch] += (4 * like / batch**2) * (off @ x)
        loss = (1 - (x * y).sum(1)).mean() + like * (off * off).mean()
        if pull:
            k = pair_batch
            a, c = b.x[batch : batch + k], b.x[batch + k :]
            ta, tc = t[batch : batch + k], t[batch + k :]
            near = ta @ tc.T
            own = np.diag(near).copy()
            s = a @ c.T / heat
            same = chosen[:, 1][:, None] == chosen[:, 1][None, :]
            left = (near > own[:, None] - guard) | same
            right = (near.T > own[:, None] - guard) | same
            np.fill_diagonal(left, False)
            np.fill_diagonal(right, False)
            sl = softmax(np.where(left, -1e4, s))
            sr = softmax(np.where(right, -1e4, s.T))
            loss += pull * -(np.log(np.diag(sl) + 1e-9).mean() + np.log(np.diag(sr) + 1e-9).mean()) / 2
            sl[np.arange(k), np.arange(k)] -= 1
            sr[np.arange(k), np.arange(k)] -= 1
            g = (sl + sr.T) * (pull / (2 * k * heat))
            grad[batch : batch + k] = g @ c
            grad[batch + k :] = g.T @ a
        adam.step(table, b.rows, b.back(grad), now)
        lost.append(loss)
        if say and (step + 1) % 1000 == 0:
            say(f"step {step + 1} loss {np.mean(lost[-1000:]):.4f}")
    return table


def space(target, weight, keep=300, flat=0.3):
    """The teacher's space for training: its directions, strongest first, and partly evened out.

    Sentence vectors of one trade share most of their length; without evening out, few dimensions would be spent on the
    differences between tools. The first dimensions alone are what the table aims at.
    """
    rng = np.random.default_rng(1)
    pick = rng.choice(len(target), min(len(target), 60000), p=weight / weight.sum(), replace=True)
    v = target[pick].astype(np.float64)
    strength, directions = np.linalg.eigh(v.T @ v)
    strength, directions = strength[::-1][:keep], directions[:, ::-1][:, :keep]
    # The sign of a direction is free; fixed so that every run and machine agrees.
    sign = np.sign(directions[np.abs(directions).argmax(0), np.arange(keep)])
    return (directions * sign * (strength / strength[0]) ** -flat).astype(np.float32)


def start(vectors, counts, project):
    """Rows to begin with: the teacher's vector of the piece alone, common ones shorter."""
    v = (vectors - vectors.mean(0)) @ project
    share = counts / counts.sum()
    return (unit(v) * (1e-3 / (1e-3 + share))[:, None]).astype(np.float32)


def quantised(table):
    """int8 with a scale per row: (rows, scales)."""
    scale = np.maximum(np.abs(table).max(1), 1e-9) / 127
    return np.clip(np.rint(table / scale[:, None]), -127, 127).astype(np.int8), scale.astype(np.float32)
