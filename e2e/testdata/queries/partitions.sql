-- The captures of each part of each crawl.
SELECT crawl, subset, COUNT(*) FROM "ccindex"."ccindex" GROUP BY crawl, subset;
