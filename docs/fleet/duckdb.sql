-- The tables for DuckDB: duckdb -init docs/fleet/duckdb.sql -c ".read docs/fleet/ranks.sql", in a directory whose folder `exports` has
-- a folder for each job. Columns that an older export does not have are null.
CREATE OR REPLACE VIEW processes AS FROM read_parquet('exports/*/process/*/*.parquet', union_by_name = true);
CREATE OR REPLACE VIEW calls AS FROM read_parquet('exports/*/call/*/*.parquet', union_by_name = true);
CREATE OR REPLACE VIEW objects AS FROM read_parquet('exports/*/object/*/*.parquet', union_by_name = true);
CREATE OR REPLACE VIEW openings AS FROM read_parquet('exports/*/opening/*/*.parquet', union_by_name = true);
CREATE OR REPLACE VIEW findings AS FROM read_parquet('exports/*/finding/*/*.parquet', union_by_name = true);
CREATE OR REPLACE VIEW stacks AS FROM read_parquet('exports/*/stack/*/*.parquet', union_by_name = true);
CREATE OR REPLACE VIEW frames AS FROM read_parquet('exports/*/frame/*/*.parquet', union_by_name = true);
CREATE OR REPLACE VIEW marks AS FROM read_parquet('exports/*/mark/*/*.parquet', union_by_name = true);
CREATE OR REPLACE VIEW faults AS FROM read_parquet('exports/*/fault/*/*.parquet', union_by_name = true);
CREATE OR REPLACE VIEW devices AS FROM read_parquet('exports/*/device/*/*.parquet', union_by_name = true);
CREATE OR REPLACE VIEW pairs AS FROM read_parquet('exports/*/pair/*/*.parquet', union_by_name = true);
