"""The Lua scripts beside this module: each one is an atomic step that Redis runs as a whole."""

import re
from importlib.resources import files

_INCLUDE = re.compile(r"^-- include (\w+)$", re.MULTILINE)


def lua(name: str) -> str:
    """The text of lua/<name>.lua, with those that it includes."""
    text = files("app.storage").joinpath("lua", f"{name}.lua").read_text(encoding="utf-8")
    return _INCLUDE.sub(lambda found: lua(found[1]), text)
