"""nearcal: predictive distributions of regression models, made trustworthy where they are used.

Predictive distributions are frozen batches, one distribution a row; recalibrators learn from a held-out calibration
set and return recalibrated distributions.
"""

import ast
from importlib import import_module
from pathlib import Path
from typing import Any

from nearcal._version import __version__ as __version__


def _read_contents() -> dict[str, str]:
    """Return the module of every public name, from the one list of them: the imports of ``__init__.pyi``.

    Type checkers read that file, and so do we. Names are loaded when first asked for: who predicts needs no tuning, and
    who tunes no report.
    """
    stub = ast.parse(Path(__file__).with_suffix(".pyi").read_text(encoding="utf-8"))
    imports = (node for node in stub.body if isinstance(node, ast.ImportFrom))
    return {alias.name: str(node.module) for node in imports for alias in node.names}


_CONTENTS = _read_contents()
__all__ = sorted(name for name in _CONTENTS if name != "__version__")


def __getattr__(name: str) -> Any:
    if name not in _CONTENTS:
        raise AttributeError(f"module 'nearcal' has no attribute {name!r}")
    home = _CONTENTS[name]
    # a subpackage is an attribute of its parent only once it is imported, and of this one only after this line
    is_subpackage = home == __name__ or not hasattr(import_module(home), name)
    value = import_module(f"{home}.{name}") if is_subpackage else getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
