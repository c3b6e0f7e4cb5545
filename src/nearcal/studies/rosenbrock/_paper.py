"""The paper's table for section 4.2."""

PAPER = {
    "wsir": {"mse": 71.25, "coverage": 95.5, "smis": 0.569},
    "dropout": {"mse": 75.06, "coverage": 99.0, "smis": 0.874},
    "wsir_local": {"mse": 60.52, "coverage": 94.3, "smis": 0.500},
    "dropout_local": {"mse": 60.44, "coverage": 94.7, "smis": 0.499},
    "true": {"mse": 59.64, "coverage": 94.6, "smis": 0.477},
}
PAPER_WIDTHS = [6400, 6400, 240, 240]
PAPER_EPOCHS = 75
