"""The rules of the architecture, read from the source itself."""

import ast
import importlib
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGES = ("app", "calibrators", "evaluation", "pccem", "sirocco_client")
FOLDERS = {name: ROOT / name for name in PACKAGES[:-1]}
FOLDERS["sirocco_client"] = ROOT / "clients/python/sirocco_client"
SOURCES = sorted(path for folder in FOLDERS.values() for path in folder.rglob("*.py"))
INSIDE = {
    "app": {"app", "calibrators", "evaluation", "pccem"},
    "evaluation": {"evaluation", "calibrators", "pccem"},
    "calibrators": {"calibrators"},
    "pccem": {"pccem"},
    "sirocco_client": {"sirocco_client"},
}
NUMERIC = {"numpy", "scipy"}
UNSAFE_MODULES = {"pickle", "cPickle", "dill", "cloudpickle", "joblib", "marshal", "shelve"}
UNSAFE_CALLS = {"eval", "exec", "compile", "__import__", "yaml.load", "yaml.unsafe_load"}
LONGEST = 300

each_source = pytest.mark.parametrize("path", SOURCES, ids=lambda p: str(p.relative_to(ROOT)))


def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), str(path))


def imports_of(tree: ast.AST) -> Iterator[str]:
    """Full names of what is imported anywhere in a file, also inside functions."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"line {node.lineno}: a relative import hides where it leads"
            yield str(node.module)
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def roots_of(path: Path) -> set[str]:
    return {name.partition(".")[0] for name in imports_of(tree_of(path))}


def package_of(path: Path) -> str:
    return next(name for name, folder in FOLDERS.items() if path.is_relative_to(folder))


def test_the_walk_sees_the_source() -> None:
    assert {package_of(path) for path in SOURCES} >= set(PACKAGES)


@each_source
def test_imports_point_inwards(path: Path) -> None:
    """app -> evaluation -> {calibrators, pccem}, never back."""
    ours = roots_of(path) & {*PACKAGES, "tests", "benchmarks", "clients"}

    assert ours <= INSIDE[package_of(path)]


@pytest.mark.parametrize("path", [p for p in SOURCES if package_of(p) == "calibrators"], ids=str)
def test_calibrators_need_numpy_scipy_and_the_standard_library_only(path: Path) -> None:
    assert roots_of(path) <= NUMERIC | {"calibrators"} | set(sys.stdlib_module_names)


@pytest.mark.parametrize("path", [p for p in SOURCES if package_of(p) == "pccem"], ids=str)
def test_pccem_needs_numpy_scipy_lightgbm_and_the_standard_library_only(path: Path) -> None:
    assert roots_of(path) <= NUMERIC | {"pccem", "lightgbm"} | set(sys.stdlib_module_names)


@pytest.mark.parametrize("path", [p for p in SOURCES if package_of(p) == "sirocco_client"], ids=str)
def test_the_client_needs_httpx_numpy_and_the_standard_library_only(path: Path) -> None:
    """It is installed where nothing of the service is."""
    assert roots_of(path) <= {"httpx", "numpy", "sirocco_client"} | set(sys.stdlib_module_names)


@each_source
def test_nothing_read_from_outside_can_run(path: Path) -> None:
    """No pickle, no eval, no unsafe YAML; arrays are loaded without objects."""
    tree = tree_of(path)
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    names = {ast.unparse(call.func) for call in calls}
    keywords = {keyword.arg for call in calls for keyword in call.keywords}

    assert not UNSAFE_MODULES & set(imports_of(tree))
    assert not UNSAFE_CALLS & names
    assert "allow_pickle" not in keywords


@each_source
def test_a_file_stays_readable(path: Path) -> None:
    assert len(path.read_text(encoding="utf-8").splitlines()) <= LONGEST


@each_source
def test_names_are_nouns_of_the_field(path: Path) -> None:
    vague = {"utils", "util", "helpers", "helper", "common", "misc", "manager", "service"}

    assert not vague & {path.stem, *path.relative_to(ROOT).parts[:-1]}


def public_names(path: Path) -> list[str] | None:
    for node in tree_of(path).body:
        targets = node.targets if isinstance(node, ast.Assign) else []
        if any(isinstance(target, ast.Name) and target.id == "__all__" for target in targets):
            assert isinstance(node, ast.Assign)
            return list(ast.literal_eval(node.value))
    return None


@pytest.mark.parametrize(
    "path", [p for p in SOURCES if public_names(p) is not None], ids=lambda p: package_of(p)
)
def test_all_is_sorted_and_true(path: Path) -> None:
    """Every listed name is there, everything imported is listed, sorted as ruff sorts:
    constants, classes, functions."""
    listed = public_names(path) or []
    parts = path.relative_to(FOLDERS[package_of(path)].parent).with_suffix("").parts
    module = importlib.import_module(".".join(part for part in parts if part != "__init__"))
    imported = {
        alias.asname or alias.name
        for node in tree_of(path).body
        if isinstance(node, ast.ImportFrom) and package_of(path) == str(node.module).split(".")[0]
        for alias in node.names
    }

    kinds = [(not name.isupper(), not name[:1].isupper(), name) for name in listed]
    assert kinds == sorted(kinds)
    assert len(set(listed)) == len(listed)
    assert all(hasattr(module, name) for name in listed)
    if path.name == "__init__.py":
        assert imported == set(listed)


def test_the_numeric_core_says_what_is_public() -> None:
    assert public_names(ROOT / "calibrators" / "__init__.py")
    assert public_names(ROOT / "evaluation" / "__init__.py")
    assert public_names(ROOT / "pccem" / "__init__.py")


@pytest.mark.parametrize("package", PACKAGES)
def test_each_package_tells_type_checkers_that_it_is_typed(package: str) -> None:
    assert (FOLDERS[package] / "py.typed").is_file()
