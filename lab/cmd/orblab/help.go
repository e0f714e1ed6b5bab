package main

import "github.com/alecthomas/kong"

// help holds the help texts that do not fit on one line of code.
var help = kong.Vars{
	"freshness": "Measure how fresh the copies of changing pages are with --strategy recrawl, beside one fixed " +
		"interval with as many visits.",
	"duration": "Run the yardstick for D each time (default: 30s, quick 3s), and the memory run for D at " +
		"most (default: no limit).",
	"memory": "Give the agent of the memory run this budget, which it has to hold (default: the " +
		"agent's default).",
	"hosts": "Crawl a web of N hosts with ten pages each on average (default: 100, quick 20).",
	"day":   "Let a day of the web's time pass in D of real time (default: 12s, quick 500ms).",
	"days":  "Crawl for N days of the web's time, and measure the second half (default: 30, quick 16).",
	"each": "Give every store D of time up to --common known keys, with one shape (default: 15m, " +
		"quick 3s).",
	"common": "Measure all stores up to N known keys; only ours go on to --keys (default: 20000000, " +
		"quick 200000, or --keys if that is less).",
	"page_cache": "Bound the memory of each store that keeps its keys on disk, page cache included, to " +
		"--memory and BYTES, in a control group; writes seen-disk.md and so on (default: no " +
		"bound). Needs --cgroup.",
	"cgroup": "Make the control groups for --page-cache in DIR, as /sys/fs/cgroup/lab: a group of " +
		"cgroup v2 that passes the memory controller on, or one of cgroup v1's memory hierarchy.",
}
