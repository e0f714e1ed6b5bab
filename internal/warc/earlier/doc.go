// Package earlier answers: which record of an earlier crawl holds this payload?
//
//	indexes (CDXJ) -> lines -> usable? -> sort by digest -> state/earlier/payloads -> Find
//
// The indexes of earlier crawls, of any program, tell the SHA-1 of each response's payload, its URL and its time.
// Payloads.Open writes these, sorted by digest, into one file, and a later run finds it again. warc.Writer asks Find
// for each payload that this crawl has not archived itself, and writes a revisit record.
//
// # Which lines count
//
// A line counts if it is of an HTTP response: its URL is of http or https, it has a status, and its mime is not
// warc/revisit. Any status counts, as within a crawl. A line does not count if its response is truncated, if its URL is
// over 4 KiB, or if its digest is no SHA-1. Of several lines with one digest, the oldest counts.
//
// # Framing
//
// A digest of an index is that of the payload as stored, with chunk sizes if the body is stored in chunks. Then an
// index of this program also has the digest of the body (body-digest). Replay tools read the original's bytes under the
// header of the revisit, so the writer must know how the original is framed. Find compares both digests of a page, of
// its body and of its payload as stored:
//
//	equal                index                 original
//	body, and stored     any                   stored as this page came
//	stored               any                   stored in the same chunks
//	body                 of this program       stored without chunks
//	body and body-digest of this program       stored in other chunks
//	body                 of any other program  unknown: no match
//
// A program may compute digests without chunk sizes and store chunks all the same. So the third and fourth row are for
// files that this program has named, in the directory of one of its crawls.
//
// # Format
//
// Package fixed draws the file. Its key is the digest, its note is JSON (the type note). Its values:
//
//	1  1: of this program; 2: likewise, and the key is a body-digest; 3: of any program. A smaller number comes first
//	   in the sort
//	5  time, Unix seconds, big-endian
//	20 after a 2: the digest as stored
//	   URL
package earlier
