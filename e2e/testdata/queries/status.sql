-- The statuses of what is not a page, in one crawl.
SELECT fetch_status, COUNT(*) FROM "ccindex"."ccindex"
WHERE crawl = 'CC-MAIN-2018-05' AND subset = 'crawldiagnostics' GROUP BY fetch_status;
