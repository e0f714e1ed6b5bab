-- The share of each crawl in the pages, in a view, in percent.
CREATE OR REPLACE VIEW shares AS
SELECT crawl, COUNT(*) AS n, COUNT(*) * 100.0 / SUM(COUNT(*)) OVER () AS share
FROM "ccindex"."ccindex" WHERE subset = 'warc' AND url_path LIKE '/%' GROUP BY crawl;
SELECT crawl, n FROM shares WHERE share > 0 AND share < 100;
