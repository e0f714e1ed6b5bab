-- The media types of the pages of one crawl.
SELECT content_mime_type, COUNT(*) FROM "ccindex"."ccindex"
WHERE crawl = 'CC-MAIN-2018-05' AND subset = 'warc' GROUP BY content_mime_type;
