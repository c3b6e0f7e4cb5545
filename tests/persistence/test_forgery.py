"""A file whose checksums are right, and that nearcal has not written: an error, at once, and nothing is executed."""

import inspect
import json
import re
import threading
import time

import numpy as np
import pytest

import nearcal as nc
from nearcal._saved import savable_classes
from nearcal.persistence._encoding import import_savable
from nearcal.persistence._file import _NO_DIGEST, _digest_header, read_file, write_file
from tests.persistence.cases import answers, made


def forge(path, change):
    """Change a file and make its checksums fit."""
    manifest, arrays = read_file(path, verify=True)
    arrays = {name: array.copy() for name, array in arrays.items()}
    change({item["class"]: item for item in manifest["objects"]}, arrays)
    return write_forged(path, manifest, arrays)


def write_forged(path, manifest, arrays):
    forged = path.with_name("forged")
    with forged.open("wb") as file:
        write_file(file, manifest, arrays)
    return forged


def forge_header(path, change):
    """Change what the header says of the arrays, and make its checksum fit."""
    content = path.read_bytes()
    end = 8 + int.from_bytes(content[:8], "little")
    entries = json.loads(content[8:end])
    entries["__metadata__"]["header_sha256"] = _NO_DIGEST.decode()
    change(entries)
    text = json.dumps(entries, separators=(",", ":")).encode()
    header = len(text).to_bytes(8, "little") + text
    forged = path.with_name("forged")
    forged.write_bytes(header.replace(_NO_DIGEST, _digest_header(header), 1) + content[end:])
    return forged


def is_refused_at_once(path, message):
    start = time.perf_counter()
    for mmap in (True, False):
        with pytest.raises(nc.ArtefactError, match=message):
            nc.load(path, mmap=mmap)
    return time.perf_counter() - start < 1


def test_a_forgery_without_change_loads(small, saved):
    assert answers(nc.load(forge(saved, lambda objects, arrays: None))) == answers(small)


def test_a_header_forged_without_change_loads(small, saved):
    assert answers(nc.load(forge_header(saved, lambda entries: None))) == answers(small)


# as few as hold an object of every class
SEARCHES = ["line", "boxes", "brute", "faiss", "kdtree"]
KINDS = [
    *SEARCHES,
    "whitening",
    "principal components",
    "radius, thin rows",
    "all corrections",
    "trend and caution",
    "faded",
    "all options",
    "in shards",
    "KNNRegressor",
    "GlobalRecalibrator",
    "IdentityRecalibrator",
    "IsotonicRecalibrator",
    "VarianceScaling",
    "ConformalRecalibrator",
    "weighted",
    "weighted, radius",
    "GlobalRecalibrator, weighted",
    "ConformalRecalibrator, weighted",
    "GuaranteedRecalibrator",
    "GuaranteedRecalibrator, pac",
    "GuaranteedRecalibrator, weighted",
    "CrossRecalibrator",
    "QuantileNetRecalibrator",
    "compiled",
    "compiled, trend, faded to all",
    "compiled, anchors",
    "CalibratedModel",
    "CalibratedModel that looks twice",
    "AveragedRecalibrator",
    "CombinedRecalibrator",
    "Recalibration of several models",
    "Recalibration",
    "Recalibration of a frame",
    "Recalibration of parts",
    "OnlineRecalibrator",
    "CalibrationMonitor after an alarm",
]


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Return the file of a kind, written once."""
    folder = tmp_path_factory.mktemp("kinds")

    def file(name):
        path = folder / name / "it"
        if not path.exists():
            path.parent.mkdir()
            nc.save(made(name), path)
        return path

    return file


def test_no_savable_class_is_left_out(files):
    import_savable()
    ours = {name for name, cls in savable_classes().items() if cls.__module__.startswith("nearcal.")}
    found = {item["class"] for name in KINDS for item in read_file(files(name), verify=True)[0]["objects"]}
    assert found == ours


def refused(path, change):
    with pytest.raises(nc.ArtefactError, match="does not hold what nearcal can load"):
        nc.load(forge(path, change))


@pytest.mark.parametrize("name", KINDS)
def test_what_code_relies_on_is_checked_even_in_a_forgery(name, files):
    path = files(name)
    for key, array in read_file(path, verify=True)[1].items():
        refused(path, lambda objects, arrays, key=key: arrays.update({key: arrays[key].ravel()[:0]}))
        refused(path, lambda objects, arrays, key=key: arrays.pop(key))
        if re.search(
            r"(table|evidence|tried)\.columns|fingerprint\.rows", key
        ):  # numbers to read, or to ask a model about
            continue
        refused(path, lambda objects, arrays, key=key: arrays.update({key: arrays[key].astype(np.float16)}))
        if name in SEARCHES:
            refused(path, lambda objects, arrays, key=key: arrays.update({key: arrays[key][:-1]}))
        for number in (-1, 10**6) if array.dtype == np.int32 else ():
            refused(path, lambda objects, arrays, key=key, number=number: arrays[key].__setitem__(-1, number))
        for number in (np.nan, np.inf, -np.inf) if array.dtype.kind == "f" and array.size else ():
            refused(path, lambda objects, arrays, key=key, number=number: arrays[key].flat.__setitem__(0, number))


STRANGE = {"dict": {"forged": 1}}
# arguments are checked by the next fit, which alone asks for them; what adapters make of a model is their own
UNCHECKED = {
    **{
        cls.__name__: set(inspect.signature(cls).parameters)
        for cls in (
            nc.LocalRecalibrator,
            nc.ShardedRecalibrator,
            nc.KNNRegressor,
            nc.GlobalRecalibrator,
            nc.ConformalRecalibrator,
            nc.QuantileNetRecalibrator,
        )
    },
    "Recalibration": {"learnt"},
}
UNCHECKED["QuantileNetRecalibrator"] -= {"n_quantiles", "use_space"}  # which it describes new predictions by


@pytest.mark.parametrize("name", KINDS)
def test_every_value_of_every_object_is_checked(name, files):
    """Each is taken away, and another kind of thing put in its place; arguments and what was learnt one by one."""
    path = files(name)
    manifest, arrays = read_file(path, verify=True)
    accepted = []
    for item in manifest["objects"]:
        for names in list(paths_of(item["holds"])):
            for is_replaced in (True, False):
                holds = item["holds"]
                for key in names[:-1]:
                    holds = holds[key]
                before = dict(holds)
                if is_replaced:
                    if names[-1] in UNCHECKED.get(item["class"], ()):
                        continue
                    holds[names[-1]] = STRANGE
                elif names[0] == "parameters" and len(names) > 1:  # the default takes its place
                    continue
                else:
                    del holds[names[-1]]
                if not is_refused(write_forged(path, manifest, arrays)):
                    accepted.append((item["class"], names[-1], is_replaced))
                holds.clear()
                holds.update(before)
    assert accepted == []


def is_refused(path):
    try:
        nc.load(path)
    except nc.ArtefactError as error:
        return "does not hold what nearcal can load" in str(error)
    return False


def paths_of(holds):
    """Return where the values of an object are: its own, and in a recalibrator the arguments and fitted attributes."""
    for name in holds:
        yield (name,)
    for name in ("parameters", "learnt"):
        if set(holds) == {"parameters", "learnt"}:
            yield from ((name, "dict", inner) for inner in holds[name]["dict"])


@pytest.mark.parametrize("shape", [(3 * 10**8, 0), (10**13, 0), (0, 10**13), (0, 0)])
@pytest.mark.parametrize("name", ["kdtree", "brute", "faiss"])
def test_arrays_without_bytes_are_refused_at_once(name, shape, tmp_path):
    nc.save(made(name), tmp_path / "it")

    def change(objects, arrays):
        (key,) = [key for key in arrays if re.search(r"index_\.(placed|points)$", key)]
        arrays[key] = np.empty(shape)

    assert is_refused_at_once(forge(tmp_path / "it", change), "placed|points")


def test_a_header_that_does_not_agree_with_the_bytes_is_refused_at_once(saved):
    (name,) = [name for name in read_file(saved, verify=True)[1] if name.endswith("index_.x")]

    def say(**changed):
        return forge_header(saved, lambda entries: entries[name].update(changed))

    offsets = []
    forge_header(saved, lambda entries: offsets.extend(entries[name]["data_offsets"]))
    start, stop = offsets
    for changed in (
        {"shape": [10**13]},
        {"shape": [-20]},
        {"shape": [19]},
        {"shape": [20, 0]},
        {"shape": [10**13, 0], "data_offsets": [start, start]},
        {"shape": [-1, -20]},
        {"shape": [20.0]},
        {"shape": "20"},
        {"dtype": "F32"},
        {"dtype": "F128"},
        {"data_offsets": [start + 4, stop - 4], "shape": [19]},
        {"data_offsets": [start - 10**6, stop - 10**6]},
        {"data_offsets": [stop, start]},
        {"data_offsets": [start]},
        {"more": 1},
    ):
        assert is_refused_at_once(say(**changed), "forged"), changed


def test_a_count_that_no_array_stands_behind(tmp_path):
    nc.save(made("boxes"), tmp_path / "it")
    for n in (0, -1, 10**18, 700.0, True, "700", None):
        forged = forge(tmp_path / "it", lambda objects, arrays, n=n: objects["LeafBoxes"]["holds"].update(n=n))
        assert is_refused_at_once(forged, "n must be|leaves must")


def test_a_manifest_that_lacks_something(saved):
    manifest, arrays = read_file(saved, verify=True)
    for key in manifest:
        lacking = {name: value for name, value in manifest.items() if name != key}
        with pytest.raises(nc.ArtefactError, match=f"forged does not hold what nearcal can load: '{key}'"):
            nc.load(write_forged(saved, lacking, arrays))
    for strange in (
        manifest | {"nearcal": 3},
        [],
        None,
        3,
        manifest | {"objects": 3},
        manifest | {"content": {"a": 1}},
    ):
        with pytest.raises(nc.ArtefactError, match="does not hold what nearcal can load"):
            nc.load(write_forged(saved, strange, arrays))


MAPS = ("features", "response")


def twice(array):
    return np.concatenate([array, array])


@pytest.mark.parametrize(
    ("kind", "name", "change", "message"),
    [
        ("principal components", "space_map_.matrix", lambda matrix: matrix[:-1], "matrix must have 7 rows"),
        ("principal components", "space_map_.center", lambda center: center[:-1], "matrix must have 6 rows"),
        ("faiss", "index_.center", lambda center: np.full_like(center, 1e155), "center must lie among the points"),
        ("kdtree", "index_.placed", lambda placed: 1e160 * placed, "placed must not exceed 1e.150"),
        ("boxes", "calibration_.z", lambda z: np.where(np.arange(len(z)) == 3, 1e155, z), "z must not exceed 1e.100"),
        ("GlobalRecalibrator", ".z", lambda z: -1e200 * z, "z must not exceed 1e.100"),
        ("boxes", "space_map_.center", lambda center: center[:-1], "spaces of n_features_in_ columns"),
        ("whitening", "positions_", twice, "positions_ must be n_cal_ rows"),
        ("whitening", "positions_", lambda positions: positions[:, :-1], "positions_ must be n_cal_ rows"),
        ("whitening", "positions_", lambda positions: np.full_like(positions, np.nan), "positions_ must be finite"),
        ("VarianceScaling", "calibration_.z", twice, "calibration_ must have n_cal_ scores"),
        ("faded", "ranges.high", lambda high: high[:-1], "ends must be as many as tails"),
        ("CalibratedModel that looks twice", "look.ranges.low", twice, "ends must be as many as tails"),
        ("QuantileNetRecalibrator", "first_to_second", twice, "first_to_second must have .* shape"),
        ("QuantileNetRecalibrator", "input_to_second", twice, "input_to_second must have .* shape"),
        ("QuantileNetRecalibrator", "second_bias", twice, "second_bias must have .* shape"),
        ("QuantileNetRecalibrator", "features_map_.scale", twice, "scale must have 21 values"),
        ("QuantileNetRecalibrator", "features_map_.scale", np.zeros_like, "scale must be positive"),
    ],
)
def test_arrays_that_do_not_fit_each_other(kind, name, change, message, files):
    def change_one(objects, arrays):
        (key,) = [key for key in arrays if key.endswith(name)]
        arrays[key] = change(arrays[key])

    with pytest.raises(nc.ArtefactError, match=message):
        nc.load(forge(files(kind), change_one))


def test_positions_that_are_missing_where_the_index_has_others(files):
    def change(objects, arrays):
        objects["LocalRecalibrator"]["holds"]["learnt"]["dict"]["positions_"] = None

    with pytest.raises(nc.ArtefactError, match="positions_ must be n_cal_ rows"):
        nc.load(forge(files("whitening"), change))


def test_two_maps_of_a_network_that_have_changed_places(files):
    def swap(objects, arrays):
        for part in ("center", "scale"):
            one, other = (next(key for key in arrays if key.endswith(f"{name}_map_.{part}")) for name in MAPS)
            arrays[one], arrays[other] = arrays[other], arrays[one]

    with pytest.raises(nc.ArtefactError, match="n_quantiles and use_space must fit the 1 features"):
        nc.load(forge(files("QuantileNetRecalibrator"), swap))


@pytest.mark.parametrize(
    "options", [{"n_quantiles": 0}, {"n_quantiles": 19}, {"n_quantiles": True}, {"use_space": True}, {"use_space": 0}]
)
def test_options_that_do_not_fit_a_network(options, files):
    def change(objects, arrays):
        objects["QuantileNetRecalibrator"]["holds"]["parameters"]["dict"].update(options)

    with pytest.raises(nc.ArtefactError, match=next(iter(options))):
        nc.load(forge(files("QuantileNetRecalibrator"), change))


def test_strings_that_would_fill_the_memory(saved):
    """An array of strings has all of them as long as the longest."""
    manifest, arrays = read_file(saved, verify=True)
    bomb = {"strings": ["a" * 10**6] + [""] * 10**5}
    assert is_refused_at_once(write_forged(saved, manifest | {"tuning": bomb}, arrays), "100001 strings")
    with pytest.raises(nc.ArtefactError, match="strings"):
        nc.load(write_forged(saved, manifest | {"tuning": {"strings": [["a"], ["b"]]}}, arrays))


# of a class: a kind of file that holds one, and values that its fields cannot have
FIELDS = {
    "Candidate": (
        "CalibratedModel",
        {"k": 0, "kind": "all", "space": 3, "linear": "yes", "shrinkage": 1, "smoothing": "gauss"},
    ),
    "Tuning": ("CalibratedModel", {"chosen": None, "table": "", "reason": 3, "recalibrator": None}),
    "Table": ("CalibratedModel", {"columns": {"tuple": []}}),
    "ColumnsModel": (
        "CalibratedModel",
        {"family": "cauchy", "parameters": 3, "spaces": {"dict": {"a": "b"}}, "response": 1},
    ),
    "CalibratedModel": (
        "CalibratedModel",
        {"model": "m", "recalibrator": None, "layer": 3, "reason": None, "tuning": "by hand"},
    ),
    "Recalibration": ("Recalibration", {"recalibrator": None, "layer": 3, "reason": None, "learnt": 1, "model": None}),
    "Fingerprint": (
        "Recalibration",
        {"model": 3, "layers": "input", "rows": None, "quantiles": None, "positions": 1.0},
    ),
    "KeptArray": ("Recalibration", {"values": 3, "kind": "pickle"}),
    "KeptFrame": ("Recalibration of a frame", {"columns": {"tuple": [3]}}),
    "KeptColumn": (
        "Recalibration of a frame",
        {"name": 3, "dtype": None, "values": 1, "categories": "a", "ordered": None},
    ),
    "KeptParts": ("Recalibration of parts", {"names": {"tuple": [3]}, "parts": {"tuple": [3]}}),
    "PointHead": ("Recalibration", {"response": "sqrt", "scale": -1.0}),
    "SpaceMap": ("CalibratedModel", {"name": 3, "center": None, "matrix": 1.0}),
    "KNearest": ("boxes", {"k": 0, "eps": -1.0, "smoothing": "box", "weights": 1.0}),
    "WithinRadius": ("radius, thin rows", {"radius": 1.0, "smoothing": "box", "n_cal": None, "weights": "a"}),
    "Radius": ("radius, thin rows", {"distance": -1.0, "min_neighbors": 0, "thin": "few"}),
    "Scaling": ("principal components", {"name": "minmax", "components": 0}),
    "Workers": ("all options", {"threads": 0, "memory": 10, "progress": 1}),
    "LocalLinear": ("all corrections", {}),
    "Shrinkage": ("all corrections", {}),
    "Polish": ("all corrections", {}),
    "Trend": ("trend and caution", {}),
    "Caution": ("trend and caution", {"share": -0.1}),
    "LearntCaution": ("trend and caution", {"share": None}),
    "Fade": ("faded", {"false_alarm": -1.0, "to": "nothing"}),
    "LearntFade": (
        "faded",
        {"false_alarm": None, "to": "up", "start": "far", "gap": 0.0, "ranges": 3},
    ),
    "Ranges": ("faded", {"low": None, "high": 1.0, "tail_below": 3, "tail_above": None, "limit": -1.0}),
    "Look": ("CalibratedModel that looks twice", {"layer": 3, "ranges": None, "false_alarm": -0.1}),
    "LearntShrinkage": (
        "all corrections",
        {"mean": "0", "log_spread": {"float": "inf"}, "mean_variance": -1.0, "log_spread_variance": None},
    ),
}


@pytest.mark.parametrize("name", FIELDS)
def test_fields_are_checked_one_by_one(name, files):
    kind, fields = FIELDS[name]
    for field, value in fields.items():
        with pytest.raises(nc.ArtefactError, match=field):
            nc.load(forge(files(kind), lambda objects, _, f=field, v=value: objects[name]["holds"].update({f: v})))
    changes = [lambda holds: holds.update(recalibrate=3), *([lambda holds: holds.popitem()] if fields else [])]
    for change in changes:
        with pytest.raises(nc.ArtefactError, match=r"is no field|is missing"):
            nc.load(forge(files(kind), lambda objects, _, change=change: change(objects[name]["holds"])))


@pytest.mark.parametrize("k", [0, -5, 2.5, "7", True, {"float": "inf"}])
def test_a_number_of_neighbours_that_is_none(k, files):
    with pytest.raises(nc.ArtefactError, match="k must be"):
        nc.load(forge(files("CalibratedModel"), lambda objects, _: objects["Candidate"]["holds"].update(k=k)))


@pytest.mark.parametrize("kind", ["all corrections", "VarianceScaling"])
def test_knots_that_do_not_increase_and_tails_that_fall(kind, files):
    def change(end, value):
        def apply(objects, arrays):
            (key,) = [key for key in arrays if key.endswith(f".{end}")]
            arrays[key][1] = value(arrays[key])

        return apply

    for forgery in (
        change("before", lambda knots: knots[0] - 1),
        change("after", lambda knots: knots[0] - 1),
        change("after", lambda knots: knots[0]),  # one score, two values
    ):
        with pytest.raises(nc.ArtefactError, match="knots must increase"):
            nc.load(forge(files(kind), forgery))
    for slope in (0.0, -1.0, {"float": "inf"}, {"float": "nan"}, "1", True):
        with pytest.raises(nc.ArtefactError, match="slope_above must be"):
            nc.load(forge(files(kind), lambda objects, _, s=slope: objects["Curve"]["holds"].update(slope_above=s)))


@pytest.mark.parametrize(
    ("kind", "of", "field", "value"),
    [
        ("boxes", "KNearest", "k", 701),
        ("radius, thin rows", "WithinRadius", "n_cal", 701),
        ("radius, thin rows", "Radius", "distance", 0.0),
    ],
)
def test_neighbourhoods_that_do_not_fit_the_points(kind, of, field, value, files):
    with pytest.raises(nc.ArtefactError, match=r"neighborhood_ must be|radius must be"):
        nc.load(forge(files(kind), lambda objects, arrays: objects[of]["holds"].update({field: value})))


def change_class(objects, arrays):
    objects["SortedLine"]["class"] = "Popen"


def change_kind(objects, arrays):
    objects["SortedLine"]["class"] = "Table"


def add_parameter(objects, arrays):
    objects["LocalRecalibrator"]["holds"]["parameters"]["dict"]["q"] = 3


def forget_size(objects, arrays):
    del objects["LocalRecalibrator"]["holds"]["learnt"]["dict"]["n_cal_"]


def change_size(objects, arrays):
    objects["LocalRecalibrator"]["holds"]["learnt"]["dict"]["n_cal_"] = 30


def add_attribute(objects, arrays):
    objects["LocalRecalibrator"]["holds"]["learnt"]["dict"]["recalibrate"] = 3


def change_attribute(objects, arrays):
    objects["LocalRecalibrator"]["holds"]["learnt"]["dict"]["index_"] = "euclidean"


def add_code(objects, arrays):
    objects["LocalRecalibrator"]["holds"]["parameters"]["dict"]["k"] = {"eval": "1"}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (change_class, "holds a 'Popen', which this version of nearcal does not know"),
        (change_kind, "columns"),
        (add_parameter, "'q'"),
        (forget_size, "'n_cal_' is missing"),
        (add_attribute, "'recalibrate' is no field"),
        (change_attribute, "index_ must have nearest, got a str without"),
        (change_size, "n_cal_ points"),
        (add_code, "eval"),
    ],
)
def test_other_forgeries_are_refused(change, message, saved):
    with pytest.raises(nc.ArtefactError, match=message):
        nc.load(forge(saved, change))


@pytest.mark.parametrize("content", [None, 3, "a", [], {"float": "nan"}, {"dict": {}}])
def test_content_that_is_no_object_is_refused(content, saved):
    manifest, arrays = read_file(saved, verify=True)
    with pytest.raises(nc.ArtefactError, match="does not hold what nearcal can load: its content is a"):
        nc.load(write_forged(saved, manifest | {"content": content}, arrays))


def test_many_threads_of_a_file_are_no_more_than_there_is_work(files):
    refused(files("all options"), lambda objects, arrays: objects["Workers"]["holds"].update(threads=100_000))
    path = forge(files("all options"), lambda objects, arrays: objects["Workers"]["holds"].update(threads=1000))
    before = threading.active_count()
    assert answers(nc.load(path)) == answers(nc.load(files("all options")))
    assert threading.active_count() <= before + 1


# ---- weights --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [0.0, -1.0, np.nan, np.inf, 1e-30])
@pytest.mark.parametrize("kind", ["weighted", "GlobalRecalibrator, weighted"])
def test_weights_that_are_none(kind, value, files):
    def change(objects, arrays):
        for key in arrays:
            if key.endswith(".given"):
                arrays[key][3] = value

    with pytest.raises(nc.ArtefactError, match="given must be"):
        nc.load(forge(files(kind), change))


@pytest.mark.parametrize("kind", ["weighted", "GlobalRecalibrator, weighted", "ConformalRecalibrator, weighted"])
def test_weights_that_are_too_few(kind, files):
    def change(objects, arrays):
        for key in arrays:
            if key.endswith(".given"):
                arrays[key] = arrays[key][1:].copy()

    with pytest.raises(nc.ArtefactError, match=r"weights_? must be"):
        nc.load(forge(files(kind), change))


@pytest.mark.parametrize("kind", ["weighted", "weighted, radius"])
def test_neighbourhoods_without_the_weights_of_their_points(kind, files):
    name = "KNearest" if kind == "weighted" else "WithinRadius"

    def change(objects, arrays):
        objects[name]["holds"]["weights"] = None

    with pytest.raises(nc.ArtefactError, match="neighborhood_ must have the weights of calibration_"):
        nc.load(forge(files(kind), change))


def test_weighted_steps_without_weights(files):
    def change(objects, arrays):
        objects["CalibrationScores"]["holds"]["weights"] = None

    with pytest.raises(nc.ArtefactError, match="weighted steps must have weights"):
        nc.load(forge(files("GlobalRecalibrator, weighted"), change))


@pytest.mark.parametrize("value", [None, 0.5, {"float": "inf"}, "a"])
def test_a_new_point_that_is_lighter_than_all(value, files):
    def change(objects, arrays):
        objects["ConformalRecalibrator"]["holds"]["learnt"]["dict"]["new_weight_"] = value

    with pytest.raises(nc.ArtefactError, match="new_weight_ must be"):
        nc.load(forge(files("ConformalRecalibrator, weighted"), change))
