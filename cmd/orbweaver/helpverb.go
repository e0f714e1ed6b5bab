package main

import (
	"io"
	"slices"

	"github.com/orbweaver/orbweaver/internal/cli"
)

// HelpCmd implements "help". It prints what --help prints.
type HelpCmd struct {
	Command []string `arg:"" optional:"" help:"Explain this command, such as crawl or check robots."`
}

// Run prints the help of the command.
func (c HelpCmd) Run(out io.Writer, errs cli.ErrorOutput) error {
	code := runWith(append(slices.Clone(c.Command), "--help"), out.(*cli.Output), errs.Writer.(*cli.Output))
	if code != exitDone {
		return &exitError{code: code}
	}
	return nil
}

// otherFlags say which flag of "crawl" does what a flag of another program does. The names are
// those of wget, curl, Heritrix and browsertrix-crawler.
var otherFlags = map[string]string{
	"-r": "a crawl follows links unless --depth 0", "--recursive": "a crawl follows links unless --depth 0",
	"--level": "give --depth N", "--extraHops": "give --scope and --include",
	"-w": "give --delay D, such as --delay 2s", "--wait": "give --delay D, such as --delay 2s",
	"--random-wait": "give --delay D, such as --delay 2s",
	"-P":            "give --dir DIR", "--directory-prefix": "give --dir DIR", "--output": "give --dir DIR",
	"--output-dir": "give --dir DIR", "--collection": "give --dir DIR",
	"--input-file": "give --seeds FILE", "--seedFile": "give --seeds FILE", "--url": "give the URL without a flag",
	"-U": "give --user-agent S", "-A": "give --user-agent S, or --include RE for the URLs to crawl",
	"-p": "give --requisites unless --scope is page, prefix or host", "--page-requisites": "give --requisites unless " +
		"--scope is page, prefix or host",
	"-c": "give --resume, or --config FILE", "--continue": "give --resume",
	"-H":       "give --scope any to crawl other hosts, or --header 'NAME: VALUE' to send a header",
	"-H NAME:": "give --header 'NAME: VALUE'", "--span-hosts": "give --scope any",
	"-D": "give --scope domain, or --include RE", "--domains": "give --scope domain, or --include RE",
	"-R": "give --exclude RE", "--reject-regex": "give --exclude RE", "--accept-regex": "give --include RE",
	"--no-parent": "give --scope prefix", "-Q": "give --size-limit BYTES", "--quota": "give --size-limit BYTES",
	"-T": "give --timeout D", "--tries": "give --retries N", "-t": "give --retries N",
	"--mirror": "a crawl follows links without limit", "--no-check-certificate": "give --insecure",
	"-m":               "a crawl follows links without limit; --max-time D ends a fetch, as curl's -m does",
	"-x":               "give --proxy URL for curl's -x; \"orbweaver export\" writes directories as wget's does",
	"-k":               "give --insecure for curl's -k; \"orbweaver export\" makes links relative as wget's does",
	"--ca-certificate": "give --ca FILE", "--cacert": "give --ca FILE", "--max-pages": "give --page-limit N",
	"--limit-rate": "give --rate RATE, such as --rate 8Mbit", "--ignore-robots": "a crawl always obeys robots.txt",
	"--accept": "give --include RE for the URLs to crawl, or --keep RE for those to archive",
	"--spider": "\"orbweaver report\" lists the broken links of a crawl", "-np": "give --scope prefix",
	"--warc-file":   "a crawl writes WARC files into DIR/archive; --warc-prefix S begins their names",
	"--warc-header": "give --warcinfo NAME=VALUE", "--warcInfo": "give --warcinfo NAME=VALUE",
	"--wacz": "the program py-wacz makes one of DIR/archive/*.warc.gz", "--js": "a crawl runs no scripts of pages",
	"--limit": "give --page-limit N", "--pageLimit": "give --page-limit N", "--sizeLimit": "give --size-limit BYTES",
	"--timeLimit": "give --time-limit D", "--scopeType": "give --scope KIND", "--threads": "give --workers N",
	"--useSitemap":      "--sitemaps=URL names a sitemap; crawls of hosts and domains follow those of robots.txt",
	"--sitemap":         "--sitemaps=URL names a sitemap; crawls of hosts and domains follow those of robots.txt",
	"--sitemapFromDate": "give --sitemap-from DATE", "--sitemapFrom": "give --sitemap-from DATE",
	"--force": "--resume continues the crawl in --dir, and --overwrite deletes it",
}
