-- The pages, hosts and domains of each top-level domain, over all crawls.
SELECT url_host_tld, COUNT(*), COUNT(DISTINCT url_host_name), COUNT(DISTINCT url_host_registered_domain)
FROM "ccindex"."ccindex" WHERE subset = 'warc' GROUP BY url_host_tld;
