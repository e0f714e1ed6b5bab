-- The captures of each ranked domain, in one crawl.
SELECT ranked.site, COUNT(*) FROM "ccindex"."ccindex" AS cc
JOIN "ccindex"."alexa_top_1m" AS ranked ON ranked.site = cc.url_host_registered_domain
WHERE cc.crawl = 'CC-MAIN-2018-05' GROUP BY ranked.site;
