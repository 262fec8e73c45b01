"""Read by every Python process that a test starts, for it is on PYTHONPATH: LightGBM and the client
of Redis are imported as an installation of sirocco has them, without what they would take from the
environment of the tests: pandas, scikit-learn, Matplotlib and Dask, which are four fifths of the
2.7 s of CPU of the one, and the metrics of OpenTelemetry, a third of the 0.3 s of the other. Arrow
does not find pandas either, which it would import with its first array, for 0.3 s."""

import sys
from functools import partial
from importlib.machinery import PathFinder

HIDDEN = {
    "lightgbm": ("dask", "matplotlib", "pandas", "sklearn"),
    "redis": ("opentelemetry.metrics", "opentelemetry.sdk.metrics"),
}


PRODUCT = ("app", "calibrators", "evaluation", "pccem", "pyarrow")


class Lean:
    """Finds these alone, and hides the others while they are imported."""

    @staticmethod
    def find_spec(name, path=None, target=None):
        if name == "pandas" and importer().startswith(PRODUCT):
            raise ModuleNotFoundError(name)
        if name not in HIDDEN:
            return None
        spec = PathFinder.find_spec(name, path)
        if spec is not None and spec.loader is not None:
            spec.loader.exec_module = partial(without_optional, name, spec.loader.exec_module)
        return spec


def importer():
    """The name of the module that imports; Arrow's own has no frame, only who called it."""
    frame = sys._getframe(1)
    while frame.f_globals["__name__"] == __name__ or "importlib" in frame.f_code.co_filename:
        frame = frame.f_back
    return frame.f_globals["__name__"]


def without_optional(name, execute, module):
    """Those that are imported already stay as they are."""
    hidden = [other for other in HIDDEN[name] if other not in sys.modules]
    sys.modules.update(dict.fromkeys(hidden))
    try:
        execute(module)
    finally:
        for other in hidden:
            del sys.modules[other]


sys.meta_path.insert(0, Lean)
