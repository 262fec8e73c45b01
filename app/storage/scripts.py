"""The Lua scripts beside this module: each one is an atomic step that Redis runs as a whole."""

from importlib.resources import files


def lua(name: str) -> str:
    """The text of lua/<name>.lua."""
    return files("app.storage").joinpath("lua", f"{name}.lua").read_text(encoding="utf-8")
