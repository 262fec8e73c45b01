"""What only a checkout has: the method leaderboard and the experiments of the papers."""

import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType

from app.errors import CommandError

_ROOT = Path(__file__).parents[2]


def research(name: str) -> ModuleType:
    """The module `research.<name>`; a `CommandError` where sirocco is installed without it."""
    if (_ROOT / "research" / "__init__.py").exists() and str(_ROOT) not in sys.path:
        # Behind everything else, so that no folder of the checkout hides an installed package.
        sys.path.append(str(_ROOT))
    try:
        return import_module(f"research.{name}")
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] != "research":
            raise
        raise CommandError(
            "this command runs in a checkout of sirocco's repository only: what it needs is not"
            " part of the installed product"
        ) from None
