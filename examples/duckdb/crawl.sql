-- How many captures has each part of the archive, by status?
SELECT crawl, subset, fetch_status, count(*) AS captures
FROM read_parquet('crawl/tables/cc-index/table/cc-main/warc/*/*/*.parquet', hive_partitioning = true)
GROUP BY ALL ORDER BY ALL;

-- Which media types have the most bytes?
SELECT content_mime_detected AS mime, count(*) AS captures, sum(warc_record_length) AS bytes
FROM read_parquet('crawl/tables/cc-index/table/cc-main/warc/*/*/*.parquet', hive_partitioning = true)
WHERE subset = 'warc' GROUP BY mime ORDER BY bytes DESC, mime;

-- Which results had the visits?
SELECT status, count(*) AS visits FROM read_parquet('crawl/tables/log/*/*.parquet')
GROUP BY status ORDER BY status;

-- Which URLs failed, and which pages link to them?
SELECT f.url, f.status, count(DISTINCT l.source) AS pages
FROM read_parquet('crawl/tables/failures/*/*.parquet') f
LEFT JOIN read_parquet('crawl/tables/links/*/*.parquet') l ON l.target = f.url
GROUP BY ALL ORDER BY pages DESC, f.url;

-- Which pages have the most incoming links?
SELECT target, count(DISTINCT source) AS pages FROM read_parquet('crawl/tables/links/*/*.parquet')
GROUP BY target ORDER BY pages DESC, target LIMIT 20;
