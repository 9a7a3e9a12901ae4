-- The tables for Spark SQL: spark-sql -i docs/fleet/spark.sql, in a directory whose folder `exports` has a folder for each job.
CREATE OR REPLACE TEMPORARY VIEW processes USING parquet OPTIONS (path 'exports/*/process/*/*.parquet', mergeSchema 'true');
CREATE OR REPLACE TEMPORARY VIEW calls USING parquet OPTIONS (path 'exports/*/call/*/*.parquet', mergeSchema 'true');
CREATE OR REPLACE TEMPORARY VIEW objects USING parquet OPTIONS (path 'exports/*/object/*/*.parquet', mergeSchema 'true');
CREATE OR REPLACE TEMPORARY VIEW openings USING parquet OPTIONS (path 'exports/*/opening/*/*.parquet', mergeSchema 'true');
CREATE OR REPLACE TEMPORARY VIEW findings USING parquet OPTIONS (path 'exports/*/finding/*/*.parquet', mergeSchema 'true');
CREATE OR REPLACE TEMPORARY VIEW stacks USING parquet OPTIONS (path 'exports/*/stack/*/*.parquet', mergeSchema 'true');
CREATE OR REPLACE TEMPORARY VIEW frames USING parquet OPTIONS (path 'exports/*/frame/*/*.parquet', mergeSchema 'true');
CREATE OR REPLACE TEMPORARY VIEW marks USING parquet OPTIONS (path 'exports/*/mark/*/*.parquet', mergeSchema 'true');
CREATE OR REPLACE TEMPORARY VIEW faults USING parquet OPTIONS (path 'exports/*/fault/*/*.parquet', mergeSchema 'true');
CREATE OR REPLACE TEMPORARY VIEW devices USING parquet OPTIONS (path 'exports/*/device/*/*.parquet', mergeSchema 'true');
CREATE OR REPLACE TEMPORARY VIEW pairs USING parquet OPTIONS (path 'exports/*/pair/*/*.parquet', mergeSchema 'true');
