-- What grew between two marks, as `cupeer report --leaks --since-mark warm --until-mark done` has it: what was opened
-- since the first mark called warm, and was open at the last one called done. Put your own marks here.
WITH times AS (
    SELECT job,
        min(CASE WHEN text = 'warm' THEN time_ns END) AS since_ns,
        max(CASE WHEN text = 'done' THEN time_ns END) AS until_ns
    FROM marks
    GROUP BY job
)
SELECT openings.job AS job, openings.host AS host, openings.proc AS proc, openings.rank AS rank, openings.kind AS kind,
    CAST(count(*) AS BIGINT) AS handles,
    CAST(sum(coalesce(openings.bytes, 0)) AS BIGINT) AS bytes,
    CAST(count(DISTINCT openings.exporter_proc) AS BIGINT) AS exporters
FROM openings
JOIN times ON openings.job = times.job
WHERE openings.opened_ns >= times.since_ns AND openings.opened_ns <= times.until_ns
    AND (openings.closed_ns IS NULL OR openings.closed_ns > times.until_ns)
GROUP BY openings.job, openings.host, openings.proc, openings.rank, openings.kind
ORDER BY job, bytes DESC, proc, kind
