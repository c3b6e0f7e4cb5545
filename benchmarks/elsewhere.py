"""Whether a compiled file says elsewhere what Python says here: in a new environment of onnxruntime and numpy alone.

    python benchmarks/elsewhere.py

What ``nc.tune`` chooses for 2,000 points in five dimensions, compiled, with Normal, Gamma, quantile and Monte-Carlo
predictions of 10,000 rows, a tenth of them far outside; 99 levels, compared in scores. Writes results/elsewhere.json.
"""

import subprocess
import sys
import tempfile
import venv
from importlib.metadata import version
from pathlib import Path

import numpy as np
import onnx
from timing import save

import nearcal as nc
from nearcal.compiled.bases import family_of

GAMMA_ENDS = 12.0  # scores beyond are read there, as the guide says
POINTS, ROWS, LEVELS, SEED = 2000, 10_000, np.arange(1, 100) / 100, 0
PROGRAM = """
import sys
import numpy as np
import onnxruntime

for name in sys.argv[2:]:
    inputs = np.load(f"{sys.argv[1]}/{name}.npz")
    session = onnxruntime.InferenceSession(f"{sys.argv[1]}/{name}.onnx", providers=["CPUExecutionProvider"])
    answers = session.run(["quantiles", "out_of_distribution"], dict(inputs))
    np.savez(f"{sys.argv[1]}/{name}-answers.npz", quantiles=answers[0], flags=answers[1])
print(*sorted(name for name in sys.modules if name in ("nearcal", "scipy", "numba", "torch")))
"""


def compiled_choice(rng):
    """Return what is chosen, compiled: the spread of errors follows one column, their mean another."""
    space = rng.normal(size=(POINTS, 5))
    y = 0.8 * np.sin(2 * space[:, 1]) + np.exp(0.5 * space[:, 0]) * rng.normal(size=POINTS)
    base = nc.Normal(np.zeros(POINTS), 1.0)
    chosen = nc.tune(base, y, space, workers=nc.Workers(progress=False)).recalibrator
    return nc.compile(chosen, dist_cal=base, tolerance=0.1)


def predictions(rng):
    """Return predictions of every kind."""
    location, spread = rng.normal(size=ROWS), rng.uniform(0.5, 2.0, size=ROWS)
    levels = np.array([0.025, 0.1, 0.25, 0.5, 0.75, 0.9, 0.975])
    return {
        "normal": nc.Normal(location, spread),
        "gamma": nc.Gamma(rng.uniform(0.5, 50.0, size=ROWS), spread),
        "quantiles": nc.Quantiles(levels, np.sort(rng.normal(size=(ROWS, len(levels))), axis=1)),
        "samples": nc.Samples(rng.normal(size=(ROWS, 100))),
    }


def python_of(folder):
    """Return the interpreter of a new environment with these two packages alone."""
    venv.create(folder, with_pip=True)
    python = folder / "bin" / "python"
    packages = [f"{name}=={version(name)}" for name in ("onnxruntime", "numpy")]
    subprocess.run([python, "-m", "pip", "install", "--quiet", *packages], check=True)
    return python


def main():
    """Compile, export, run elsewhere, compare and write."""
    rng = np.random.default_rng(SEED)
    compiled = compiled_choice(rng)
    space = rng.normal(size=(ROWS, 5)) * np.where(np.arange(ROWS) % 10 == 0, 1e3, 1.0)[:, np.newaxis]
    bases, results = predictions(rng), {"form": compiled.loss_.form}
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        for name, base in bases.items():
            path = compiled.to_onnx(folder / f"{name}.onnx", base, levels=LEVELS)
            onnx.checker.check_model(onnx.load(path), full_check=True)
            np.savez(folder / f"{name}.npz", position=space, **family_of(base).parameters(base))
        program = [python_of(folder / "environment"), "-c", PROGRAM, folder, *bases]
        done = subprocess.run(program, check=True, capture_output=True, text=True)
        assert not done.stdout.strip(), f"loaded {done.stdout}"
        for name, base in bases.items():
            out = compiled.recalibrate(base, space)
            with np.load(folder / f"{name}-answers.npz") as answers:
                ends = GAMMA_ENDS if name == "gamma" else np.inf
                z = [np.clip(base.z(values), -ends, ends) for values in (answers["quantiles"], out.ppf(LEVELS))]
                off = np.abs(z[0] - z[1])
                flags = answers["flags"][:, 0] == out.reliability()["out_of_distribution"]
            results[name] = {"largest difference in z": float(off.max()), "same flags": float(flags.mean())}
    for name, value in results.items():
        print(name, value)
    save("elsewhere", {"seed": SEED, "rows": ROWS, "levels": len(LEVELS), "results": results})
    sys.exit(not all(value["largest difference in z"] < 1e-4 for value in results.values() if isinstance(value, dict)))


if __name__ == "__main__":
    main()
