-- The tables for ClickHouse: clickhouse-local, in a directory whose folder `exports` has a folder for each job.
-- What a join does not find is null, and what is null stays so in another type, as elsewhere.
SET join_use_nulls = 1;
SET cast_keep_nullable = 1;
CREATE VIEW IF NOT EXISTS processes AS SELECT * FROM file('exports/*/process/*/*.parquet', Parquet);
CREATE VIEW IF NOT EXISTS calls AS SELECT * FROM file('exports/*/call/*/*.parquet', Parquet);
CREATE VIEW IF NOT EXISTS objects AS SELECT * FROM file('exports/*/object/*/*.parquet', Parquet);
CREATE VIEW IF NOT EXISTS openings AS SELECT * FROM file('exports/*/opening/*/*.parquet', Parquet);
CREATE VIEW IF NOT EXISTS findings AS SELECT * FROM file('exports/*/finding/*/*.parquet', Parquet);
CREATE VIEW IF NOT EXISTS stacks AS SELECT * FROM file('exports/*/stack/*/*.parquet', Parquet);
CREATE VIEW IF NOT EXISTS frames AS SELECT * FROM file('exports/*/frame/*/*.parquet', Parquet);
CREATE VIEW IF NOT EXISTS marks AS SELECT * FROM file('exports/*/mark/*/*.parquet', Parquet);
CREATE VIEW IF NOT EXISTS faults AS SELECT * FROM file('exports/*/fault/*/*.parquet', Parquet);
CREATE VIEW IF NOT EXISTS devices AS SELECT * FROM file('exports/*/device/*/*.parquet', Parquet);
CREATE VIEW IF NOT EXISTS pairs AS SELECT * FROM file('exports/*/pair/*/*.parquet', Parquet);
