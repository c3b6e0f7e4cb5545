"""An interrupted command leaves the old output, or none, and nothing that looks complete."""

import signal
import subprocess
import sys

import pytest

# predicts one batch, says so, and waits in the second for what comes
HELD = """
import sys, time
from nearcal.cli import _predict, main
from nearcal.distributed import batches as the_batches
the_batches.MOST_ROWS = 100
batches = []
predict_rows = _predict.predict_rows

def hold(*arguments):
    batches.append(arguments)
    if len(batches) == 2:
        print("begun", flush=True)
        time.sleep(60)
    return predict_rows(*arguments)

_predict.predict_rows = hold
main()
"""


@pytest.mark.parametrize(
    ("number", "old"), [(signal.SIGINT, None), (signal.SIGTERM, b"the old output"), (signal.SIGKILL, b"the old output")]
)
def test_an_interrupted_output_never_looks_complete(number, old, folder, tmp_path):
    out = tmp_path / "out.parquet"
    if old:
        out.write_bytes(old)
    arguments = ["predict", folder / "model.nearcal", folder / "new.parquet", "-o", out]
    command = [sys.executable, "-c", HELD, *map(str, arguments)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "begun\n"
        process.send_signal(number)
        _, err = process.communicate(timeout=30)
    assert (out.read_bytes() if out.exists() else None) == old
    others = [path for path in tmp_path.iterdir() if path != out]
    if number == signal.SIGKILL:
        assert process.returncode == -signal.SIGKILL
        assert [path.suffix for path in others] == [".tmp"]  # hidden, and in nobody's way
    else:
        assert (process.returncode, err) == (130, "nearcal: interrupted\n")
        assert not others
