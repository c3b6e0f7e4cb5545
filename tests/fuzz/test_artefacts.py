"""Files that were damaged, or forged with the right checksums: the same numbers, or an error that says why.

Every class that can stand in a file is a subject. Its object in the file of some kind is attacked, and what is loaded
is used, in a process of its own: a crash, a hang and gigabytes are defects like any other exception.
"""

import copy
import json
import select
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import nearcal as nc
from nearcal._saved import savable_classes
from nearcal.persistence._encoding import import_savable
from nearcal.persistence._file import read_file
from tests.fuzz.conftest import LONGEST_FIRST
from tests.persistence.cases import made
from tests.persistence.test_forgery import forge_header, write_forged

ROOT = Path(__file__).parents[2]
PATIENCE = 20  # seconds until no answer counts as a hang

# of every class, the kinds of files that hold one
SUBJECTS = {
    "Alarm": ["CalibrationMonitor after an alarm"],
    "Anchors": ["compiled, anchors"],
    "AveragedRecalibrator": ["AveragedRecalibrator", "AveragedRecalibrator, weighted"],
    "BlockedBrute": ["brute"],
    "BumpSettings": ["trend and caution"],
    "Box": ["compiled, trend, faded to all"],
    "Bumps": ["compiled, trend, faded to all"],
    "CalibratedModel": ["CalibratedModel"],
    "CalibrationMonitor": ["CalibrationMonitor", "CalibrationMonitor after an alarm"],
    "CalibrationScores": ["GlobalRecalibrator", "KNNRegressor", "line", "weighted"],
    "Candidate": ["CalibratedModel"],
    "Caution": ["trend and caution"],
    "ColumnsModel": ["CalibratedModel"],
    "Combination": ["Recalibration of several models"],
    "CombinedRecalibrator": ["CombinedRecalibrator", "CombinedRecalibrator, mixture"],
    "CompilationLoss": ["compiled"],
    "CompiledRecalibrator": ["compiled", "compiled, radius, cosine", "compiled, all rows alike"],
    "ConformalRecalibrator": ["ConformalRecalibrator", "ConformalRecalibrator, weighted"],
    "Cross": ["CrossRecalibrator"],
    "CrossRecalibrator": ["CrossRecalibrator"],
    "Curve": ["IsotonicRecalibrator", "VarianceScaling", "all corrections"],
    "EqualSteps": ["GlobalRecalibrator"],
    "Fade": ["faded"],
    "FaissIndex": ["faiss"],
    "Features": ["compiled"],
    "Fingerprint": ["Recalibration"],
    "GlobalRecalibrator": ["GlobalRecalibrator"],
    "Guarantee": ["GuaranteedRecalibrator", "GuaranteedRecalibrator, pac", "CrossRecalibrator"],
    "GuaranteedRecalibrator": ["GuaranteedRecalibrator", "GuaranteedRecalibrator, weighted"],
    "HeldRows": ["GuaranteedRecalibrator", "GuaranteedRecalibrator, weighted"],
    "IdentityRecalibrator": ["IdentityRecalibrator"],
    "IsotonicRecalibrator": ["IsotonicRecalibrator"],
    "KDTreeIndex": ["kdtree"],
    "KNNRegressor": ["KNNRegressor"],
    "KNearest": ["boxes", "KNNRegressor", "brute"],
    "KeptArray": ["Recalibration", "Recalibration of parts"],
    "KeptColumn": ["Recalibration of a frame"],
    "KeptFrame": ["Recalibration of a frame"],
    "KeptParts": ["Recalibration of parts"],
    "LeafBoxes": ["boxes", "radius, thin rows"],
    "LearntCaution": ["trend and caution"],
    "LearntFade": ["faded", "faded to all, radius"],
    "LearntLinear": ["all corrections"],
    "LearntPolish": ["all corrections"],
    "LearntShrinkage": ["all corrections"],
    "LearntTrend": ["trend and caution"],
    "LevelTracker": ["OnlineRecalibrator", "OnlineRecalibrator without a recalibrator"],
    "LocalLinear": ["all corrections"],
    "LocalRecalibrator": ["line", "boxes", "all corrections"],
    "Look": ["CalibratedModel that looks twice"],
    "Marginal": ["GuaranteedRecalibrator"],
    "Network": ["compiled"],
    "OnlineRecalibrator": ["OnlineRecalibrator", "OnlineRecalibrator without a recalibrator"],
    "OwnIsolation": ["boxes", "line"],
    "PAC": ["GuaranteedRecalibrator, pac"],
    "PointHead": ["Recalibration"],
    "PointWeights": ["weighted", "weighted, radius", "ConformalRecalibrator, weighted"],
    "Polish": ["all corrections"],
    "QuantileNetRecalibrator": ["QuantileNetRecalibrator"],
    "QuantileNetwork": ["QuantileNetRecalibrator"],
    "Radius": ["radius, thin rows"],
    "Ranges": ["faded", "CalibratedModel that looks twice"],
    "Recalibration": ["Recalibration"],
    "Scaling": ["principal components"],
    "ShardedRecalibrator": ["in shards"],
    "ShardsInFolder": ["in shards"],
    "Shrinkage": ["all corrections"],
    "SmoothFunction": ["trend and caution"],
    "SortedLine": ["line"],
    "SpaceMap": ["principal components", "boxes"],
    "Standardiser": ["QuantileNetRecalibrator"],
    "Student": ["compiled"],
    "Surroundings": ["compiled", "compiled, trend, faded to all"],
    "Table": ["CalibratedModel"],
    "Trend": ["trend and caution"],
    "Tuning": ["CalibratedModel"],
    "VarianceScaling": ["VarianceScaling"],
    "WaitingRoom": ["OnlineRecalibrator"],
    "WeightedSteps": ["GlobalRecalibrator, weighted"],
    "WithinRadius": ["radius, thin rows", "weighted, radius"],
    "Workers": ["all options"],
}


def test_no_class_is_left_out():
    import_savable()
    classes = savable_classes()
    # examples of docstrings may have added theirs
    own = {name for name, cls in classes.items() if getattr(sys.modules[cls.__module__], name, None) is cls}
    assert set(SUBJECTS) == {name for name in own if classes[name].__module__.startswith("nearcal.")}


class User:
    """The process that loads files and uses them; started again after one has taken it down."""

    def __init__(self):
        self.process = None

    def ask(self, patience=PATIENCE, **question):
        if self.process is None:
            command = [sys.executable, "-m", "tests.fuzz.artefact_user"]
            pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
            self.process = subprocess.Popen(command, cwd=ROOT, **pipes)
        self.process.stdin.write(json.dumps(question) + "\n")
        self.process.stdin.flush()
        is_answered = select.select([self.process.stdout], [], [], patience)[0]
        line = self.process.stdout.readline() if is_answered else None
        if line:
            return json.loads(line)
        error = self.stop()
        return ["defect", f"no answer within {patience} s" if line is None else f"the process has died\n{error}"]

    def stop(self):
        process, self.process = self.process, None
        if process is None:
            return ""
        process.kill()
        return process.communicate()[1][-2000:]


@pytest.fixture(scope="module")
def user():
    """Return a process in which all kernels have been used once, and which gets little more memory."""
    one = User()
    yield one
    one.stop()


@pytest.fixture(scope="module")
def files(tmp_path_factory, user):
    """Return the file of a kind, the dimensions of its space, and what it says; written once."""
    folder, known = tmp_path_factory.mktemp("artefacts"), {}

    def file(kind):
        if kind not in known:
            path = folder / kind.replace(" ", "_") / "it"
            path.parent.mkdir()
            one = made(kind)
            nc.save(one, path)
            d = getattr(getattr(one, "recalibrator", one), "n_features_in_", 3)
            word, trace = user.ask(LONGEST_FIRST, path=str(path), d=d)  # kernels may have to be compiled
            assert word not in ("defect", "refused"), trace
            known[kind] = path, d, word
        return known[kind]

    for kind in {kind for kinds in SUBJECTS.values() for kind in kinds}:
        file(kind)
    assert user.ask(ready=True) == ["ready", ""]
    return file


@pytest.mark.parametrize("subject", SUBJECTS)
def test_forged(subject, fuzz, files, user):
    def attack(rng):
        path, d, _ = files(_choose(rng, SUBJECTS[subject]))
        forged = _forge(rng, path, subject)
        word, trace = user.ask(path=str(forged), d=d)
        assert word != "defect", trace

    fuzz.run(f"forged {subject}", attack, cases=6)


@pytest.mark.parametrize("kind", sorted({kinds[0] for kinds in SUBJECTS.values()}))
def test_damaged(kind, fuzz, files, user):
    path, d, intact = files(kind)

    def attack(rng):
        damaged = path.with_name("damaged")
        damaged.write_bytes(_damage(rng, path.read_bytes()))
        word, trace = user.ask(path=str(damaged), d=d)
        assert word in ("refused", intact), trace or "other numbers"

    fuzz.run(f"damaged {kind}", attack, cases=6)


# ---- damage: bytes --------------------------------------------------------------------------------------------------


def _damage(rng, content):
    data = bytearray(content)
    kind = rng.integers(5)
    start, length = int(rng.integers(len(data))), int(min(rng.geometric(0.02), len(data)))
    if kind == 0:
        for place in rng.integers(len(data), size=rng.integers(1, 20)):
            data[place] ^= 1 << int(rng.integers(8))
    elif kind == 1:
        del data[start:]
    elif kind == 2:
        del data[start : start + length]
    elif kind == 3:
        data[start:start] = rng.bytes(length)
    else:  # two blocks in each other's place
        other = int(rng.integers(len(data)))
        first, second = bytes(data[start : start + length]), bytes(data[other : other + length])
        data[start : start + len(second)], data[other : other + len(first)] = second, first
    return bytes(data)


# ---- forgery: what the bytes mean, and checksums to match -----------------------------------------------------------

NUMBERS = [np.nan, np.inf, -np.inf, -1.0, 0.0, -0.0, 1.0, 5e-324, 1e-300, 1e16, 1e155, 1e300, -1e300]
COUNTS = [-1, 0, 1, 2, 7, 100_000, 2**31 - 1, 2**31, 2**62, 10**18, -(2**31)]
DTYPES = ["?", "i1", "u1", "i4", "i8", "u8", "f2", "f4", "f8"]


def _forge(rng, path, subject):
    manifest, arrays = read_file(path, verify=True)
    arrays = {name: array.copy() for name, array in arrays.items()}
    places = [i for i, item in enumerate(manifest["objects"]) if item["class"] == subject]
    item = manifest["objects"][_choose(rng, places)]
    objects = len(manifest["objects"])
    if rng.integers(8) == 0:
        return forge_header(path, lambda entries: _change_header(rng, entries))
    for _ in range(rng.integers(1, 4)):
        own = sorted(set(_arrays_in(item)) & set(arrays))
        if own and rng.integers(2):
            name = _choose(rng, own)
            arrays[name] = _change_array(rng, arrays[name], arrays)
        elif rng.integers(4):
            _change_values(rng, item, objects, sorted(arrays))
        else:
            _change_structure(rng, item, manifest, arrays)
    return write_forged(path, manifest, arrays)


def _choose(rng, things):
    return things[int(rng.integers(len(things)))]


def _arrays_in(node):
    """Yield the names of arrays that stand somewhere in a node."""
    if isinstance(node, dict):
        for key, value in node.items():
            if key in ("array", "transposed") and isinstance(value, str):
                yield value
            else:
                yield from _arrays_in(value)
    elif isinstance(node, list):
        for value in node:
            yield from _arrays_in(value)


def _change_array(rng, array, arrays):
    """Return an array of other numbers, of another type or shape, or another array of the file."""
    kind, flat = rng.integers(9), array.ravel()
    if kind <= 3 and array.size:
        changed = array.copy()
        values = NUMBERS if array.dtype.kind == "f" else [value for value in COUNTS if abs(value) < 2**31]
        places = rng.integers(array.size, size=_choose(rng, [1, 1, 3, array.size]))
        with np.errstate(all="ignore"):
            changed.flat[places] = np.array(_choose(rng, values)).astype(array.dtype)
        return changed
    if kind == 4:
        with np.errstate(all="ignore"):
            return array.astype(_choose(rng, DTYPES))
    if kind == 5:
        return _choose(rng, [array[:-1], array[:0], np.concatenate([array, array]), flat, array[..., np.newaxis]])
    if kind == 6:
        return np.ascontiguousarray(_choose(rng, [array[::-1], array.T, np.sort(flat).reshape(array.shape)]))
    if kind == 7:
        return rng.permutation(flat).reshape(array.shape)
    return arrays[_choose(rng, sorted(arrays))].copy()


def _strange(rng, objects, names):
    """Return what may stand in a file, and hardly ever here."""
    kind = rng.integers(7)
    if kind == 0:
        number = _choose(rng, NUMBERS)
        return number if np.isfinite(number) else {"float": repr(number)}
    if kind == 1:
        return _choose(rng, COUNTS)
    if kind == 2:
        return _choose(rng, [None, True, False, "", "x", "auto", "input", "\0", "é" * 1000])
    if kind == 3:
        return {"object": _choose(rng, [*range(objects), -1, 10**6])}
    if kind == 4 and names:
        return {_choose(rng, ["array", "transposed"]): _choose(rng, [*names, "nothing"])}
    if kind == 5:
        nested = 1
        for _ in range(_choose(rng, [3, 30, 100])):
            nested = {"tuple": [nested]} if rng.integers(2) else [nested]
        return nested
    return _choose(
        rng, [[], {"tuple": []}, {"dict": {}}, {"dict": {"a": 1}}, {"strings": ["a", "b"]}, {"float": "x"}, {}]
    )


def _nodes(node):
    """Yield pairs of a container and a key for every value below a node."""
    pairs = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for key, value in pairs:
        yield node, key
        yield from _nodes(value)


def _change_values(rng, item, objects, names):
    nodes = list(_nodes(item["holds"]))
    if nodes:
        container, key = _choose(rng, nodes)
        container[key] = _strange(rng, objects, names)


def _change_structure(rng, item, manifest, arrays):
    """Take a field away, add one, exchange two, or make the object one of another class or order."""
    kind, nodes = rng.integers(6), list(_nodes(item["holds"]))
    if kind == 0 and nodes:
        container, key = _choose(rng, nodes)
        del container[key]
    elif kind == 1:
        item["holds"][_choose(rng, ["more", "__class__", "recalibrate", "n_cal_"])] = _strange(rng, 9, sorted(arrays))
    elif kind == 2 and nodes:
        (one, key), (other, place) = _choose(rng, nodes), _choose(rng, nodes)
        one[key], other[place] = copy.deepcopy(other[place]), copy.deepcopy(one[key])
    elif kind == 3:
        item["class"] = _choose(rng, [*sorted(SUBJECTS), "Popen", "", 3, None])
    elif kind == 4 and isinstance(manifest["objects"], list):
        manifest["objects"] = [manifest["objects"][i] for i in rng.permutation(len(manifest["objects"]))]
    else:
        key = _choose(rng, ["content", "tuning", "nearcal", "objects"])
        manifest[key] = _strange(rng, 9, sorted(arrays))


def _change_header(rng, entries):
    names = [name for name in entries if name != "__metadata__"]
    if not names or rng.integers(10) == 0:
        entries["__metadata__"]["manifest"] = _choose(rng, ["", "{}", "[" * 50_000, '{"a":' * 5000, "null", 3])
        return
    entry = entries[_choose(rng, names)]
    change = rng.integers(4)
    if change == 0:
        entry["dtype"] = _choose(rng, ["F64", "F32", "I32", "I64", "BOOL", "U8", "F16", "X", None])
    elif change == 1:
        entry["shape"] = _choose(
            rng,
            [
                [],
                [0],
                [10**13, 0],
                [3 * 10**8, 0],
                [-1],
                [2**62, 4],
                [*entry["shape"], 1],
                entry["shape"][::-1],
                "3",
                [1.0],
            ],
        )
    elif change == 2:
        entry["data_offsets"] = [
            int(offset + _choose(rng, [-8, 8, 1, 10**15, -(10**6)])) for offset in entry["data_offsets"]
        ]
    else:
        other = entries[_choose(rng, names)]
        entry.update(copy.deepcopy(other))
