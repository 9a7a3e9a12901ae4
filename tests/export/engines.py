"""Asks an engine about exported tables, and prints the answers as JSON.

usage: engines.py ENGINE EXPORTS sums | engines.py ENGINE EXPORTS RECIPE.sql... | engines.py duckdb ANSWERS answers

The engines are duckdb, clickhouse and spark, which read the views of docs/fleet, and pyarrow, pandas and polars, which
only give sums: of each table and column the rows, the values that there are, and their sum (of texts, their letters).
ANSWERS is what scripts/fleet-spark has written.
"""

import json
import os
import sys
from pathlib import Path

FLEET = Path(__file__).resolve().parents[2] / "docs/fleet"
PRIME = 1000003


def views(engine, exports):
    """The statements that make the tables, each with its end."""
    text = "\n".join(line for line in (FLEET / f"{engine}.sql").read_text().splitlines() if not line.startswith("--"))
    statements = [statement.strip() for statement in text.replace("'exports/", f"'{exports}/").split(";")]
    return [statement for statement in statements if statement]


def duckdb(exports):
    import duckdb

    connection = duckdb.connect()
    for statement in views("duckdb", exports):
        connection.execute(statement)

    def ask(sql):
        answer = connection.execute(sql)
        names = [column[0] for column in answer.description]
        return [dict(zip(names, row)) for row in answer.fetchall()]

    return ask


def clickhouse(exports):
    from chdb import session

    asked = session.Session()
    for statement in views("clickhouse", exports):
        asked.query(statement)

    def ask(sql):
        text = str(asked.query(sql + "\nSETTINGS output_format_json_quote_64bit_integers = 0", "JSONEachRow"))
        return [json.loads(line) for line in text.splitlines() if line]

    return ask


def spark(exports):
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    session = builder.config("spark.sql.shuffle.partitions", "2").config("spark.driver.memory", "1g").getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    for statement in views("spark", exports):
        session.sql(statement)
    return lambda sql: [row.asDict() for row in session.sql(sql).collect()]


def by_sql(ask, length):
    """Sums, by one question for each table."""
    sums = {}
    for table in sorted(path.name for path in EXPORTS.glob("*/*") if path.is_dir()):
        import pyarrow.parquet

        file = next(EXPORTS.glob(f"*/{table}/*/*.parquet"))
        asked = ["count(*) AS rows_"]
        for field in pyarrow.parquet.read_schema(file):
            kind = str(field.type)
            value = {"string": f"{length}({field.name})", "bool": f"CAST({field.name} AS INT)"}.get(kind, f"{field.name} % {PRIME}")
            asked.append(f"count({field.name}) AS n_{field.name}, coalesce(sum(CAST({value} AS BIGINT)), 0) AS s_{field.name}")
        view = {"process": "processes"}.get(table, table + "s")
        sums[table] = {name: int(number) for name, number in ask(f"SELECT {', '.join(asked)} FROM {view}")[0].items()}
    return sums


def by_columns(read):
    """Sums of what `read` gives for the files of a table: columns as lists, by their names."""
    sums = {}
    for table in sorted(path.name for path in EXPORTS.glob("*/*") if path.is_dir()):
        columns = read(table)
        columns.pop("node", None)
        sums[table] = {"rows_": len(next(iter(columns.values())))}
        for name, values in columns.items():
            there = [value for value in values if value is not None and value == value]
            value = lambda v: len(v) if isinstance(v, str) else int(v) if isinstance(v, bool) else int(v) % PRIME
            sums[table] |= {f"n_{name}": len(there), f"s_{name}": sum(value(v) for v in there)}
    return sums


def pyarrow_columns(table):
    from pyarrow import concat_tables, dataset

    parts = [dataset.dataset(path, format="parquet", partitioning="hive").to_table() for path in sorted(EXPORTS.glob(f"*/{table}"))]
    return concat_tables(parts, promote_options="default").to_pydict()


def pandas_columns(table):
    import pandas

    frame = pandas.concat([pandas.read_parquet(path, dtype_backend="numpy_nullable") for path in sorted(EXPORTS.glob(f"*/{table}"))])
    return {name: [None if value is pandas.NA else value for value in frame[name].tolist()] for name in frame.columns if name != "node"}


def polars_columns(table):
    import polars

    return polars.scan_parquet(f"{EXPORTS}/*/{table}/*/*.parquet").collect().to_dict(as_series=False)


def answers(folder):
    """The rows of each table in a folder."""
    import duckdb

    read = lambda path: duckdb.sql(f"SELECT * FROM '{path}/*.parquet'")
    named = lambda found: [dict(zip(found.columns, row)) for row in found.fetchall()]
    return {f"{path.name}.sql": named(read(path)) for path in folder.iterdir()}


engine, EXPORTS, asked = sys.argv[1], Path(sys.argv[2]), sys.argv[3:]
columns = {"pyarrow": pyarrow_columns, "pandas": pandas_columns, "polars": polars_columns}
if engine in columns:
    answer = by_columns(columns[engine])
elif asked == ["answers"]:
    answer = answers(EXPORTS)
else:
    ask = {"duckdb": duckdb, "clickhouse": clickhouse, "spark": spark}[engine](EXPORTS)
    length = "char_length" if engine == "clickhouse" else "length"
    answer = by_sql(ask, length) if asked == ["sums"] else {name: ask((FLEET / name).read_text()) for name in asked}
print(json.dumps(answer, default=str))
