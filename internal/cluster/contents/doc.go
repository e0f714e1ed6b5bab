// Package contents answers: which page with this content is archived in full?
//
//	Ask -> Run -> drum: known? -> yes: its page, read from the file
//	                           -> no:  is it claimed? -> no:  the page that asks claims it
//	                                                  -> yes: wait
//	Ask, with Archived -> Run -> file of first pages, then drum
//
// With --partition hash (the baseline of X4, a topic-partitioned crawler: paper, section 3), agents
// divide contents by their hash. Each agent has a Table of the contents that it judges, for pages
// fetched by any agent. A cache holds the contents that an agent has seen lately, and saves
// questions. A Service is what the crawl asks: it carries the questions and answers between agents (Call), and tells
// the agents that judge contents which pages are durable. A content is the body of an archived response, identified by
// its SHA-1 without chunk sizes.
//
// # Claims
//
// A page asks before it is archived, so its agent may be killed in between. When
// the page is fetched again it may have another content. Therefore a Table names no
// page that was merely the first to ask. It takes two steps:
//
//  1. The first page that asks for a content claims it. It is archived in full.
//     Other pages that ask meanwhile are told to wait.
//  2. When the record of the page is durable, its agent asks once more, with
//     Archived. With replicas the agent first waits until other agents have the
//     links of the page. From then on the Table names that page to all others.
//
// If the claiming page is never archived, the pages that wait give up after a while. Their agents
// archive them in full, and the first that is reported is the page that the Table names. Claims
// are in memory only.
//
// # Invariants
//
//   - A page that a Table names is archived in full, and survives the kill and the
//     power failure of any agent. It is lost only with the disk of its agent. With
//     replicas its links are not lost.
//   - A Table names one page for a content. The page is in the file before the
//     Table names it, and outlives a kill.
//   - A power failure may take the entries since the last sync. Damaged entries are
//     ignored. If a Table loses entries, more pages count as new, never fewer.
//   - A page that asks again is told that it is the first. So a page that is
//     fetched again after a kill is no duplicate of itself.
//
// # Keys, probabilities and sizes
//
// The key of a content in drum is the first 128 bits of its digest. A Store with values keeps all
// of them: of 10^9 contents (10^9)^2/2 * 2^-128 = 1.5e-21 pairs are expected to have one key. The
// other 32 bits are in the file and are compared there. The archive uses SHA-1, too. An attacker
// who can make two contents with the same SHA-1 can hide one of them.
//
// A content takes about 24 octets in drum, and 34 plus its URL in the file, 21 more if it is
// stored with chunk sizes. Config.MemoryBytes
// bounds the RAM of drum. The number of entries bounds the cache, and also the claims.
//
// # Format
//
// This package writes the file "first"; numbers are little-endian, the checksum is CRC-32C. The
// rest of the directory is drum's. Drum's mark says up to which offset drum has the file. Version 1
// also had pages that were not archived yet, so Open replaces such a file by an empty one.
//
//	8  "OWFIRST" 1
//	   of each content: 4 checksum of the rest · 2 length of the place ·
//	   20 SHA-1 · 8 date of the page's record, Unix milliseconds · place
//	the place is the URL and, if the page is stored with chunk sizes, a zero octet
//	and 20 SHA-1 of its payload as stored (warc.Original.Place)
package contents
