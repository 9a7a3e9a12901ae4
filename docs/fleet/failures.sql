-- The first failure of each job and what followed: for each process its first one, in the order of time, and how long
-- after the first of all that was. Failures that programs make when all is well do not count, and those of the
-- runtime are told as the driver's.
WITH failed AS (
    SELECT job, host, proc, rank, tid, time_ns, function, result, injected, injected_by, message,
        CAST(row_number() OVER (PARTITION BY job, proc ORDER BY time_ns, stream, seq) AS BIGINT) AS place,
        CAST(count(*) OVER (PARTITION BY job, proc) AS BIGINT) AS failures,
        min(time_ns) OVER (PARTITION BY job) AS first_ns
    FROM calls
    WHERE outcome = 'returned' AND result NOT LIKE '%SUCCESS' AND NOT is_usual AND library <> 'cudart'
)
SELECT job, host, proc, rank, tid, time_ns, time_ns - first_ns AS after_ns, function, result, injected, injected_by,
    message, failures
FROM failed
WHERE place = 1
ORDER BY job, time_ns, proc
