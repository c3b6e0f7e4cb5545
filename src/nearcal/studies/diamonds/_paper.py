"""The paper's table for section 4.4, of one split."""

PAPER = {
    "glm_base": (798.9, 0.955, 0.982, 0.997),
    "glm_isotonic": (789.3, 0.894, 0.949, 0.991),
    "glm_density": (796.0, 0.956, 0.982, 0.997),
    "glm_local": (751.2, 0.898, 0.946, 0.986),
    "nn_base": (557.8, 0.933, 0.966, 0.987),
    "nn_isotonic": (557.8, 0.898, 0.947, 0.988),
    "nn_density": (558.0, 0.934, 0.965, 0.987),
    "nn_local": (542.8, 0.896, 0.944, 0.986),
}
MEASURES = ("rmse", "coverage_90", "coverage_95", "coverage_99")
