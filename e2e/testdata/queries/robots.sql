-- The newest robots.txt of each host, over all crawls.
WITH numbered AS (
  SELECT url, fetch_status, ROW_NUMBER() OVER (PARTITION BY url ORDER BY fetch_time DESC) AS n
  FROM "ccindex"."ccindex" WHERE subset = 'robotstxt')
SELECT url, fetch_status FROM numbered WHERE n = 1;
