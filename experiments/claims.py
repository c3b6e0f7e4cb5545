"""Write results/claims.md from the results of the studies: ``python experiments/claims.py``."""

from pathlib import Path

from nearcal.studies import write_claims

if __name__ == "__main__":
    print(write_claims(Path(__file__).parent / "results"))
