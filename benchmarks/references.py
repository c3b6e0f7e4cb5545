"""What a careful user would write with general libraries: search, weights, moments and sorted weighted quantiles."""

import numpy as np

CHUNK = 1024


def summarise(distances, indices, z, mean_new, sigma):
    """Mean, standard deviation and 95% interval of each row from its neighbours, in numpy."""
    weights = 1 - (distances / distances.max(axis=1, keepdims=True)) ** 2
    weights /= weights.sum(axis=1, keepdims=True)
    values = mean_new[:, None] + sigma * z[indices]
    mean = np.einsum("ij,ij->i", weights, values)
    std = np.sqrt(np.einsum("ij,ij->i", weights, (values - mean[:, None]) ** 2))
    order = np.argsort(values, axis=1)
    cumulated = np.cumsum(np.take_along_axis(weights, order, axis=1), axis=1)
    rows = np.arange(len(values))
    lower, upper = (values[rows, order[rows, (cumulated >= p - 1e-12).argmax(axis=1)]] for p in (0.025, 0.975))
    return mean, std, lower, upper


def in_chunks(search, data):
    """Run a search and the summary over chunks of rows."""
    parts = []
    for start in range(0, len(data.space_new), CHUNK):
        rows = slice(start, start + CHUNK)
        distances, indices = search(data.space_new[rows])
        parts.append(summarise(distances, indices, data.z, data.mean_new[rows], data.sigma))
    return [np.concatenate(column) for column in zip(*parts, strict=True)]


def kd_tree(data, k, eps, threads):
    """Search with scipy's cKDTree: reference (a)."""
    from scipy.spatial import cKDTree

    tree = cKDTree(data.space)
    return lambda x: tree.query(x, k=k, eps=eps, workers=threads)


def faiss_flat(data, k, eps, threads):
    """Search with faiss, exhaustively in single precision: reference (b)."""
    import faiss

    faiss.omp_set_num_threads(threads)
    index = faiss.IndexFlatL2(data.space.shape[1])
    index.add(data.space.astype(np.float32))

    def search(x):
        squares, indices = index.search(x.astype(np.float32), k)
        return np.sqrt(np.maximum(squares.astype(np.float64), 0)), indices

    return search


def scikit_learn(data, k, eps, threads):
    """Search with scikit-learn's NearestNeighbors, algorithm="auto": reference (c)."""
    from sklearn.neighbors import NearestNeighbors

    return NearestNeighbors(n_neighbors=k, n_jobs=threads).fit(data.space).kneighbors


REFERENCES = {"cKDTree + numpy": kd_tree, "faiss flat + numpy": faiss_flat, "scikit-learn + numpy": scikit_learn}


def knn_regression(data, k, threads):
    """Predict with scikit-learn's k-nearest-neighbour regression, a mean without distribution: context (d)."""
    from sklearn.neighbors import KNeighborsRegressor

    return KNeighborsRegressor(n_neighbors=k, n_jobs=threads).fit(data.space, data.z).predict
