-- Which ranks call a function more or less often than the others, by the rule of `cupeer report`: where more than half
-- of the ranks agree, whoever has another count; else whoever is more than three times as far from the median as ranks
-- usually are, and more than a tenth of it.
WITH counted AS (
    SELECT job, function, rank, CAST(count(*) AS BIGINT) AS calls
    FROM calls
    WHERE rank IS NOT NULL
    GROUP BY job, function, rank
),
ranks AS (
    SELECT DISTINCT job, rank FROM processes WHERE rank IS NOT NULL
),
functions AS (
    SELECT DISTINCT job, function FROM counted
),
-- A rank that never called it counts, too.
spread AS (
    SELECT functions.job AS job, functions.function AS function, ranks.rank AS rank, coalesce(counted.calls, 0) AS calls
    FROM functions
    JOIN ranks ON functions.job = ranks.job
    LEFT JOIN counted
        ON counted.job = functions.job AND counted.function = functions.function AND counted.rank = ranks.rank
),
ordered AS (
    SELECT job, function, rank, calls,
        CAST(row_number() OVER (PARTITION BY job, function ORDER BY calls, rank) AS BIGINT) AS place,
        CAST(count(*) OVER (PARTITION BY job, function) AS BIGINT) AS ranks
    FROM spread
),
middle AS (
    SELECT job, function, max(calls) AS others
    FROM ordered
    WHERE place = floor((ranks + 1) / 2)
    GROUP BY job, function
),
distances AS (
    SELECT ordered.job AS job, ordered.function AS function, ordered.rank AS rank, ordered.calls AS calls,
        ordered.ranks AS ranks, middle.others AS others, abs(ordered.calls - middle.others) AS distance
    FROM ordered
    JOIN middle ON ordered.job = middle.job AND ordered.function = middle.function
),
placed AS (
    SELECT job, function, rank, calls, ranks, others, distance,
        CAST(row_number() OVER (PARTITION BY job, function ORDER BY distance, rank) AS BIGINT) AS place,
        sum(CASE WHEN distance = 0 THEN 1 ELSE 0 END) OVER (PARTITION BY job, function) AS agreeing
    FROM distances
),
usual AS (
    SELECT job, function, max(distance) AS usual
    FROM placed
    WHERE place = floor(ranks / 2) + 1
    GROUP BY job, function
)
SELECT placed.job AS job, placed.function AS function, placed.rank AS rank, placed.calls AS calls,
    placed.others AS others, placed.agreeing * 2 > placed.ranks AS exact
FROM placed
JOIN usual ON placed.job = usual.job AND placed.function = usual.function
WHERE placed.ranks >= 3
    AND CASE
        WHEN placed.agreeing * 2 > placed.ranks THEN placed.distance > 0
        ELSE placed.distance > 3 * usual.usual AND placed.distance * 10 > placed.others
    END
ORDER BY job, function, rank
