"""What only a checkout has: the leaderboard of methods and the experiments of the papers."""

import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType

from app.errors import CommandError

ROOT = Path(__file__).parents[2]


def in_checkout() -> bool:
    """Whether this is one, and no installed product."""
    return (ROOT / "research" / "__init__.py").exists()


def research(name: str) -> ModuleType:
    """The module `research.<name>`; a `CommandError` where sirocco is installed without it."""
    if not in_checkout():
        raise CommandError(
            "this command runs in a checkout of sirocco's repository only: what it needs is not"
            " part of the installed product"
        )
    if str(ROOT) not in sys.path:
        # Behind everything else, so that no folder of the checkout hides an installed package.
        sys.path.append(str(ROOT))
    return import_module(f"research.{name}")
