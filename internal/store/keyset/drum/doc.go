// Package drum answers, in bulk: which of these keys are known, and what do
// they stand for?
//
//	Add -> cache -> table in RAM -> filter ->  no: unknown, answered at once
//	                                       -> perhaps: held for the next pass
//	pass:  held + full table, bucket by bucket, sorted -> runs on disk -> answers
//
// A Store outgrows RAM without asking the disk for one key at a time (DRUM:
// Lee, Leonard, Wang, Loguinov: IRLbot, WWW 2008). Unlike there, a filter
// answers for most of what is new at once, passes go on behind the intake, and
// runs are merged by size instead of as a whole. While everything fits in the
// first table nothing is on disk and every answer is immediate. One goroutine
// owns a Store; answers reach it only in its own calls.
//
// # What always holds
//
// An answer is exact but for the odds below: the filter decides only what is
// asked of the runs. A key is unknown once. What Commit has written is answered
// after a kill, what a sync has, after a power failure. A damaged file is named
// and never gives an answer.
//
// # Keys and their odds
//
// A key is 64 bits of a host and 64 of a whole URL. On disk a host keeps all of
// its bits, a path the top w of them: w = 38 + 4c in class c, at most 64, where
// the class is that of m, the keys of the host when this one was written:
//
//	m       1   2-16   17-256   257-4096   -2^16   -2^20   -2^24   more
//	c       0   1      2        3          4       5       6       7
//	w       38  42     46       50         54      58      62      64
//
// Class c of a host has at most 16^c keys, so a new URL of this host is taken
// for one of them with odds of at most 16^c / 2^(38+4c) = 2^-38, and for any
// key of the host with at most 2^-38 for each class that it has. So 10^9 URLs
//
//   - on hosts of at most 4096 (four classes) expect at most
//     10^9 * 4 * 2^-38 = 0.015 false duplicates;
//   - on one host: seven full classes and, with 64 bits, n^2/2 * 2^-64:
//     10^9 * 7 * 2^-38 + 0.027 = 0.053;
//   - on 10^9 hosts of one URL, which must have the same 64 bits of a host and
//     38 of a URL: 10^18/2 * 2^-102 = 1e-13.
//
// All are below one lost URL in a crawl of 10^9, and fall to zero for keys that
// are still in RAM. The hash is not a cryptographic one: a site can make its own
// URLs collide, and so hide its own pages. A Store with values keeps all 64 bits.
//
// # What a key takes
//
// A list of m numbers of w bits takes, in Elias-Fano code, w - log2 m and 2 to
// 2.6 bits each: 39.6 to 44 bits, whatever m. A host takes 2 more than 64 less
// the logarithm of how many hosts there are in the run, and 8 for its header:
// 44 bits with 10^9 keys. So the mean number of a host's keys decides:
//
//	keys a host    1     2    3    5    10   20   100
//	bytes a key    10.3  8.0  7.1  6.3  5.8  5.6  5.4
//
// Six bytes hold from seven keys a host on; crowds of hosts with fewer take
// more, up to 4.3 bytes a key. A host that is in several runs of its bucket has
// its header in each; runs grow by a factor of three, so most hosts stand with
// nearly all of their keys in one.
//
// In RAM a key on disk takes 10 to 11.5 bits of a filter, and a block of 32 KiB
// 24 bytes of an index.
//
// # Formats
//
// Numbers are little-endian, checksums CRC-32C. A directory has a manifest,
// runs, parts (held-N: held items) and, while it is open, spills.
//
//	manifest                           run-N
//	 8  "OWDRUM" 0 1                    8  "OWRUN" 0 0 1
//	 8  seed of the hosts' places          blocks
//	 1  bits of a bucket                24 for each block, and for the end:
//	 1  1: with values                     8 place of its first host
//	 4  length of the mark, mark           8 first path, as much as there is
//	 4  number of runs; of each:           7 offset  1 class of the first list
//	    8 N  4 bucket  8 keys  8 bytes  56 foot: magic, 4 bucket, 4 flags (values),
//	 4  checksum                           8 entries, 8 keys, 8 offset of the
//	                                       entries, 8 N, 4 their checksum, 4 its own
//	held-N
//	 8  "OWHELD" 0 3
//	    frames: 4 "DFRM"  4 checksum of the rest  4 length of all
//	            8 bytes of this file that were durable when it was written
//	            4 items  4 length of the items unpacked; 0: they are not packed
//	            (S2 block format; versions 1 and 2: never)
//	            items: 1 operation  8 host  8 path  (8 value)  uvarint length, aux
//	            with 80h in the operation a part of aux is left out: before the
//	            length stand uvarint bytes at its front and uvarint at its end
//	            that are those of the last item without 80h (version 1: never)
//
//	block
//	 4  checksum of the rest
//	 4  length of all
//	 4  keys           4  hosts
//	 8  first host     4  bits of a low part   4  largest high part
//	 4  length of the headers
//	    hosts: Elias-Fano, less the first one
//	    headers, one for each list:
//	       bit 7: the next list is of the same host; bits 6-4: class;
//	       bits 3-0: keys, 1 to 14; 15: uvarint keys; 0: a chunk of a class with
//	       uvarint keys, 1 bits of a low part, uvarint largest high part,
//	       uvarint first number
//	    lists: Elias-Fano, less the first number of a chunk; one key alone: as
//	       it is. All bits of hosts begin at a byte, and all of lists together.
//	    values: 8 for each key
package drum
