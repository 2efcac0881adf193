"""The layers, the homes of heavy libraries, the shape of the tree, held by reading sources."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import networkx as nx
import pytest

ROOT = Path(__file__).parents[1]
COLLECTIONS = ("envs", "agents", "protocols")
LAYERS = (
    {"errors"},
    {"types"},
    {"agent", "answer", "config", "drawing", "env", "experiment", "finetuning", "flow", "game"}
    | {"options", "protocol", "questions", "recorder", "records", "registry", "rendering"}
    | {"rewards", "sandbox", "text", "tools", "view", "walk"},
    {*COLLECTIONS, "wrappers"},
    {"inference", "rollout", "experience", "learner", "league"},
    {"scheduler", "analysis", "testing"},
    {"service", "console", "commands"},
    {"cli"},
)
RANK = {name: rank for rank, names in enumerate(LAYERS) for name in names}
STAGES = ("inference", "rollout", "experience", "learner", "league")
HOMES = {
    "torch": (
        "opentinker/learner/",
        "opentinker/inference/torch_",
        "opentinker/inference/vllm_",
    ),
    "vllm": ("opentinker/inference/vllm_",),
    "ray": ("opentinker/scheduler/cluster.py",),
    "fastapi": ("opentinker/service/",),
}


def _sources() -> dict[str, Path]:
    """Module name -> file; the three linked folders under their own names."""
    found = {}
    for path in sorted((ROOT / "opentinker").glob("**/*.py")):
        if path.relative_to(ROOT / "opentinker").parts[0] not in COLLECTIONS:
            found[".".join(path.relative_to(ROOT).with_suffix("").parts)] = path
    for folder in COLLECTIONS:
        for path in sorted((ROOT / folder).glob("**/*.py")):
            found["opentinker." + ".".join(path.relative_to(ROOT).with_suffix("").parts)] = path
    return {name.removesuffix(".__init__"): path for name, path in found.items()}


SOURCES = _sources()


def _imports(path: Path, *, top: bool = False) -> set[str]:
    """What a file imports, everywhere or (`top`) when it is loaded; `from x import y` as both."""
    found: set[str] = set()
    nodes: list[ast.AST] = [ast.parse(path.read_text(encoding="utf-8"))]
    while nodes:
        node = nodes.pop()
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
        if not (top and isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)):
            nodes += ast.iter_child_nodes(node)
    return found


def _part(module: str) -> str:
    return module.split(".")[1] if "." in module else ""


def _where(path: Path) -> str:
    return str(path.relative_to(ROOT))


def test_every_module_has_a_layer() -> None:
    assert {_part(name) for name in SOURCES if _part(name)} <= RANK.keys()


def test_modules_are_imported_by_their_full_name() -> None:
    """A relative import, or a bare `envs`, would escape the tests below."""
    strays = []
    for path in SOURCES.values():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.level:
                strays.append(f"{_where(path)}: from {'.' * node.level}")
        strays += [
            f"{_where(path)}: {name}"
            for name in _imports(path)
            if name.split(".")[0] in {*COLLECTIONS, "tests", "experiments"}
        ]
    assert SOURCES and not strays


def test_the_reading_of_imports_sees_each_kind(tmp_path: Path) -> None:
    path = tmp_path / "module.py"
    path.write_text(
        "import torch.nn as nn\nfrom opentinker import cli\n"
        "if nn:\n    import ray\n"
        "def later():\n    import vllm\n"
        "class C:\n    from opentinker.types import Turn\n"
    )
    top = {"torch.nn", "opentinker", "opentinker.cli", "ray", "opentinker.types"}
    assert _imports(path, top=True) == {*top, "opentinker.types.Turn"}
    assert _imports(path) == {*top, "opentinker.types.Turn", "vllm"}


def test_imports_go_down_only() -> None:
    upward = [
        f"{_where(path)} imports {name}"
        for module, path in SOURCES.items()
        if _part(module)
        for name in _imports(path, top=True)
        if name.startswith("opentinker.") and RANK[_part(name)] > RANK[_part(module)]
    ]
    assert not upward


def test_stages_never_import_one_another() -> None:
    crossing = [
        f"{_where(path)} imports {name}"
        for module, path in SOURCES.items()
        if _part(module) in STAGES
        for name in _imports(path)
        if name.startswith("opentinker.") and _part(name) in set(STAGES) - {_part(module)}
    ]
    assert not crossing


def test_there_is_no_import_cycle() -> None:
    graph = nx.DiGraph(
        (module, name)
        for module, path in SOURCES.items()
        for name in _imports(path, top=True)
        if name in SOURCES and name != module
    )
    assert nx.is_directed_acyclic_graph(graph), nx.find_cycle(graph)


@pytest.mark.parametrize("library", HOMES)
def test_a_heavy_library_has_one_home(library: str) -> None:
    strays = [
        _where(path)
        for path in SOURCES.values()
        if library in {name.split(".")[0] for name in _imports(path)}
        and not _where(path).startswith(HOMES[library])
    ]
    assert not strays


def test_looking_costs_nothing_heavy() -> None:
    code = (
        "import sys, opentinker, opentinker.cli as cli\n"
        "assert cli.main(['--help']) == 0\n"
        "heavy = {'torch', 'vllm', 'ray', 'fastapi', 'transformers', 'matplotlib'}\n"
        "bad = heavy & set(sys.modules)\n"
        "assert not bad, bad\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


def test_no_module_is_too_long_to_read_in_one_sitting() -> None:
    long = {_where(p): len(p.read_text().splitlines()) for p in SOURCES.values()}
    assert not {name: count for name, count in long.items() if count > 400}


def test_the_library_prints_nothing() -> None:
    printing = [
        _where(path)
        for path in SOURCES.values()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id == "print"
    ]
    assert not printing


@pytest.mark.parametrize("folder", COLLECTIONS)
def test_the_top_level_folders_are_linked_and_no_packages(folder: str) -> None:
    link = ROOT / "opentinker" / folder
    assert link.is_symlink() and os.readlink(link) == f"../{folder}"
    assert not (ROOT / folder / "__init__.py").exists()
    assert (ROOT / folder / "README.md").is_file()


def test_every_experiment_says_what_it_asks_and_found() -> None:
    folders = {path.parent for path in (ROOT / "experiments").glob("*/*.toml")}
    assert folders and all((folder / "README.md").is_file() for folder in folders)
