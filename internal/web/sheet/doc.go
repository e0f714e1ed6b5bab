// Package sheet holds the settings of a crawl that hold for a part of the web only: which responses the crawl
// archives, and the settings of single hosts and directories.
//
// All types are immutable after they are made, and safe for concurrent use.
package sheet
