package main

import "github.com/orbweaver/orbweaver/internal/cli"

// help holds the help texts that do not fit on one line of code. A flag's tag refers to its
// text by name, as in ${hosts}.
var help = cli.Texts{
	"throughput": "Measure an agent's pages per second beside a minimal crawl loop, or the memory of a long crawl.",
	"seen": "Measure the cost of finding out which links are new, as the number of known URLs grows, beside " +
		"other stores.",
	"frontier": "Measure how many links per second the frontier takes and gives back.",
	"ring": "Measure how evenly agents divide the hosts, what a look-up costs, and which hosts move when an agent " +
		"joins.",
	"topic": "Repeat the experiments of the paper on X4: how well classifiers tell topics, and what a crawl that is " +
		"divided by topic keeps, fetches and sends.",
	"topic_figures": "Repeat these figures of the paper: 2-3, 4-7 or 2-7.",
	"topic_pages":   "Generate a web of N pages (default: 1000000, quick 5000).",
	"topic_depth":   "Follow at most N links from the seed in crawls of the generated web (default: 5, quick 3).",
	"topic_web":     "Crawl this web for figures 4 to 7: encyclopedia or generated. Repeatable (default: both).",
	"near":          "Compare detectors of near-duplicates: odd sketches, MinHash and SimHash.",
	"focused": "Measure how many of the first pages of a focused crawl are of the wanted topic, beside " +
		"breadth-first.",
	"focused_texts": "Read the texts in DIR: odp.jsonl.gz and wikispeedia.jsonl.gz.",
	"focused_pages": "Generate a web of N pages (default: 1000000, with --partition 20000, quick 5000).",
	"focused_fetched": "Fetch N pages of the generated web in each crawl (default: 10000, with --partition " +
		"1000 of each web, quick 500).",
	"quality": "Measure whether pages with many inlinks are fetched early, by order of the crawl and number of " +
		"agents.",
	"scaling": "Measure how many pages each agent fetches as the number of agents grows, and the cost of exchanging " +
		"links.",
	"rate": "Measure whether a crawl keeps its rate, while the limit, the agents and the servers change.",
	"twolevel": "Measure what a coordinator that assigns hosts costs, beside the paper on FC2L-UDCbot and the " +
		"default partition.",
	"twolevel_part": "Run this part: model, coverage, speed, crawls or fast. Repeatable; with one part, write " +
		"twolevel-PART.md and so on (default: all).",
	"twolevel_agents": "Crawl with these numbers of agents; the first must be 1 (default: 1,2,3,5,7, quick 1,2,3).",
	"twolevel_pages": "Compare the crawls at these numbers of pages of all agents. Only the most agents fetch the " +
		"last one; fewer agents fetch their share of the last but one (default: 31250 and its doubles up to " +
		"2000000, quick 200,400,800).",
	"twolevel_page_bytes": "Crawl pages of BYTES on average (default: 22300B, quick 3000B).",
	"twolevel_bandwidth":  "Limit the line of each agent to RATE (default: 20Mbit, quick 4Mbit).",
	"twolevel_hosts": "Give the webs of the part coverage N hosts with 20 pages each on average (default: 2000, " +
		"quick 100).",
	"freshness": "Measure how fresh the copies of changing pages are with --strategy recrawl, beside one fixed " +
		"interval with as many visits.",
	"chaos": "Let random faults hit single agents and clusters, in virtual time, and check that each crawl keeps its " +
		"promises.",
	"chaos_seed": "Use seed N for the first story; each story has the next one (default: the one after those in " +
		"--append, or 1).",
	"chaos_partition": "Divide the hosts of all clusters by KIND: rendezvous, ring, hash or sites, which adds " +
		"coordinators and their faults (default: each story has its own, and none has coordinators).",
	"chaos_append": "Add this run to those in FILE, one line of JSON each, and report the sum. The line is written " +
		"about every minute. Seeds that FILE has from the same commit are refused (default: report this run alone).",
	"chaos_keep": "Write the event logs of failures to DIR (default: orblab-chaos in the folder for temporary files).",
	"chaos_jobs": "Tell N stories at a time, each in a process of its own (default: one for each processor).",
	"chaos_out": "Write chaos.md, chaos.csv and chaos.svg to DIR (default: docs/lab of this checkout; " +
		"with --quick, orbweaver-lab in the folder for temporary files).",
	"duration": "Run the yardstick for D each time (default: 30s, quick 3s), and the memory run for at most D " +
		"(default: 0, no limit).",
	"memory": "With --memory-run: give the agent a memory budget of BYTES, which it must keep (default: the " +
		"agent's default).",
	"agent": "Measure this orbweaver program. Repeatable: the programs take turns (default: that of --orbweaver).",
	"throughput_hosts": "Generate a web of N hosts (default: 20000, quick 2000; with --memory-run 1000000, quick " +
		"30000).",
	"hosts": "Crawl a web of N hosts with ten pages each on average (default: 100, quick 20).",
	"day":   "Let a day of the web's time pass in D of real time (default: 12s, quick 500ms).",
	"days":  "Crawl for N days of the web's time, and measure the second half (default: 30, quick 16).",
	"each": "Give each store D of time up to --common known keys, with one shape (default: 15m, " +
		"quick 3s).",
	"common": "Measure all stores up to N known keys; only ours continue to --keys (default: 20000000, " +
		"quick 200000, or --keys if that is less).",
	"billion": "Measure up to a billion known keys, and write seen-billion.md and so on. This takes nearly an hour " +
		"for our store alone, and tens of GB of disk.",
	"store_memory": "Give each store BYTES of memory, if its memory can be bounded (default: 512 MB, 2 GB with " +
		"--billion, 32 MB with --quick).",
	"scaling_part": "Run this part: line, whole (crawls to the end) or threads. Repeatable; with one part, write " +
		"scaling-PART.md and so on (default: all).",
	"scaling_agents": "Run these numbers of agents; the first is the basis of comparison (default: " +
		"1,2,3,4,6,7,8,12,16, quick 1,2,4).",
	"topic_texts": "Read the texts in DIR: odp.jsonl.gz, wikispeedia.jsonl.gz and languages.jsonl.gz.",
	"near_pages":  "Read the pages of llvm-13-doc to llvm-16-doc (packages of Debian) in DIR.",
	"quality_graph": "Read the link graph in FILE: lines of two page numbers, from and to, with a tab between; may " +
		"be gzipped. For a folder, read the one *.tsv.gz in it.",
}
