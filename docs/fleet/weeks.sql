-- Jobs compared: how often each function was called, how often it failed and how long it took, beside the job before.
-- The order is that of their begin. Percentiles are accurate to 1%: durations are counted in steps of that size.
WITH began AS (
    SELECT job, min(start_ns) AS began_ns FROM processes GROUP BY job
),
jobs AS (
    SELECT job, began_ns, CAST(row_number() OVER (ORDER BY began_ns, job) AS BIGINT) AS place FROM began
),
steps AS (
    SELECT job, function, floor(ln(duration_ns + 1) * 100) AS step,
        CAST(count(*) AS BIGINT) AS calls,
        CAST(sum(CASE WHEN result LIKE '%SUCCESS' OR result IS NULL THEN 0 ELSE 1 END) AS BIGINT) AS failures,
        sum(duration_ns) AS total_ns
    FROM calls
    GROUP BY job, function, floor(ln(duration_ns + 1) * 100)
),
placed AS (
    SELECT job, function, step, calls, failures, total_ns,
        sum(CASE WHEN step IS NULL THEN 0 ELSE calls END) OVER (PARTITION BY job, function ORDER BY step) AS place,
        sum(CASE WHEN step IS NULL THEN 0 ELSE calls END) OVER (PARTITION BY job, function) AS ranked
    FROM steps
),
functions AS (
    SELECT job, function,
        CAST(sum(calls) AS BIGINT) AS calls,
        CAST(sum(failures) AS BIGINT) AS failures,
        CAST(sum(total_ns) AS BIGINT) AS total_ns,
        CAST(floor(exp(min(CASE WHEN place * 2 >= ranked THEN step END) / 100.0)) AS BIGINT) AS p50_ns
    FROM placed
    GROUP BY job, function
),
numbered AS (
    SELECT jobs.place AS place, jobs.began_ns AS began_ns, functions.job AS job, functions.function AS function,
        functions.calls AS calls, functions.failures AS failures, functions.total_ns AS total_ns,
        functions.p50_ns AS p50_ns
    FROM functions
    JOIN jobs ON functions.job = jobs.job
)
SELECT this.began_ns AS began_ns, this.job AS job, this.function AS function, this.calls AS calls,
    this.failures AS failures, this.total_ns AS total_ns, this.p50_ns AS p50_ns,
    before.calls AS calls_before, before.failures AS failures_before, before.p50_ns AS p50_before_ns
FROM numbered AS this
LEFT JOIN numbered AS before ON before.place = this.place - 1 AND before.function = this.function
ORDER BY began_ns, job, function
