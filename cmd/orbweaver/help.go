package main

import "github.com/orbweaver/orbweaver/internal/cli"

// crawlHelp holds the help texts of "crawl". A flag's tag refers to its text by
// name, as in ${partition}.
var crawlHelp = cli.Texts{
	"seed": "Start from these URLs. A URL without a scheme means https, or http if no https connection " +
		"can be made.",
	"seeds":  "Read seeds from each FILE, one URL per line; '#' starts a comment; - reads standard input.",
	"dir":    "Keep the crawl in directory DIR.",
	"config": "Read flags from the YAML file FILE.",
	"resume": "Continue the crawl in --dir with the flags it started with; flags given now take " +
		"precedence.",
	"start_or_resume": "Continue the crawl in --dir if there is one; otherwise start one. For services.",
	"stay": "Do not exit when the crawl is done or has reached a limit; wait for a signal. A later start leaves " +
		"a finished crawl as it is. For supervisors that restart each process that exits.",
	"overwrite": "Delete the crawl in --dir and start a new one.",
	"dry_run": "Check the settings, the seeds, their names and their robots.txt, and print what the crawl would " +
		"do. Write nothing, and fetch nothing else.",
	"example":     "With --dry-run: also tell whether this URL is in scope.",
	"ctl_explain": "Name this URL, such as https://www.example.org/news/1, or this host.",
	"unblock": "With --resume: crawl these hosts again, which \"orbweaver ctl block\" had blocked, or what " +
		"\"orbweaver ctl exclude\" has excluded by this pattern or order.",
	"scope":   "Stay within each seed's page, path prefix, host or domain; any sets no bound.",
	"include": "Crawl only URLs that match one of these regular expressions.",
	"exclude": "Never crawl URLs that match one of these regular expressions, not even seeds.",
	"exclude_file": "Visit no host, domain, range of addresses or URL of this file: one on each line, such as " +
		"www.example.org, *.example.org, 192.0.2.0/24 or the regular expression /calendar/. The agent reads the file " +
		"again when it changes.",
	"depth": "Follow at most N links from a seed; 0 crawls the seeds alone, -1 sets no limit.",
	"page_limit": "Stop after N pages (2xx responses, without sitemaps and what pages embed) in all runs together " +
		"(default: 0, no limit).",
	"host_depth": "Follow at most N links within a host from where the crawl entered it: a seed, or a URL that " +
		"another host links to; 0 crawls only these, -1 sets no limit.",
	"host_page_limit": "Fetch at most N pages of each host (default: 0, no limit).",
	"min_free_disk":   "Stop with exit code 3 before less than BYTES are free on the disk; 0 turns this off.",
	"size_limit":      "Stop after receiving BYTES in all runs together, such as 500MB (default: 0, no limit).",
	"time_limit":      "Stop this run after D, such as 90s or 2h30m (default: 0, no limit).",
	"requisites": "Also fetch the images, styles and scripts that pages need; --no-requisites does not " +
		"(default: on with --scope page, prefix or host, but not with --strategy list or walk).",
	"sitemaps": "Also follow the sitemaps that robots.txt names, or else /sitemap.xml; --sitemaps=URL also follows " +
		"this one; --no-sitemaps follows none (default: on with --scope host or domain, but not with --strategy list " +
		"or walk).",
	"sitemap_from": "Leave out what sitemaps say has not changed since DATE, such as 2026-11-30 or " +
		"2026-11-30T08:00:00Z; entries without a date count. Pages that links reach are fetched all the same.",
	"seed_roots": "Also crawl the root page of each host on which the crawl visits a page.",
	"keep": "Archive only responses of this media type, such as application/pdf or image/*, or whose URL matches " +
		"this regular expression; follow the links of all. mime: and url: before the value say which is meant.",
	"obey_noarchive": "Leave responses out of the archive that say noarchive, in a robots meta tag or in " +
		"X-Robots-Tag; follow their links.",
	"near_duplicates": "What becomes of a page whose text is nearly that of an archived page: off, do not compare " +
		"texts; mark, name the other page in crawl.log and in the archive; drop, archive only a note that names " +
		"it, and do not follow its links.",
	"delay": "Wait D after a response before the next request to its host; 0 does not wait. auto waits for a " +
		"multiple of the host's last response times. Crawl-delay in robots.txt may raise it.",
	"delay_factor": "With --delay auto: wait N times as long as the host's last responses took.",
	"delay_min":    "With --delay auto: wait D at least.",
	"delay_max":    "With --delay auto: wait D at most; robots.txt may ask for more.",
	"ip_delay": "Wait D in the same way for an IP address, across all hosts that it serves; 0 does not wait " +
		"(default: a quarter of --delay, or of --delay-min).",
	"site_delay": "Wait D in the same way for a registered domain, such as example.org; 0 does not wait (default: " +
		"a quarter of --delay, or of --delay-min).",
	"host_share": "Send at most this share of an hour's requests to one host, such as 0.2%, but always one a minute " +
		"(default: 0, no limit).",
	"slow_down":  "Pause a host for D after a 429 or 503, or for its Retry-After; the pause doubles each time.",
	"retries":    "Retry a URL up to N times after a temporary failure; 0 never retries.",
	"retry_wait": "Wait D before the first retry; the wait doubles each time.",
	"rate": "Send at most this many requests a second, such as 300/s or 300, or receive at most this many bits a " +
		"second, such as 200Mbit; for all agents together. Times of day are in UTC unless a time zone is named: " +
		"'40/s 8-18 mon-fri Europe/Berlin, else 300/s' (default: none, no limit).",
	"user_agent": "Send this User-Agent header; the default names Orbweaver, and the contact if that is a URL. The " +
		"crawl obeys the robots.txt groups of the product that the header names: mybot in " +
		"\"mybot/1.0\" and in \"Mozilla/5.0 (compatible; mybot/1.0)\".",
	"robots_agent": "Obey the robots.txt groups and robots meta tags of this product name instead of the one " +
		"in --user-agent.",
	"contact": "Name the URL or mail address at which sites can reach the crawl's operator. Required " +
		"for all hosts but loopback.",
	"workers": "Run up to N visits at once, 1 to 10000. A visit to a slow server no longer counts after 5 s, or " +
		"after 30 s if it receives 1 kB/s or more; with many slow servers sooner, and also if --rate needs " +
		"more open requests.",
	"memory": "Give the process BYTES of memory, at least 128MiB. Caches and queues " +
		"share it; the rest of their data is on disk.",
	"header": "Send this header with every request, to every host. Values of headers such as X-API-Key stay out " +
		"of the archive and of crawl.yaml.",
	"cookies": "Keep the cookies that servers set, in memory, and send them back.",
	"cookie_file": "Send the cookies in FILE, in the Netscape format (cookies.txt), to the hosts that they belong " +
		"to; includes --cookies.",
	"auth_file": "Send the credentials in FILE, in the format of netrc, to the hosts that they belong to; over " +
		"https only, unless the file says http://HOST.",
	"dns": "Ask these name servers, each an address with or without a port (default: those of " +
		"/etc/resolv.conf).",
	"connect_to": "Send requests for HOST:PORT to ADDR:PORT instead, like curl's flag of this name; empty " +
		"parts match all. HOST is not looked up.",
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
	"warcinfo": "Write this field into the warcinfo record of each archive file, such as operator, publisher, " +
		"description, audience or isPartOf; repeat it for several. operator, isPartOf and hostname replace what the " +
		"crawl writes.",
	"segment": "Divide the archive into segments, as Common Crawl does: one for each SPAN, which is a time (1h), a " +
		"size (1GB), or end for the whole run. A segment is in DIR/crawl-data/CRAWL/segments; CRAWL is the isPartOf " +
		"of --warcinfo (default: DIR's name). It is complete when it has the file _SUCCESS.",
	"segment_tables": "With --segment: Parquet tables of each segment, in DIR/cc-index. all, index (without those of " +
		"the logs) or none.",
	"store": "Send each complete segment to this store beside the crawl: s3://BUCKET/PREFIX or file:///DIRECTORY. " +
		"\"orbweaver store --help\" says where S3 finds its endpoint and credentials.",
	"local_archive": "With --store: keep at most BYTES of segments here; the files of the oldest that the store has " +
		"are removed. If the store is away, the crawl waits. 0 keeps only what the store lacks (default: keep all).",
	"store_rate": "With --store: send at most RATE, such as 20MB/s.",
	"store_option": "With --store: send files with this option of S3: encryption=AES256, encryption=aws:kms, " +
		"kms-key=ID, lock=governance, lock=compliance, retain=30d, class=STANDARD_IA or path-style=true; repeat it " +
		"for several.",
	"store-state": "Also save the crawl's state in the store each D, such as 10m, so that --resume --store " +
		"continues it on an empty machine. 0: do not.",
	"outlinks": "Also write the links of each page into its metadata record, as Heritrix does, at most 6000 a page.",
	"links": "Also write the link log: which page links to which URL, with its words. \"orbweaver links\" " +
		"reads it.",
	"dedup_from": "Archive a page whose content an earlier crawl has as a revisit record that refers to it. PATH is " +
		"the directory of a crawl, its store, a WACZ, or a CDXJ file of any program, plain or gzip. With " +
		"several agents name the directories of all.",
	"dedup_min_size": "With --dedup-from: archive a response with a body below BYTES in full; 0 compares all.",
	"name":           "Name this agent S; the archive files' names end with it.",
	"capacity":       "With --listen: give this agent weight N (above 0, at most 1000) among the agents.",
	"partition": "With --listen: how agents divide the work. rendezvous: by hosts, with " +
		"rendezvous hashing. ring: by hosts, with UbiCrawler's ring (see --kappa). hash: by hosts " +
		"as rendezvous does, and by contents: for each content one agent decides which page was " +
		"first; agents archive other pages with it as revisits and do not follow their links. sites: by hosts, " +
		"as coordinators assign them (see --coordinator). topic: by pages. The category of a page, by --model, " +
		"names the agent that keeps it and follows its links.",
	"boundary": "With --partition hash or topic: what becomes of a page that belongs to another agent. contents: the " +
		"page moves there, is archived there, and its links are followed from there. urls, with topic only: the page " +
		"stays at the agent that fetched it, and its links are followed from there (default: contents with topic; " +
		"with hash the page stays at the agent that fetched it).",
	"content_hash": "With --partition hash --boundary contents: the hash that names a page's agent. exact: of the " +
		"page's bytes. near: the least hash of five successive words in its text, so that pages with nearly the same " +
		"text probably come to one agent (see --near-duplicates).",
	"kappa": "With --partition ring: give an agent of capacity 1 this many replicas on the ring, from 1 to " +
		"1000. More replicas divide the hosts more evenly (default: 200).",
	"coordinator": "With --partition sites: ask the coordinators at these addresses which agent owns a host; see " +
		"\"orbweaver coordinator\". Give all of them, and all agents the same.",
	"coverage": "With --partition sites: what agents do with links to hosts of other agents. full: send them. " +
		"two-level: drop them, and crawl the root page of each host; pages that only other hosts link to may be " +
		"missed.",
	"replicas": "With --listen: keep the records of each host at N agents, 1 or 2. With 2, losing one " +
		"agent and its disk loses no URL.",
	"on_loss": "With --replicas 2: what to do about the pages of an archive that was lost with its agent. keep: list " +
		"them in reports. refetch: fetch them again before the crawl ends, unless the agent is back by then.",
	"listen": "Crawl with other agents, which reach this one at this IP address and port; an interface or " +
		"a name of this machine may stand for the IP address. An address other than loopback requires --keys.",
	"join": "Join the cluster of the agents at these addresses; at least one must answer. A host name stands " +
		"for all its addresses. Without --join, or with this agent's own address first, start the cluster.",
	"founder": "Let the agent of this name start the cluster, whatever the order of --join. Give all agents the " +
		"same name (default: see --join).",
	"keys": "Read this agent's keys from directory DIR, made by \"orbweaver cluster keys\".",
	"recovery": "With --listen: when this agent becomes the owner of a host, ask N agents which of its URLs " +
		"they know.",
	"agents": "With --listen: start when N agents are present.",
	"api": "Answer \"orbweaver ctl\", a browser and /metrics on this address, such as 127.0.0.1:7480; none: do not " +
		"answer (default: a free port of 127.0.0.1). An address other than loopback requires --api-cert or --keys.",
	"api_cert":   "Serve --api over TLS with the certificate in this PEM file, and the authorities that it has.",
	"api_key":    "Read the private key of --api-cert from this PEM file (default: the file of --api-cert).",
	"cpuprofile": "Write a processor profile to FILE, for \"go tool pprof\".",
	"memprofile": "Write a profile of the memory in use at the end to FILE, for \"go tool pprof\".",
	"json":       "Print progress and summary as JSON lines.",
	"stream": "Print a line of JSON for each page on standard output: jsonl. A slow reader slows the crawl. Progress " +
		"and summary go to standard error.",
	"quiet": "Print no progress and no summary.",
	"strategy": "Choose the order of visits. bfs: follow every link, breadth-first. focused: like bfs, but fetch " +
		"first what probably is about the wanted topics. list: fetch only the seeds and the targets of their " +
		"redirects. recrawl: like bfs, and visit each page again as often as it changes. walk: follow random " +
		"walks, which sample pages by their PageRank.",
	"topic": "With focused: want pages of this category of the model, in any case, such as science. " +
		"Repeatable (default: with --partition topic each agent's own categories).",
	"model": "With focused, or --partition topic: tell the topics of pages by this file of " +
		"\"classify train\", or by one of the two models in the program: topics (of pages in English) or languages.",
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
var longHelp = cli.Texts{
	"ctl_dir": "Ask the crawl that runs in directory DIR; without ./crawl, " +
		"that in the current directory.",
	"ctl_agent": "Mean only the agent of this name (default: all agents).",
	"ctl_by": "Note that WHO has given the command, in the list of orders and in the events (default: the user and " +
		"the machine that run ctl).",
	"ctl_json":  "Print one JSON object; with --watch, an object on each line.",
	"ctl_watch": "Print it again every 2 s (the queue: every 10 s), until Ctrl-C or the end of the crawl.",
	"ctl_why":   "Note this reason in the list of orders and in the events.",
	"check_dns": "Ask these name servers, each an address with or without a port (default: those of " +
		"/etc/resolv.conf).",
	"check_urls":       "Judge these URLs; - reads them from standard input, one per line.",
	"check_references": "Check these URLs, or references with --base; - reads them from standard input, one per line.",
	"check_seeds":      "Judge for a crawl from the URLs in each FILE, one per line; - is standard input.",
	"check_config": "Read --scope, --include, --exclude, --depth, --host-depth and the section hosts: from this " +
		"settings file. If it is the crawl.yaml of a crawl, also read the seeds of the crawl.",
	"check_hops": "Judge the URLs as discovered over this path, in crawl.log's letters, such as LLE; empty for a " +
		"seed. The URLs of --seed are seeds in any case. The path enters the URL's host with its first step, " +
		"or with the first seed if that is on the host.",
	"check_user_agent": "Send this User-Agent header and judge for the product named in it, as \"orbweaver " +
		"crawl\" does.",
	"check_robots_agent": "Judge for this product name instead of the one in --user-agent.",
	"check_file":         "Read this robots.txt instead of fetching the URLs' own; - is standard input.",
	"warc_originals": "With --payload: also look for the original of a revisit in these crawl directories " +
		"or stores.",
	"warc_index_files": "Index these WARC or WACZ files, or one crawl directory, whose indexes/index.cdxj is then " +
		"rewritten (default: ./crawl).",
	"warc_index_zipnum": "Merge the indexes of all paths into the new directory DIR: index.cdx.gz, index.idx and " +
		"index.loc, as pywb reads them (default: print lines).",
	"warc_ls_files": "List these WARC files (.warc, .warc.gz, .open), WACZ files, crawl directories or stores " +
		"(default: ./crawl).",
	"warc_verify_files": "Check these WARC files, WACZ files, crawl directories or stores (default: ./crawl).",
	"warc_extract_file": "Read this WARC file, or with --url this crawl directory, store or WACZ (default: ./crawl).",
	"warc_url": "Print the first capture of this URL. In a crawl directory with several captures, list them " +
		"instead.",
	"man_command":   "Print the page of this command, such as crawl or check robots; without it, the program's.",
	"man_out":       "Write the pages of all commands to directory DIR, which the command creates.",
	"warc_at":       "With --url and a crawl directory: print the capture whose 14-digit time begins with TIME.",
	"export_mirror": "Write files for offline reading to the new directory OUT.",
	"export_wacz":   "Write the archive as one WACZ file, for viewers such as ReplayWeb.page.",
	"export_wacz_size": "With --wacz: write OUT-00000.wacz and so on, each with WARC files of at most BYTES, and the " +
		"list OUT.json. A larger WARC file gets a WACZ of its own (default: one WACZ).",
	"export_overwrite": "Replace the mirror or the WACZ in OUT. A directory with other files is refused.",
	"export_at": "With --mirror: show the archive at TIME, up to 14 digits of year, month, day, hour, minute and " +
		"second in UTC: of each URL the nearest capture (default: the newest).",
	"replay_listen": "Listen on this loopback address and port: 127.0.0.1 or [::1]; port 0 takes a free one.",
	"replay_paths": "Show the archives of these crawl directories, stores (s3://bucket/prefix), WACZ files, URLs of " +
		"WACZ files, or WARC files, as one (default: ./crawl).",
	"export_paths": "Export the archives of these crawl directories, stores (s3://bucket/prefix), or WARC " +
		"files, as one; " +
		"with --mirror also WACZ files and their URLs (default: ./crawl).",
	"tables_out":   "Write to the folder OUT, also beside tables of other crawls (default: DIR/tables).",
	"tables_crawl": "Name the crawl: letters, digits, '.', '_' and '-' (default: the name of DIR).",
	"tables_dirs":  "Crawl directories, such as those of all agents of one crawl, or stores (default: ./crawl).",
	"links_dirs": "Read the link logs of these crawl directories, such as those of all agents, or of stores " +
		"(default: " +
		"./crawl).",
	"replay_originals": "Also look for the originals of revisit records in these crawl directories or stores.",
	"keys_out": "Keep the cluster's authority, and a directory for each agent, in directory DIR, which the command " +
		"creates.",
	"keys_coordinators": "Make keys for the coordinators of these names, separated by commas.",
	"frontier_dir":      "Keep the URLs in directory DIR, which continues what it has.",
	"frontier_listen": "Answer clients at this IP address and port; an interface or a name of this machine may stand " +
		"in place of the IP address.",
	"frontier_remote": "Allow an address that other machines can reach. The API has no password: use it behind a " +
		"firewall.",
	"frontier_memory": "Keep URLs in BYTES of memory; when it is full, new URLs are refused.",
	"coordinator_listen": "Answer agents and the other coordinators at this IP address and port; an interface or a " +
		"name of this machine may stand for the IP address. An address other than loopback requires --keys.",
	"coordinator_members": "The addresses of all coordinators of the crawl, separated by commas, this one's --listen " +
		"among them: 1, 3 or 5. Give the same list to all (default: this coordinator is alone).",
	"coordinator_keys": "Read this coordinator's keys from directory DIR, made by \"orbweaver cluster keys " +
		"--coordinators\".",
	"coordinator_dir": "Keep the assignments in directory DIR, which continues the crawl that it has.",
	"coordinator_assign": "How to choose the agent of a new host. roundrobin: the agents take turns, weighted by " +
		"--capacity. least-loaded: the agent with the fewest waiting URLs for its capacity. The leading " +
		"coordinator's choice counts.",
	"coordinator_dns": "Look up with these name servers whether hosts exist, each an address with or without a port " +
		"(default: those of /etc/resolv.conf).",
	"coordinator_proxy": "The --proxy of the agents. With http and socks5h the proxy looks names up, so the " +
		"coordinator assigns hosts without a look-up.",
	"status_coordinators": "Ask the coordinators at these addresses, separated by commas.",
	"forget_keys":         "Read the keys of a coordinator from directory DIR; not needed on loopback without keys.",
	"status_keys": "Read the keys of an agent or a coordinator from directory DIR; not needed on loopback without " +
		"keys.",
	"demo_dir": "Keep the demo's crawl in directory DIR; an earlier demo there is deleted (default: " +
		"./orbweaver-demo, with --partition ./orbweaver-demo-KIND).",
	"demo_partition": "Let three agents crawl the web together and divide it in this way (default: one agent alone).",
	"demo_delay":     "Wait D after a response before the next request to its host; 0 does not wait.",
}
