-- Who holds whose memory: what was opened and is not closed, by who has it open and who exported it. What a process
-- ended with counts as well: its state says so.
SELECT job, host, proc, rank, exporter_host, exporter_proc, exporter_rank, kind, state,
    CAST(count(*) AS BIGINT) AS handles,
    CAST(sum(times) AS BIGINT) AS times,
    CAST(sum(coalesce(bytes, 0)) AS BIGINT) AS bytes,
    min(opened_ns) AS since_ns
FROM openings
WHERE closed_ns IS NULL
GROUP BY job, host, proc, rank, exporter_host, exporter_proc, exporter_rank, kind, state
ORDER BY bytes DESC, job, proc, exporter_proc, kind, state
