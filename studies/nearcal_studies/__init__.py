"""The studies of nearcal: the paper's four, reproduced, and three of its own on real data.

``scripts/reproduce NAME`` runs them. A study is a list of units of work and a conclusion; finished units are kept, so
that an interrupted run continues.
"""
