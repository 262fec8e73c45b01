"""The rules of the house, read from the source itself; a failure lists what breaks one."""

import ast
import importlib
import sys
from collections import Counter, defaultdict
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGES = ("app", "calibrators", "evaluation", "pccem", "sirocco_client")
FOLDERS = {name: ROOT / name for name in PACKAGES[:-1]}
FOLDERS["sirocco_client"] = ROOT / "clients/python/sirocco_client"
SOURCES = sorted(path for folder in FOLDERS.values() for path in folder.rglob("*.py"))
BESIDE = sorted(path for name in ("research", "benchmarks") for path in (ROOT / name).rglob("*.py"))
INSIDE = {
    "app": {"app", "calibrators", "evaluation", "pccem"},
    "evaluation": {"evaluation", "calibrators", "pccem"},
    "calibrators": {"calibrators"},
    "pccem": {"pccem"},
    "sirocco_client": {"sirocco_client"},
}
STANDARD = set(sys.stdlib_module_names)
NEEDED = {
    "calibrators": {"numpy", "scipy", "calibrators"},
    "pccem": {"numpy", "scipy", "lightgbm", "pccem"},
    # It is installed where nothing of the service is.
    "sirocco_client": {"httpx", "numpy", "sirocco_client"},
}
BASE = {"errors", "log_lines", "settings", "strict_json", "tracing", "whole_files"}
ROOMS = {
    "app": {
        "errors": set(),
        "log_lines": {"settings"},
        "object_stores": set(),
        "tracing": {"settings"},
        "settings": set(),
        "strict_json": set(),
        "whole_files": {"errors"},
        "storage": BASE,
        "events": {*BASE, "storage"},
        "columns": {*BASE, "events", "storage"},
        "click_log": {*BASE, "object_stores", "storage"},
        "access": {*BASE, "storage"},
        "api": {*BASE, "access", "columns", "events", "storage"},
        "worker": {*BASE, "click_log", "storage"},
        "datasets": {*BASE, "click_log", "object_stores"},
        "lake": {*BASE, "click_log", "datasets", "object_stores", "storage", "worker"},
        "results": BASE,
        "reports": {*BASE, "results"},
        "cli": {
            *BASE,
            *("access", "api", "click_log", "datasets", "lake"),
            *("reports", "results", "storage", "worker"),
        },
    },
    "evaluation": {
        "metrics": set(),
        "bootstrap": {"metrics"},
        "streaming": {"metrics"},
        "fields": {"metrics", "streaming"},
        "auction": {"metrics"},
        "ab_test": {"metrics"},
        "backtest": {"metrics"},
        "estimators": {"backtest"},
        "simulation": {"backtest", "metrics"},
        "comparison": {"backtest", "bootstrap", "metrics"},
    },
    "calibrators": {
        "samples": set(),
        "arms": set(),
        "peers": set(),
        "bins": {"samples", "peers"},
        "names": {"samples", "bins"},
        "fields": {"samples", "names", "bins"},
        "maps": {"samples", "names", "bins", "fields"},
        "methods": {"samples", "bins", "maps", "peers"},
        "pooled": {"samples", "bins", "fields", "maps", "methods", "peers"},
        "guard": {"samples", "bins", "fields", "maps"},
        "evidence": {"samples", "bins"},
        "canary": {"samples"},
        "registry": {"maps", "methods", "pooled"},
        "model_versions": {"samples", "bins", "maps", "methods", "peers", "pooled"},
    },
}
"""The arrows between rooms: what each may import, besides itself."""

UNSAFE_MODULES = {"pickle", "cPickle", "dill", "cloudpickle", "joblib", "marshal", "shelve"}
UNSAFE_CALLS = {"eval", "exec", "compile", "__import__", "yaml.load", "yaml.unsafe_load"}
VAGUE = {"utils", "util", "helpers", "helper", "common", "misc", "manager", "service"}
LONGEST_FILE = 500
# One list: every setting with its rule and what it is for.
LONGER_FILES = {ROOT / "app/settings.py": 650}
MOST_IN_A_FOLDER = 18
MOST_FILES = 340
MOST_LINES = 78_478
MOST_PERCENT_WITH_ONE_IMPORTER = 15


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), str(path))


@cache
def imports_of(path: Path) -> list[str]:
    """Full names of what is imported anywhere in a file, also inside functions."""
    found: list[str] = []
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Import):
            found += (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: a relative import hides where it leads"
            found.append(str(node.module))
            found += (f"{node.module}.{alias.name}" for alias in node.names)
    return found


def roots_of(path: Path) -> set[str]:
    return {name.partition(".")[0] for name in imports_of(path)}


def package_of(path: Path) -> str:
    return next(name for name, folder in FOLDERS.items() if path.is_relative_to(folder))


def module_of(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    parts = parts[2:] if parts[0] == "clients" else parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def test_the_walk_sees_the_source():
    assert {package_of(path) for path in SOURCES} == set(PACKAGES)
    assert all(len(SOURCES) > len(rooms) for rooms in ROOMS.values())


def test_packages_import_inwards():
    """app -> evaluation -> {calibrators, pccem}, never back, nor what is beside the product."""
    ours = {*PACKAGES, "tests", "benchmarks", "research", "clients"}
    assert not {
        f"{module_of(path)} imports {root}"
        for path in SOURCES
        for root in roots_of(path) & ours - INSIDE[package_of(path)]
    }


def test_the_core_needs_few_libraries():
    assert not {
        f"{module_of(path)} imports {root}"
        for path in SOURCES
        if package_of(path) in NEEDED
        for root in roots_of(path) - NEEDED[package_of(path)] - STANDARD
    }


@pytest.mark.parametrize("package", ROOMS)
def test_rooms_import_one_way(package):
    rooms = ROOMS[package]
    wrong = set()
    for path in (FOLDERS[package]).rglob("*.py"):
        room = (path.relative_to(FOLDERS[package]).with_suffix("")).parts[0]
        if room == "__init__":
            continue
        assert room in rooms, f"{package}/{room}: which rooms may it import?"
        for name in imports_of(path):
            parts = name.split(".")
            if parts[0] == package and len(parts) > 1 and parts[1] in rooms.keys() - {room}:
                wrong |= (
                    {f"{module_of(path)} imports {name}"} if parts[1] not in rooms[room] else set()
                )
    assert not wrong


def test_nothing_read_from_outside_can_run():
    """No pickle, no eval, no unsafe YAML; arrays are loaded without objects."""
    for path in [*SOURCES, *BESIDE]:
        calls = [node for node in ast.walk(tree_of(path)) if isinstance(node, ast.Call)]
        names = {ast.unparse(call.func) for call in calls}
        keywords = {keyword.arg for call in calls for keyword in call.keywords}

        assert not UNSAFE_MODULES & set(imports_of(path)), path
        assert not UNSAFE_CALLS & names, path
        assert "allow_pickle" not in keywords, path


def test_a_newcomer_finds_their_way():
    """Few files of readable length, few of them in a folder, named by nouns of the field."""
    lengths = {path: len(path.read_text(encoding="utf-8").splitlines()) for path in SOURCES}
    folders = Counter(path.parent for path in SOURCES)

    assert not {
        path for path, lines in lengths.items() if lines > LONGER_FILES.get(path, LONGEST_FILE)
    }
    assert not {folder for folder, files in folders.items() if files > MOST_IN_A_FOLDER}
    assert not {p for p in SOURCES if VAGUE & {p.stem, *p.relative_to(ROOT).parts[:-1]}}
    assert len(SOURCES) <= MOST_FILES
    assert sum(lengths.values()) <= MOST_LINES


def test_few_files_are_cut_out_of_their_only_importer():
    modules = {module_of(path): path for path in SOURCES}
    importers = defaultdict(set)
    for path in [*SOURCES, *BESIDE]:
        for name in set(imports_of(path)) & modules.keys() - {module_of(path)}:
            importers[modules[name]].add(path)
    alone = [p for p in SOURCES if p.name != "__init__.py" and len(importers[p]) == 1]

    assert round(100 * len(alone) / len(SOURCES)) <= MOST_PERCENT_WITH_ONE_IMPORTER, alone


def test_a_class_name_stands_once():
    names = Counter(
        node.name
        for path in SOURCES
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    )
    assert not {name for name, times in names.items() if times > 1}


def public_names(path: Path) -> list[str] | None:
    for node in tree_of(path).body:
        targets = node.targets if isinstance(node, ast.Assign) else []
        if any(isinstance(target, ast.Name) and target.id == "__all__" for target in targets):
            assert isinstance(node, ast.Assign)
            return list(ast.literal_eval(node.value))
    return None


def test_all_is_sorted_and_true():
    """Every listed name is there, everything imported is listed, sorted as ruff sorts:
    constants, classes, functions."""
    for path in SOURCES:
        listed = public_names(path)
        if listed is None:
            continue
        module = importlib.import_module(module_of(path))
        imported = {
            alias.asname or alias.name
            for node in tree_of(path).body
            if isinstance(node, ast.ImportFrom)
            and package_of(path) == str(node.module).split(".")[0]
            for alias in node.names
        }
        kinds = [(not name.isupper(), not name[:1].isupper(), name) for name in listed]

        assert kinds == sorted(set(kinds)), path
        assert all(hasattr(module, name) for name in listed), path
        assert path.name != "__init__.py" or imported == set(listed), path


def test_packages_say_what_is_public_and_that_they_are_typed():
    for package, folder in FOLDERS.items():
        assert (folder / "py.typed").is_file(), package
        assert package == "app" or public_names(folder / "__init__.py"), package
