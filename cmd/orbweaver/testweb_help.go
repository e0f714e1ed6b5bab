package main

import "github.com/orbweaver/orbweaver/internal/cli"

// testwebHelp holds the help texts of "testweb". A flag's tag refers to its text by
// name, as in ${testweb_hosts}.
var testwebHelp = cli.Texts{
	"testweb_generate": "Generate a web from a random seed. Its hosts and pages are computed on request, not stored.",
	"testweb_wild": "With --generate: include the faults of the real web, at the shares listed above (default: no " +
		"faults).",
	"testweb_seed":       "Use random seed N. The same seed and flags give the same web, byte for byte (default: 1).",
	"testweb_hosts":      "Generate N hosts; 100 million and more are possible (default: 1000).",
	"testweb_pages_mean": "Generate N pages per host on average. The sizes follow a power law (default: 100).",
	"testweb_max_pages":  "Generate at most N pages per host (default: 300 times the mean, at least 1000).",
	"testweb_page_bytes": "Make pages BYTES long on average (default: 22.3KB).",
	"testweb_links":      "Put N links on each page on average (default: 50).",
	"testweb_local":      "Let SHARE of the links stay within their site (default: 0.8).",
	"testweb_topics":     "Use N topics for the hosts, at most 15 (default: 15).",
	"testweb_languages":  "Use N languages for the hosts, at most 20 (default: 20).",
	"testweb_locality": "Let SHARE of the links between sites lead to the same topic, and SHARE of them to the same " +
		"language (default: 0.7).",
	"testweb_graph": "Take hosts, pages and links from this link graph: sorted lines of FROM, a tab and TO; may be " +
		"gzipped.",
	"testweb_redirects":  "Let SHARE of the links lead through redirects.",
	"testweb_dead_links": "Let SHARE of the links lead to a 404.",
	"testweb_crosslinked": "Link SHARE of the pages only from pages of other hosts (default: 0, every page is linked " +
		"within its host).",
	"testweb_edits": "Let the copies of --mirrors and --duplicates differ from their originals in SHARE of the words " +
		"(default: 0, equal to the byte).",
	"testweb_copies_out": "Write all copies to FILE: URL, tab, URL of the original, tab, the share of --edits; - is " +
		"standard output.",
	"testweb_failing":        "Answer 503 on SHARE of the pages once or twice, then 200.",
	"testweb_busy":           "Answer 429 with Retry-After on SHARE of the pages once, then 200.",
	"testweb_slow":           "Take 0.2 to 1 s to begin the answer on SHARE of the pages, and as long again to end it.",
	"testweb_denied":         "Forbid SHARE of the pages in robots.txt.",
	"testweb_duplicates":     "Make SHARE of the pages copies of another page of their host.",
	"testweb_gone":           "Answer 410 on SHARE of the pages.",
	"testweb_broken":         "Answer 500 on SHARE of the pages.",
	"testweb_hanging":        "Stop answering, without closing the connection, on SHARE of the pages.",
	"testweb_resetting":      "Reset the connection on SHARE of the pages.",
	"testweb_truncated":      "Close the connection before the end on SHARE of the pages.",
	"testweb_crawl_delays":   "Let SHARE of the hosts ask for a Crawl-delay.",
	"testweb_crawl_delay":    "Let these hosts ask for a Crawl-delay of D (default: 2s).",
	"testweb_sitemaps":       "Give SHARE of the hosts a sitemap of all their pages.",
	"testweb_without_robots": "Give SHARE of the hosts no robots.txt.",
	"testweb_traps":          "Give SHARE of the hosts an endless calendar, session ids and growing paths.",
	"testweb_secure":         "Serve SHARE of the hosts on HTTPS, with a redirect there from HTTP.",
	"testweb_slow_hosts":     "Take 0.2 to 1 s to begin each answer on SHARE of the hosts.",
	"testweb_mirrors":        "Make SHARE of the hosts copies of another host.",
	"testweb_closed_hosts":   "Forbid everything in robots.txt on SHARE of the hosts.",
	"testweb_dead_hosts": "Let SHARE of the hosts have no address, hang, reset connections, or have a wrong " +
		"certificate.",
	"testweb_urls": "Write the URLs of random pages to FILE, for a client that fetches from a list; - is standard " +
		"output.",
	"urls_count":     "Write N URLs to the file of --urls.",
	"testweb_record": "Serve these WARC files, or the archive of a crawl directory, as recorded.",
	"testweb_more":   "Serve these files, too; requires --record.",
	"testweb_record_at": "If a URL has several captures, serve the first at or after TIME, such as 2024-05-31 or " +
		"2024-05-31T12:00:00Z (default: the latest).",
	"testweb_record_max": "Cut responses at BYTES. The program holds each in memory while it sends it.",
	"testweb_topical": "Generate a web whose pages have the texts of FILE by category: lines of JSON, as for " +
		"\"classify train\"; may be gzipped.",
	"testweb_topical_only":  "Use only the texts whose FIELD is VALUE, such as split=test.",
	"testweb_topical_pages": "Generate N pages.",
	"testweb_topical_locality": "Let SHARE of the links lead to a page of the same category. The default is the " +
		"paper's on X4.",
	"testweb_topical_mix":  "Let SHARE of the pages of a host have other categories than most of them.",
	"testweb_topical_seed": "Use random seed N. The same seed, texts and flags give the same web.",
	"testweb_articles": "Serve the articles of FILE with their links: lines of JSON with id, title, topics, links " +
		"(ids) and text; may be gzipped.",
	"testweb_topical_hosts": "Spread the pages over N hosts (default: one for 100 pages; 100 with --articles).",
	"testweb_topical_slugs": "Put the words of the titles into the URLs (default: URLs tell nothing of a page).",
	"testweb_topical_anchors": "Let the anchor text of a link be the title of its page, or generic, such as " +
		"\"here\", with the title before the link.",
	"testweb_topics_out": "Write the topics of all pages to FILE: URL, tab, topics with commas between; - is " +
		"standard output.",
	"testweb_close_each": "Close each connection after its first response, on recorded and generated hosts.",
	"testweb_bandwidth":  "Send at most RATE, such as 320Mbit or 40MB a second (default: no limit).",
	"testweb_latency": "Delay each response by D, and the first of a connection by twice as much (default: 0, no " +
		"delay).",
	"testweb_shape_per": "Apply --bandwidth to all clients together, or to each client address.",
	"truth_seeds":       "Count the pages that a crawl reaches from the home pages of the first N hosts.",
	"truth_depth":       "Count pages at most N links away from these home pages; -1 sets no limit.",
	"truth_scope":       "Count pages within the same host, the same domain, or any.",
	"truth_no_robots":   "Count pages that robots.txt forbids, too.",
	"truth_sitemaps":    "Count pages that sitemaps list, for each host of which a page is reached.",
	"truth_two_level": "Count the pages that a crawl reaches from the home page of each host it finds, without links " +
		"to other pages of other hosts.",
	"truth_without": "Do not count the pages that a crawl can reach. The count takes place when the report " +
		"is first asked for, on webs up to 10 million pages.",
	"testweb_folder": "Serve the files in DIR as http(s)://HOST/; HOST/PREFIX=DIR serves them below a path. HOST may " +
		"be a URL. Repeatable.",
	"testweb_scheme":      "Serve the folders by this scheme; the other scheme redirects to it.",
	"testweb_listing":     "List the files of folders that have no index page, as links.",
	"testweb_gzip":        "Compress text for clients that accept it.",
	"testweb_debian_docs": "Serve Debian's documentation packages under the names of their web sites.",
	"testweb_demo":        "Serve the small web of \"orbweaver demo\".",
	"testweb_scripts":     "Serve applications whose pages only scripts fill; start at https://scripts.example/.",
	"testweb_trouble":     "Serve pages that try to harm a browser; start at http://browser-trap.example/.",
	"testweb_hostile":     "Serve hosts that try to harm crawlers; start at http://hostile.example/.",
	"testweb_raw": "Serve each file NAME.http in DIR byte for byte, as the response to http://HOST/NAME. " +
		"Repeatable.",
	"testweb_suffix": "Serve the files of HOST's folders also without SUFFIX, such as .html: page.html as /page. " +
		"Repeatable.",
	"no_politeness": "Count no violations and no gaps between requests, for a crawler that promises no politeness.",
	"testweb_address": "Give HOST the address IP, one of 127.0.0.0/8. Repeatable; hosts may share an address. No " +
		"effect on recorded and generated hosts.",
	"testweb_addresses": "Spread the hosts over N addresses; -1 gives each host one (default: one each; some hosts " +
		"of a generated web share one).",
	"testweb_http_port":  "Serve HTTP on this port of each loopback address (default: any free port).",
	"testweb_https_port": "Serve HTTPS on this port of each loopback address (default: any free port).",
	"testweb_dns_listen": "Run the name server at this loopback address; port 0 takes any free port.",
	"testweb_control":    "Serve GET /.testweb/report at this loopback address; port 0 takes any free port.",
	"testweb_ttl":        "Let DNS answers live for D.",
	"testweb_ca_out": "Write the certificate of the web's own authority to FILE, for crawl --ca; - is standard " +
		"output.",
	"testweb_seeds_out": "Write the start URLs to FILE, for crawl --seeds; - is standard output.",
	"testweb_hosts_out": "Write the addresses and names of all hosts to FILE, in the form of /etc/hosts; - is " +
		"standard output.",
	"testweb_config_out": "Write the flags to crawl this web to FILE, for crawl --config; - is standard output.",
	"testweb_time_limit": "Stop after D (default: 0, stop on Ctrl-C).",
	"promise_delay": "Report requests to a host that come sooner than D after its last response (default: 0, " +
		"none).",
	"promise_ip_delay":   "Report the same for an address (default: 0, none).",
	"promise_site_delay": "Report the same for a registered domain (default: 0, none).",
	"promise_views": "Allow views: let a browser's requests for the files of a page come without a delay, for at " +
		"most D, and report hosts that do not rest after them (default: 0, no views).",
	"promise_crawl_delay": "Report requests that come sooner than robots.txt's Crawl-delay allows.",
	"promise_agent":       "Judge requests by the robots.txt groups of this product name.",
	"testweb_log": "Write a line for each request to FILE: start, end, connection, method, status, bytes, how it " +
		"ended, URL; - is standard output.",
	"testweb_report_out": "Write the report to FILE at the end, as JSON; - is standard output.",
	"testweb_as_json":    "Print the addresses as one line of JSON, for scripts.",
	"testweb_dripping": "Serve N hosts, drip0.example and so on, that send one byte of each page every 8 s " +
		"(default: 0, none).",
	"testweb_changes": "Let the pages change, each by its own Poisson process, and send ETag and Last-Modified.",
	"testweb_change_rates": "Let SHARE of the pages change once in TIME on average, or in a time within FROM-TO, in " +
		"the web's time (6h, 30d). All others never change (default: " +
		"23%:6h-1d,15%:1d-7d,16%:7d-30d,16%:30d-120d, as observed on the web in 1999).",
	"testweb_day": "Let a day of the web's time pass in D of real time; D must be above 0 (default: 24h).",
	"testweb_changes_since": "Begin the web's time at TIME, such as 2026-01-31T12:00:00Z. Runs show the same " +
		"versions at the same distance from it (default: 2000-01-01T00:00:00Z).",
	"testweb_etag":          "Give SHARE of the pages an ETag and no Last-Modified (default: 0.15).",
	"testweb_modified_only": "Give SHARE of the pages a Last-Modified and no ETag (default: 0.15).",
	"testweb_no_validators": "Give SHARE of the pages neither ETag nor Last-Modified (default: 0.2). All others have " +
		"both.",
	"testweb_lying": "Give SHARE of the pages a wrong ETag and Last-Modified: on half of these pages they stay the " +
		"same when the page changes, on the other half they change with each request (default: 0).",
}
