"""The page of all claims, generated from the results of the studies."""

import json
from collections.abc import Sequence
from pathlib import Path

from nearcal.persistence._atomic import replacing
from nearcal.studies._claims import Claim
from nearcal.studies._studies import STUDIES

_VERDICTS = ("holds", "holds partly", "does not hold")


def write_claims(folder: Path | str) -> Path:
    """Write ``folder/claims.md`` from the ``results.json`` of the studies below the folder; return its path.

    A claim holds if all conditions of its rule are met by the numbers, holds partly if some are, and else does not
    hold. Studies without results are named as such.
    """
    folder = Path(folder)
    blocks: list[str] = []
    claims: list[Claim] = []
    for name, study in STUDIES.items():
        path = folder / name / "results.json"
        blocks.append(f"## {study.title}")
        if not path.exists():
            blocks.append(f"No results yet: `nearcal reproduce {name}`.")
            continue
        judged = study.claims(json.loads(path.read_text())["results"])
        claims += judged
        blocks += [_block(claim, name) for claim in judged]
    path = folder / "claims.md"
    with replacing(path) as file:
        file.write(("\n\n".join([_head(claims), *blocks]) + "\n").encode())
    return path


def _head(claims: Sequence[Claim]) -> str:
    counts = ", ".join(f"{sum(c.verdict == verdict for c in claims)} {verdict}" for verdict in _VERDICTS)
    return (
        "# Claims of the paper\n\n"
        "Generated from the results beside this file; nothing is typed. Every claim has a rule: conditions on the "
        "numbers. It holds if all are met, holds partly if some are, and else does not hold. "
        f"Of {len(claims)} claims: {counts}."
    )


def _block(claim: Claim, study: str) -> str:
    rule = "\n".join(f"  - [{'x' if met else ' '}] {condition}" for condition, met in claim.parts.items())
    return (
        f"**{claim.verdict}** ({claim.section}): {claim.text}\n\n"
        f"- Rule:\n{rule}\n"
        f"- Numbers: {claim.evidence}\n"
        f"- Shown by: {study}, {claim.figure}"
    )
