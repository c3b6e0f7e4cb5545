"""Optional packages: imported where they are used, with an error that names the extra."""

import importlib
from types import ModuleType

from nearcal._errors import MissingExtraError


def import_extra(module: str, extra: str, purpose: str) -> ModuleType:
    """Import an optional module or say which extra of nearcal provides it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        package = module.partition(".")[0]
        raise MissingExtraError(
            f"{purpose} needs the package {package!r}, which is not installed; "
            f'install it with: pip install "nearcal[{extra}]"'
        ) from error
