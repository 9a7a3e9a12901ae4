"""Runs recipes with Spark: see scripts/fleet-spark, which starts this.

usage: spark.py FLEET MASTER EXPORTS ANSWERS [RECIPE...]
"""

import sys
from pathlib import Path

from pyspark.sql import SparkSession

ENGINES = ("duckdb", "clickhouse", "spark")

fleet, master, exports, answers = Path(sys.argv[1]), *sys.argv[2:5]
known = sorted(path.stem for path in fleet.glob("*.sql") if path.stem not in ENGINES)
recipes = [name.removesuffix(".sql") for name in sys.argv[5:]] or known
for name in recipes:
    if name not in known:
        sys.exit(f"scripts/fleet-spark: there is no recipe {name}; there are {', '.join(known)}")

spark = SparkSession.builder.appName("cupeer").master(master).config("spark.ui.showConsoleProgress", "false").getOrCreate()
spark.sparkContext.setLogLevel("ERROR")
views = "\n".join(line for line in (fleet / "spark.sql").read_text().splitlines() if not line.startswith("--"))
for statement in views.replace("'exports/", f"'{exports.rstrip('/')}/").split(";"):
    if statement.strip():
        spark.sql(statement)
for name in recipes:
    rows = spark.sql((fleet / f"{name}.sql").read_text())
    place = f"{answers.rstrip('/')}/{name}"
    rows.write.mode("overwrite").parquet(place)
    print(f"{name}: {spark.read.parquet(place).count()} rows")
spark.stop()
