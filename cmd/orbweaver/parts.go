package main

import (
	"github.com/alecthomas/kong"

	"github.com/orbweaver/orbweaver/internal/node"
	"github.com/orbweaver/orbweaver/internal/web/sheet"
)

// requests sets what the requests of the crawl contain and which responses the archive gets.
func (c *CrawlCmd) requests(cfg *node.Config) (err error) {
	if cfg.Crawl.Keep, err = sheet.ParseKeep("--keep", c.Keep); err != nil {
		return bad("%v", err)
	}
	headers, err := sheet.ParseHeaders("--header", c.Header)
	if err != nil {
		return bad("%v", err)
	}
	cfg.Fetch.Header, cfg.Fetch.Secret = sheet.Split(headers)
	return nil
}

// public returns the value of a flag for crawl.yaml, without secrets.
func (c *CrawlCmd) public(f *kong.Flag) any {
	if f.Name == "header" {
		return sheet.RedactHeaders(c.Header)
	}
	return f.Target.Interface()
}
