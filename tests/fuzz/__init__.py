"""Random attacks, seeded: whatever is put in, a right number comes out, or an error that says why.

A few cases of everything run in the normal suite; ``scripts/test --fuzz`` runs many, ``--fuzz-seed`` moves on to
others. Each subject (a class, a command, a kernel) has cases of its own, which depend on its name, the seed and their
number alone, so that a defect is found again by the line that reports it.
"""
