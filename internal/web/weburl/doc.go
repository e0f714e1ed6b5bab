// Package weburl answers: what is this URL, and do two URLs name the same resource?
//
//	bytes of an href -> WHATWG parsing -> canonical form -> URL
//
// There are two layers. The lower layer is the URL standard (https://url.spec.whatwg.org), limited
// to http and https: it gives the URL that a browser would request. The upper layer, [Parse] and
// [URL.Resolve], continues to one canonical form. Comparing two URLs with == then asks: is it the
// same resource, as far as a client can tell without a request? Two URLs get one canonical form only
// if every conforming server answers both alike:
//
//	input                     becomes             why this is safe
//	------------------------  ------------------  -------------------------------------------
//	blanks and controls       dropped             URL standard: at both ends; tab, LF and CR
//	                                              anywhere
//	\                         /                   URL standard, before the query
//	scheme                    lower case          RFC 3986, 6.2.2.1
//	host                      lower-case ASCII    DNS ignores case; UTS #46 as browsers apply it
//	                                              (non-transitional, bidi and joiners checked,
//	                                              hyphens, lengths and STD3 not checked)
//	0x7f.1, 2130706433        127.0.0.1           URL standard; an address has one spelling
//	[0::1], [::FFFF:1.2.3.4]  [::1],              RFC 5952 as the URL standard applies it, no
//	                          [::ffff:102:304]    dotted quad
//	host with one last dot    without it          the root label: a crawler has no search list, so
//	                                              both are one name. Two hosts would mean two
//	                                              politeness queues for one server
//	:80 of http, :443 of      dropped             RFC 3986, 6.2.3
//	https, empty port
//	user:password@            dropped             the crawler must not use credentials that it
//	                                              finds in links; the resource is the same
//	empty path                /                   RFC 3986, 6.2.3: the request line is the same
//	. and .., also as %2e     resolved            URL standard; RFC 3986, 6.2.2.3
//	space " < > ` { } ^ and   %XX                 URL standard's path and query sets; a request
//	non-ASCII                                     line cannot carry other non-ASCII
//	%c3%a9                    %C3%A9              RFC 3986, 6.2.2.1: hex digits ignore case
//	%41 %7E (unreserved)      A ~                 RFC 3986, 6.2.2.2: equivalent by definition;
//	                                              robots.txt is matched alike (RFC 9309, 2.2.2)
//	#fragment                 dropped             never sent
//
// Everything else stays, because a server may tell the difference: reserved octets, all other
// encoded octets (%2F is not /), a stray %, empty segments (//), a trailing slash, case in path and
// query, an empty query (/?), the order of query arguments, www., index.html and session ids.
// [URL.SURT] merges several of these, as archives expect. A SURT is an index key and does not
// identify a resource.
//
// The canonical form is a fixed point: Parse(u.String()) == u. For this, the parser does not decode
// an octet that would complete an escape after a stray %.
//
// A query is encoded as UTF-8, whatever the charset of its page. Octets that are not UTF-8 are
// escaped unchanged, so that the server gets back the bytes that it wrote. In a host such octets
// are an error.
//
// Limits: a URL has at most [MaxParse] octets before and after parsing. A host name has at most 253
// octets, in labels of 1 to 63 octets (RFC 1035, 2.3.4). The URL standard has no such limit, but a
// longer name never has an address. Parsing takes linear time.
//
// Most references are plain: nothing in them changes, and one look at each octet makes the URL. All
// other references go through the whole parser. Both ways give the same result. A [Resolver]
// appends the results for the references of a page to one piece of memory.
//
// All types except Resolver are values and safe for concurrent use. A Resolver belongs to one goroutine.
package weburl
