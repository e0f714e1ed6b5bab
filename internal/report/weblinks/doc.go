// Package weblinks answers: which links do the pages of these crawls have, as a table or as a graph?
//
//	link logs -> linklog.Join -> Print: a line for each link
//	link logs or WARC files -> pages with their links -> graph.Builder -> Build: the graph of pages or of hosts
package weblinks
