"""Read by every Python process that a test starts, for it is on PYTHONPATH: LightGBM is imported as
an installation of sirocco has it, without the pandas, scikit-learn, Matplotlib and Dask of the
tests, which are four fifths of the 2.7 s of CPU that its import takes with them."""

import sys
from functools import partial
from importlib.machinery import PathFinder

OPTIONAL = ("dask", "matplotlib", "pandas", "sklearn")


class Lean:
    """Finds LightGBM alone, and hides the others while it is imported."""

    @staticmethod
    def find_spec(name, path=None, target=None):
        if name != "lightgbm":
            return None
        spec = PathFinder.find_spec(name, path)
        if spec is not None and spec.loader is not None:
            spec.loader.exec_module = partial(without_optional, spec.loader.exec_module)
        return spec


def without_optional(execute, module):
    """Those that are imported already stay as they are."""
    hidden = [name for name in OPTIONAL if name not in sys.modules]
    sys.modules.update(dict.fromkeys(hidden))
    try:
        execute(module)
    finally:
        for name in hidden:
            del sys.modules[name]


sys.meta_path.insert(0, Lean)
