"""Data and base models of the studies: regression sets, the paper's simulation, and four kinds of model on them."""

import copy
import warnings

import lightgbm
import numpy as np
import torch
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LinearRegression
from sklearn.neural_network import MLPRegressor
from torch import nn

import nearcal as nc

TABLES = ["yacht", "boston", "energy", "concrete", "wine_red", "power", "kin8nm", "naval", "protein"]
SETS = [*TABLES, "diamonds", "simulation"]
BASES = ["linear", "network", "network with σ", "LightGBM quantiles"]
SIMULATED_ROWS = 10_000
MOST_ROWS = (10_000, 2_000, 2_000)  # to train on, to calibrate with, to judge
LEVELS = (0.025, 0.05, 0.1, 0.2, 0.35, 0.5, 0.65, 0.8, 0.9, 0.95, 0.975)


def load(name, folder, seed):
    """Return inputs and response of a set; the simulation is drawn anew for every seed."""
    if name == "simulation":
        return simulate(SIMULATED_ROWS, seed)
    if name == "diamonds":
        data = nc.datasets.load_diamonds()
        return np.asarray(data.X, dtype=np.float64), np.asarray(data.y, dtype=np.float64) / 1000
    data = np.load(folder / f"{name}.npz")
    return data["X"].astype(np.float64), data["y"].astype(np.float64)


def simulate(n, seed):
    """Return the paper's simulation: twenty correlated inputs, of which the last ten tell nothing."""
    rng = np.random.default_rng(seed)
    x = np.empty((n, 20))
    x[:, 0] = rng.normal(size=n)
    for j in range(1, 20):
        x[:, j] = 0.5 * x[:, j - 1] + np.sqrt(0.75) * rng.normal(size=n)
    y = 5 + 10 * x[:, 0] + 10 / (x[:, 1] ** 2 + 1) + 5 * x[:, 2] * x[:, 3] + 2 * x[:, 3] + 5 * x[:, 3] ** 2
    y += 5 * x[:, 4] + 2 * x[:, 5] + 10 / (x[:, 6] ** 2 + 1) + 5 * x[:, 7] * x[:, 8] + 5 * x[:, 8] ** 2 + 5 * x[:, 9]
    return x, y + rng.normal(size=n)


def split(name, folder, seed):
    """Return standardised inputs and responses of the training, calibration and judged rows: 60%, 20%, 20%, capped."""
    x, y = load(name, folder, seed)
    parts = np.split(np.random.default_rng(seed).permutation(len(y)), [int(0.6 * len(y)), int(0.8 * len(y))])
    spread = x[parts[0]].std(axis=0)
    x = (x - x[parts[0]].mean(axis=0)) / np.where(spread > 0, spread, 1.0)
    y = (y - y[parts[0]].mean()) / y[parts[0]].std()
    return [(x[rows[:most]], y[rows[:most]]) for rows, most in zip(parts, MOST_ROWS, strict=True)]


def train(base, x, y, seed, hidden=(50, 50)):
    """Return a trained model and the options that ``nearcal.calibrate`` needs to read it."""
    if base == "linear":
        return LinearRegression().fit(x, y), {}
    if base == "network":
        network = MLPRegressor(hidden_layer_sizes=hidden, early_stopping=True, max_iter=300, random_state=seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            return network.fit(x, y), {}
    if base == "network with σ":
        return train_normal_network(x, y, seed, hidden), {"head": "normal"}
    options = {"objective": "quantile", "n_jobs": 1, "random_state": seed, "verbose": -1}
    return [lightgbm.LGBMRegressor(alpha=level, **options).fit(x, y) for level in LEVELS], {}


def train_normal_network(x, y, seed, hidden, epochs=150, patience=10):
    """Return a network for (μ, log σ), trained on the likelihood; the best epoch by a tenth of the rows is kept."""
    torch.manual_seed(seed)
    widths = [x.shape[1], *hidden]
    layers = [part for pair in zip(widths, widths[1:]) for part in (nn.Linear(*pair), nn.ReLU())]  # noqa: B905, RUF007
    network = nn.Sequential(*layers, nn.Linear(widths[-1], 2))
    optimizer = torch.optim.Adam(network.parameters(), lr=1e-3)
    x, y = torch.tensor(x, dtype=torch.float32), torch.tensor(y, dtype=torch.float32)
    held_out, rows = torch.randperm(len(y)).split([len(y) // 10, len(y) - len(y) // 10])
    size = min(200, max(32, len(rows) // 30))
    best, kept, waited = np.inf, None, 0
    for _ in range(epochs):
        for batch in rows[torch.randperm(len(rows))].split(size):
            optimizer.zero_grad()
            negative_log_likelihood(network(x[batch]), y[batch]).backward()
            optimizer.step()
        with torch.no_grad():
            loss = float(negative_log_likelihood(network(x[held_out]), y[held_out]))
        waited += 1
        if loss < best:
            best, kept, waited = loss, copy.deepcopy(network.state_dict()), 0
        if waited == patience:
            break
    network.load_state_dict(kept)
    return network.eval()


def negative_log_likelihood(output, y):
    """Return the mean negative log-likelihood of Normal distributions, σ kept above e⁻⁶."""
    mean, log_std = output[:, 0], output[:, 1].clamp(min=-6.0)
    return (log_std + 0.5 * ((y - mean) / log_std.exp()) ** 2).mean()


def hidden_layers(name):
    """Return the widths of a network's hidden layers: for the simulation the paper's small network."""
    return (5, 5, 5, 5) if name == "simulation" else (50, 50)
