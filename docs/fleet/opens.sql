-- How long it takes to open what others share, by the host of the exporter and that of the opener. Percentiles are
-- accurate to 1%: durations are counted in steps of that size.
WITH exported AS (
    SELECT job, fingerprint, max(host) AS host
    FROM objects
    GROUP BY job, fingerprint
),
opened AS (
    SELECT calls.job AS job, exported.host AS exporter_host, calls.host AS opener_host,
        CAST(floor(ln(calls.duration_ns + 1) * 100) AS BIGINT) AS step,
        CAST(count(*) AS BIGINT) AS opens,
        CAST(sum(CASE WHEN calls.result LIKE '%SUCCESS' THEN 0 ELSE 1 END) AS BIGINT) AS failed,
        max(calls.duration_ns) AS max_ns
    FROM calls
    LEFT JOIN exported ON calls.job = exported.job AND calls.fingerprint = exported.fingerprint
    WHERE (calls.function LIKE '%Open%Handle%' OR calls.function LIKE '%Import%') AND calls.outcome = 'returned'
        AND calls.library = 'cuda'
    GROUP BY calls.job, exported.host, calls.host, floor(ln(calls.duration_ns + 1) * 100)
),
placed AS (
    SELECT job, exporter_host, opener_host, step, opens, failed, max_ns,
        sum(opens) OVER (PARTITION BY job, exporter_host, opener_host ORDER BY step) AS place,
        sum(opens) OVER (PARTITION BY job, exporter_host, opener_host) AS ranked
    FROM opened
)
SELECT job, exporter_host, opener_host,
    CAST(sum(opens) AS BIGINT) AS opens,
    CAST(sum(failed) AS BIGINT) AS failed,
    CAST(floor(exp(min(CASE WHEN place * 2 >= ranked THEN step END) / 100.0)) AS BIGINT) AS p50_ns,
    CAST(floor(exp(min(CASE WHEN place * 100 >= ranked * 99 THEN step END) / 100.0)) AS BIGINT) AS p99_ns,
    max(max_ns) AS max_ns
FROM placed
GROUP BY job, exporter_host, opener_host
ORDER BY job, exporter_host, opener_host
