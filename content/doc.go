// Package content answers: which page had this content first?
//
//	Ask -> Run -> drum: known? -> no:  file of first pages, then drum; the asker is the first
//	                           -> yes: its page, read from the file
//
// Where contents are shared out among agents by their hash (--partition hash;
// Clarke and others' X4, section 3), each agent has a Table of those that are its
// own to judge, wherever their pages were fetched, and a Recent of those that it
// met lately, which saves questions. A content is the payload as it is archived,
// by its SHA-1. A page that asks again is its own first page, so that one that is
// fetched again after a kill is no duplicate of itself.
//
// # What always holds
//
// A content has one first page. It is in the file before anybody is told of it,
// and outlives a kill; a power failure may take what came since the last sync,
// and what was first in it is new again then: what is lost of a Table makes more
// pages count as new, never fewer. What is damaged is as if it were not there.
//
// # Keys, odds and sizes
//
// drum's key of a content are the first 128 bits of its digest, and a Store with
// values keeps all of them: of 10^9 contents (10^9)^2/2 * 2^-128 = 1.5e-21 pairs
// are expected to have one key. The other 32 bits stand in the file, and are
// compared there. SHA-1 is what the archive has; whoever can make two contents of
// one SHA-1 can hide one of them.
//
// A content takes some 24 octets in drum (a host of its own, and all bits of it) and 34 and
// its URL in the file. RAM is bounded by Config.MemoryBytes, and in a Recent by
// the number of its entries.
//
// # Format
//
// The file "first"; numbers are little-endian, the checksum is CRC-32C. The rest of
// the directory is drum's, whose mark is how far it has the file.
//
//	8  "OWFIRST" 1
//	   of each content: 4 checksum of the rest · 2 length of the URL ·
//	   20 SHA-1 · 8 date of the page's record, Unix milliseconds · URL
package content
