"""Spark on two threads: the bits of one process, however rows are partitioned."""

import shutil

import numpy as np
import pytest

import nearcal as nc

pytest.importorskip("pyspark")
# of pyspark's own code
pytestmark = pytest.mark.filterwarnings(
    "ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::ResourceWarning"
)


@pytest.fixture(scope="module")
def spark():
    if shutil.which("java") is None:
        pytest.skip("Spark needs Java 17: apt-get install openjdk-17-jre-headless")
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[2]")
    options = {"spark.ui.enabled": "false", "spark.driver.bindAddress": "127.0.0.1", "spark.driver.host": "127.0.0.1"}
    options["spark.sql.shuffle.partitions"] = "2"
    # for half a minute: what a longer life would pay back is left out
    options["spark.driver.extraJavaOptions"] = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
    options |= {"spark.sql.codegen.wholeStage": "false", "spark.sql.adaptive.enabled": "false"}
    for name, value in options.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()


def test_predictions_are_those_of_one_process(spark, setting, expected):
    frame = spark.createDataFrame(setting.new)
    for partitions in (1, 5):
        out = nc.spark.predict(setting.path, frame.repartition(partitions), keep=["id"], reliability=True)
        assert out.columns == ["id", *expected]
        found = out.toPandas().set_index("id").loc[setting.new["id"]]
        for name, values in expected.items():
            np.testing.assert_array_equal(found[name].to_numpy(), values, err_msg=name)
    with pytest.raises(nc.InvalidInputError, match="rows must have one column 'x1'"):
        nc.spark.predict(setting.path, frame.drop("x1"))
    gaps = setting.new[:20].assign(x1=[np.nan, *setting.new["x1"][1:20]])
    out = nc.spark.predict(setting.path, spark.createDataFrame(gaps), skip_missing=True).toPandas()
    assert int(out["mean"].isna().sum()) == 1
