"""What others found: the paper's table, and the authors' R package over 20 seeds."""

PAPER = {
    "linear": {"mse": 14546.25, "kl": 0.8455, "coverage": 93.78, "smis": 2.7475},
    "global": {"mse": 14763.29, "kl": 0.7353, "coverage": 94.65, "smis": 2.7391},
    "local": {"mse": 303.93, "kl": 0.1097, "coverage": 94.96, "smis": 2.0947},
}

R_N, R_K, R_SEEDS = 100_000, 1000, 20
R_MEAN = {
    "linear": {"mse": 14585.0, "coverage": 93.82, "smis": 2.710},
    "global": {"mse": 14598.0, "coverage": 95.01, "smis": 2.692},
    "local": {"mse": 257.0, "coverage": 95.08, "smis": 2.039},
}
# standard deviations over seeds; those of the other two methods were not recorded
R_SD = {"local": {"mse": 82.0, "coverage": 0.30, "smis": 0.023}}
