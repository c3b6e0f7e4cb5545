"""The file that ``nearcal fit`` writes and the other commands read."""

from pathlib import Path

from nearcal.cli._mistakes import Mistake, require_file
from nearcal.cli._tables import FORMATS
from nearcal.models import CalibratedModel, layer_parts
from nearcal.models.adapters import ColumnsModel
from nearcal.persistence import Artefact, read


def load_artefact(path: Path) -> Artefact:
    """Load any file that ``nearcal.save`` wrote."""
    require_file(path, "nearcal fit writes one")
    if path.suffix.lower() in FORMATS:
        raise Mistake(f"{path} is a table, not a model", "the model comes first, then the table")
    return read(path)


def load_model(path: Path) -> tuple[CalibratedModel, ColumnsModel]:
    """Load what ``nearcal fit`` wrote: the calibrated model, and its columns."""
    content = load_artefact(path).content
    if isinstance(content, CalibratedModel) and isinstance(content.model, ColumnsModel):
        return content, content.model
    raise Mistake(
        f"{path} holds a {type(content).__name__} saved from Python, which does not say what columns it takes",
        "make a model with nearcal fit, or use nearcal.load in Python",
    )


def parts_of_space(calibrated: CalibratedModel, columns: ColumnsModel) -> list[str]:
    """Return the spaces of columns that neighbours are looked for in, several where they are joined, or none."""
    return [] if calibrated.layer is None else layer_parts(columns, calibrated.layer)
