// Package demo answers: what is there to crawl without a network?
package demo

import "github.com/orbweaver/orbweaver/testweb"

// Sites are the hosts of the demo web.
func Sites() []testweb.Site { return nil }

// Seeds are the URLs to begin with.
func Seeds() []string { return nil }
