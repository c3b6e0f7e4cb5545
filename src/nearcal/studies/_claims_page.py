"""The page of all claims, generated from the results of the studies."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from nearcal._atomic import replacing
from nearcal.studies._claims import Claim
from nearcal.studies._general_claims import NEEDED, judge_general_claims
from nearcal.studies._studies import STUDIES

_VERDICTS = ("holds", "holds partly", "does not hold")


def write_claims(folder: Path | str) -> Path:
    """Write ``folder/claims.md`` from the ``results.json`` of the studies below the folder; return its path.

    A claim holds if all conditions of its rule are met by the numbers, holds partly if some are, and else does not
    hold. Studies without results are named as such.
    """
    folder = Path(folder)
    results = _read_results(folder)
    judged: list[Claim] = []
    blocks = []
    for name, study in STUDIES.items():
        claims = study.claims(results[name]) if name in results else []
        blocks.append(_section(study.title, [f"{name}, {claim.figure}" for claim in claims], claims, [name]))
        judged += claims
    general = judge_general_claims(results) if all(name in results for name in NEEDED) else []
    title = "Background, methods and conclusion (sections 2, 3 and 5)"
    blocks.append(_section(title, [claim.figure for claim in general], general, NEEDED))
    path = folder / "claims.md"
    with replacing(path) as file:
        file.write(("\n\n".join([_head([*judged, *general]), *blocks]) + "\n").encode())
    return path


def _read_results(folder: Path) -> dict[str, Mapping[str, Any]]:
    paths = {name: folder / name / "results.json" for name in STUDIES}
    return {name: json.loads(path.read_text())["results"] for name, path in paths.items() if path.exists()}


def _head(claims: Sequence[Claim]) -> str:
    counts = ", ".join(f"{sum(c.verdict == verdict for c in claims)} {verdict}" for verdict in _VERDICTS)
    return (
        "# Claims of the paper\n\n"
        "Generated from the results beside this file; nothing is typed. Every claim has a rule: conditions on the "
        "numbers. It holds if all are met, holds partly if some are, and else does not hold. "
        f"Of {len(claims)} claims: {counts}."
    )


def _section(title: str, shown_by: Sequence[str], claims: Sequence[Claim], studies: Sequence[str]) -> str:
    if not claims:
        commands = ", ".join(f"`nearcal reproduce {name}`" for name in studies)
        return f"## {title}\n\nNo results yet: {commands}."
    blocks = [_block(claim, shown) for claim, shown in zip(claims, shown_by, strict=True)]
    return "\n\n".join([f"## {title}", *blocks])


def _block(claim: Claim, shown_by: str) -> str:
    rule = "\n".join(f"  - [{'x' if met else ' '}] {condition}" for condition, met in claim.parts.items())
    return (
        f"**{claim.verdict}** ({claim.section}): {claim.text}\n\n"
        f"- Rule:\n{rule}\n"
        f"- Numbers: {claim.evidence}\n"
        f"- Shown by: {shown_by}"
    )
