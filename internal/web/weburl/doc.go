// Package weburl answers: what is this URL, and are two of them the same?
//
//	bytes of an href -> WHATWG parsing -> canonical form -> URL
//
// Two layers. The lower one is the URL standard (https://url.spec.whatwg.org),
// cut down to http and https: what a browser would ask the server for;
// [ParseWHATWG] shows it bare. The upper one, [Parse] and [URL.Resolve], goes
// on to one canonical form, so that == on URLs is the question "the same
// resource, as far as one can tell without asking?". What counts is that two
// URLs become one only where every conforming server answers both alike:
//
//	what                      becomes             safe because
//	------------------------  ------------------  -------------------------------------------
//	blanks and controls       dropped             URL standard: at both ends; tab, LF and CR
//	                                              anywhere
//	\                         /                   URL standard, before the query
//	scheme                    lower case          RFC 3986, 6.2.2.1
//	host                      lower-case ASCII    DNS knows no case; UTS #46 as browsers apply it
//	                                              (non-transitional, bidi and joiners checked,
//	                                              hyphens, lengths and STD3 not)
//	0x7f.1, 2130706433        127.0.0.1           URL standard; an address has one spelling
//	[0::1], [::FFFF:1.2.3.4]  [::1],              RFC 5952 as the URL standard has it, no dotted
//	                          [::ffff:102:304]    quad
//	host with one last dot    without it          the root label: a crawler has no search list, so
//	                                              both are one name. Two hosts would mean two
//	                                              politeness queues for one server
//	:80 of http, :443 of      dropped             RFC 3986, 6.2.3
//	https, empty port
//	user:password@            dropped             the crawler has no business with credentials
//	                                              found in links; the resource is the same
//	empty path                /                   RFC 3986, 6.2.3: the request line is the same
//	. and .., also as %2e     resolved            URL standard; RFC 3986, 6.2.2.3
//	space " < > ` { } ^ and   %XX                 URL standard's path and query sets; not
//	non-ASCII                                     ASCII otherwise unwritable in a request line
//	%c3%a9                    %C3%A9              RFC 3986, 6.2.2.1: hex digits have no case
//	%41 %7E (unreserved)      A ~                 RFC 3986, 6.2.2.2: equivalent by definition, and
//	                                              robots.txt is matched so too (RFC 9309, 2.2.2)
//	#fragment                 dropped             never sent
//
// The rest stays, because a server may tell the difference: reserved octets
// and all others that are encoded (%2F is not /), a stray %, empty segments
// (//), a trailing slash, case in path and query, an empty query (/?), the
// order of query arguments, www., index.html, session ids. [URL.SURT] folds
// several of those, as archives expect; it is an index key and no identity.
//
// One rule keeps the canonical form a fixed point (Parse(u.String()) == u): an
// octet is not decoded where it would complete an escape with a stray % before
// it.
//
// A query is encoded as UTF-8, whatever the charset of its page. Octets that
// are not UTF-8 are escaped as they stand, so that the server gets back the
// bytes that it wrote; in a host they are an error.
//
// Bounds: [MaxParse] octets before and after parsing; a host name of at most
// 253 octets in labels of 1 to 63 (RFC 1035, 2.3.4), which the URL standard
// does not ask for: no other name has an address. Parsing takes linear time.
//
// References are mostly plain: nothing in them is to be changed, and one look
// at each octet makes the URL. All others go through the whole parser; both give
// the same. A [Batch] resolves those of a page into one piece of memory.
//
// All types but Batch are values and safe for concurrent use.
package weburl
