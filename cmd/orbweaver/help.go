package main

import "github.com/alecthomas/kong"

// crawlHelp holds the help texts of "crawl". A flag's tag refers to its text by
// name, as in ${partition}.
var crawlHelp = kong.Vars{
	"seed":   "Start from these URLs.",
	"seeds":  "Read seeds from FILE, one URL a line; '#' starts a comment; - reads standard input.",
	"dir":    "Keep the crawl in directory DIR.",
	"config": "Read flags from the YAML file FILE.",
	"resume": "Continue the crawl in --dir with the flags it started with; flags given now take " +
		"precedence.",
	"overwrite":       "Delete the crawl in --dir and start a new one.",
	"unblock":         "With --resume: crawl these hosts again, which \"orbweaver ctl block\" had blocked.",
	"scope":           "Stay within each seed's page, path prefix, host or domain; any sets no bound.",
	"include":         "Crawl only URLs that match one of these regular expressions.",
	"exclude":         "Never crawl URLs that match one of these regular expressions, not even seeds.",
	"depth":           "Follow at most N links from a seed; 0 crawls the seeds alone, -1 sets no limit.",
	"page_limit":      "Stop after N pages (2xx responses) in all runs together (default: 0, no limit).",
	"host_page_limit": "Fetch at most N pages of each host (default: 0, no limit).",
	"size_limit":      "Stop after receiving BYTES in all runs together, such as 500MB (default: 0, no limit).",
	"time_limit":      "Stop this run after D, such as 90s or 2h30m (default: 0, no limit).",
	"requisites":      "Also fetch the images, styles and scripts that pages need.",
	"sitemaps":        "Also follow the sitemaps that robots.txt names.",
	"delay": "Wait D after a response before the next request to its host; 0 does not wait. " +
		"Crawl-delay in robots.txt may raise it.",
	"ip_delay": "Wait D in the same way for an IP address, across all hosts that it serves (default: a " +
		"quarter of --delay).",
	"site_delay": "Wait D in the same way for a registered domain (default: a quarter of --delay).",
	"slow_down":  "Pause a host for D after it answers 429 or 503; the pause doubles each time.",
	"retries":    "Retry a URL up to N times after a temporary failure; 0 never retries.",
	"retry_wait": "Wait D before the first retry; the wait doubles each time.",
	"rate":       "Start at most N visits a second, all hosts together (default: 0, no limit).",
	"user_agent": "Send this User-Agent header; the default names Orbweaver and the contact. The crawl " +
		"obeys the robots.txt groups of the product that the header names: mybot in " +
		"\"mybot/1.0\" and in \"Mozilla/5.0 (compatible; mybot/1.0)\".",
	"robots_agent": "Obey the robots.txt groups and robots meta tags of this product name instead of the one " +
		"in --user-agent.",
	"contact": "Name the URL or mail address at which sites can reach the crawl's operator. Required " +
		"for all hosts but loopback.",
	"workers": "Run up to N visits at once. A visit to a slow server no longer counts after 5 s, or after " +
		"30 s if it receives 1 kB/s or more; with many slow servers sooner.",
	"memory": "Give the process this much memory, at least " + leastMemory + ". Caches and queues " +
		"share it; the rest of their data is on disk.",
	"dns": "Ask these name servers, each an address with or without a port (default: those of " +
		"/etc/resolv.conf).",
	"connect_to": "Send requests for HOST:PORT to ADDR:PORT instead, like curl's flag of this name; empty " +
		"parts match all.",
	"ca":       "Trust the certificate authorities in this PEM file besides the system's.",
	"insecure": "Accept every TLS certificate.",
	"proxy": "Fetch through this proxy: http://, socks5:// or socks5h:// HOST:PORT. Requires " +
		"--contact. With http and socks5h the proxy looks names up, so a public name may lead to " +
		"a private address behind it; private names require --allow-private.",
	"allow_private": "Also connect to private, loopback and link-local addresses. Only the user of the process " +
		"can then read the crawl's files.",
	"max_body": "Cut bodies at BYTES and mark them as truncated.",
	"max_time": "End a fetch after D, connecting included; keep the part received and mark it as " +
		"truncated.",
	"min_rate": "End a response that is slower than BYTES a second on average, checked from 30 s after " +
		"its first byte; keep the part received and mark it as truncated. 0 ends none.",
	"timeout": "Give up a server that is silent for D, before its response or within it.",
	"dial_timeout": "Give up a server that does not accept the connection within D; the TLS handshake has " +
		"the same time again.",
	"warc_prefix": "Begin the archive files' names with S.",
	"warc_size":   "Start a new archive file at BYTES.",
	"name":        "Name this agent S; the archive files' names end with it.",
	"capacity":    "Give this agent weight X among the agents. No effect with a single agent.",
	"partition": "How agents divide the work. No effect with a single agent. rendezvous: by hosts, with " +
		"rendezvous hashing. ring: by hosts, with UbiCrawler's ring (see --kappa). hash: by hosts " +
		"as rendezvous does, and by contents: for each content one agent decides which page was " +
		"first; agents archive other pages with it as revisits and do not follow their links.",
	"kappa": "With --partition ring: give an agent of capacity 1 this many replicas on the ring, from 1 to " +
		"1000. More replicas divide the hosts more evenly (default: 200).",
	"replicas": "With --listen: keep the records of each host at N agents, 1 or 2. With 2, losing one " +
		"agent and its disk loses no URL (default: 2).",
	"listen": "Crawl with other agents, which reach this one at this IP address and port; an address " +
		"other than loopback requires --keys.",
	"join": "Join the cluster of the agents at these addresses, of which one has to answer. Without " +
		"--join, or with this agent's own address first, start the cluster.",
	"keys":     "Read this agent's keys from directory DIR, made by \"orbweaver cluster keys\".",
	"recovery": "With --listen: when a host becomes this agent's, ask N agents what they know of it.",
	"agents":   "With --listen: start when N agents are present.",
	"api":      "Answer \"orbweaver ctl\" and /metrics on this loopback address, such as 127.0.0.1:7480.",
	"json":     "Print progress and summary as JSON lines.",
	"quiet":    "Print no progress and no summary.",
	"strategy": "Choose the order of visits. bfs: follow every link, breadth-first. list: fetch only the " +
		"seeds and the targets of their redirects. recrawl: like bfs, and visit each page again " +
		"as often as it changes. walk: follow random walks, which sample pages by their PageRank.",
	"recrawl_min":    "With recrawl: visit a page again after D at the earliest, however often it changes.",
	"recrawl_max":    "With recrawl: visit a page again after D at the latest, even if it never changes.",
	"recrawl_rounds": "With recrawl: visit each page again N times (default: 0, no limit).",
	"walkers":        "With walk: run N walks side by side.",
	"walk_steps":     "With walk: stop after N steps, all walks together.",
	"walk_jump":      "With walk: return to a seed with probability P at each step.",
	"walk_seed":      "Random seed of the walks. The same seed, pages and start URLs give the same walks.",
}

// longHelp holds the help texts of other commands that do not fit on one line of
// code.
var longHelp = kong.Vars{
	"check_user_agent": "Send this User-Agent header and judge for the product named in it, as \"orbweaver " +
		"crawl\" does.",
	"check_robots_agent": "Judge for this product name instead of the one in --user-agent.",
	"check_file":         "Read this robots.txt instead of fetching the URLs' own; - is standard input.",
	"testweb_dripping": "Serve N hosts, drip0.example and so on, that send a byte of each page every 8 s " +
		"(default: none).",
	"testweb_changes": "Let the pages change, each by a Poisson process of its own, and say of which version " +
		"they are.",
	"testweb_change_rates": "Let SHARE of the pages change once in TIME on average, or in a time within FROM-TO, in " +
		"the web's time (6h, 30d). All others never change (default: " +
		"23%:6h-1d,15%:1d-7d,16%:7d-30d,16%:30d-120d, as observed on the web in 1999).",
	"testweb_day": "Let a day of the web's time pass in D of real time; 0 is not allowed (default: 24h).",
	"testweb_changes_since": "Begin the web's time at TIME, as 2026-01-31T12:00:00Z. The same time since then shows " +
		"the same versions (default: 2000-01-01T00:00:00Z).",
	"testweb_etag":          "Give SHARE of the pages an ETag and no Last-Modified (default: 0.15).",
	"testweb_modified_only": "Give SHARE of the pages a Last-Modified and no ETag (default: 0.15).",
	"testweb_no_validators": "Give SHARE of the pages neither (default: 0.2). All others have both.",
	"testweb_lying": "Give SHARE of the pages wrong ones: half of them stay the same when the page changes, " +
		"half change with each request (default: 0).",
	"warc_originals": "With --payload: also look for the original of a revisit in these crawl directories.",
}
