// Package drum answers, in bulk: which of these keys are known, and which value does each have?
//
//	Add -> filter -> no: unknown, answered at once
//	              -> perhaps: cache -> table in RAM -> held for the next pass
//	pass:  held + full table, bucket by bucket, sorted -> runs on disk -> answers
//
// A Store grows beyond RAM without a disk access per key. It is based on DRUM (Lee, Leonard, Wang, Loguinov: IRLbot,
// WWW 2008), with three changes: a filter answers most new keys at once, passes run beside the intake, and runs are
// merged by size instead of all at once. While everything fits in the first table, nothing is on disk and every answer
// is immediate. One goroutine owns a Store. Answers reach it only during its own calls.
//
// # Invariants
//
// An answer is exact, except with the probability shown below; the filter only decides whether runs must be read. A key
// is unknown once. Held items that Commit has written are answered after a kill; those that a sync has written, after a
// power failure. A damaged file is reported and never gives an answer.
//
// # Keys and false duplicates
//
// A key has 64 bits of a host and 64 bits of a whole URL. On disk the host keeps all its bits. The path keeps its top w
// bits: w = 38 + 4c in class c, at most 64. The class depends on m, the number of the host's keys when this one was
// written:
//
//	m       1   2-16   17-256   257-4096   -2^16   -2^20   -2^24   more
//	c       0   1      2        3          4       5       6       7
//	w       38  42     46       50         54      58      62      64
//
// Class c of a host has at most 16^c keys. The probability that a new URL of the host equals one of them is at most
// 16^c / 2^(38+4c) = 2^-38. For all keys of the host it is at most 2^-38 per class that the host has. For 10^9 URLs,
// the expected number of false duplicates is:
//
//   - on hosts of at most 4096 URLs (four classes): at most
//     10^9 * 4 * 2^-38 = 0.015;
//   - on one host: seven full classes and, with 64 bits, n^2/2 * 2^-64:
//     10^9 * 7 * 2^-38 + 0.027 = 0.053;
//   - on 10^9 hosts of one URL, which must agree in 64 bits of the host and
//     38 bits of the URL: 10^18/2 * 2^-102 = 1e-13.
//
// All of these are below one lost URL in a crawl of 10^9. For keys that are still in RAM the number is lower. The hash
// is not cryptographic: a site can make its own URLs collide and so hide its own pages. A Store with values keeps all
// 64 bits.
//
// # Size of a key
//
// A list of m numbers of w bits takes, in Elias-Fano code, w - log2 m bits and 2 to 2.6 bits per number: 39.6 to 44
// bits, whatever m is. A host takes 66 bits less the logarithm of the number of hosts in the run, and 8 bits for its
// header: 44 bits with 10^9 keys. So the mean number of keys per host decides:
//
//	keys a host    1     2    3    5    10   20   100
//	bytes a key    10.3  8.0  7.1  6.3  5.8  5.6  5.4
//
// With seven or more keys per host, a key takes at most six bytes; with fewer, up to 4.3 bytes more. A host that is in
// several runs of its bucket has a header in each. Runs grow by a factor of three, so most hosts have nearly all of
// their keys in one run.
//
// In RAM, a key on disk takes 10 to 11.5 bits of a filter. A block of 32 KiB takes 24 bytes of an index.
//
// # Formats
//
// Numbers are little-endian. Checksums are CRC-32C. A directory holds a manifest, runs, parts (held-N: held items) and,
// while it is open, spill files.
//
//	manifest                           run-N
//	 8  "OWDRUM" 0 1                    8  "OWRUN" 0 0 1
//	 8  seed of the hosts' places          blocks
//	 1  bits of a bucket number         24 for each block, and for the end:
//	 1  1: with values                     8 place of its first host
//	 4  length of the mark, mark           8 first path, the bits that are kept
//	 4  number of runs; for each:          7 offset  1 class of the first list
//	    8 N  4 bucket  8 keys  8 bytes  56 foot: magic, 4 bucket, 4 flags (values),
//	 4  checksum                           8 entries, 8 keys, 8 offset of the
//	                                       entries, 8 N, 4 their checksum, 4 its own
//	held-N
//	 8  "OWHELD" 0 1
//	    frames: 4 "DFRM"  4 checksum of the rest  4 length of the frame
//	            8 bytes of this file that were durable when it was written
//	            4 items  4 length of the items unpacked; 0: they are not packed
//	            (S2 block format)
//	            items: 1 operation  8 host  8 path  (8 value)  uvarint length, aux
//	            with 80h in the operation a part of aux is left out: before the
//	            length stand two uvarints, the numbers of bytes at its front and
//	            at its end that equal those of the last item without 80h
//
//	block
//	 4  checksum of the rest
//	 4  length of the block
//	 4  keys           4  hosts
//	 8  first host     4  bits of a low part   4  largest high part
//	 4  length of the headers
//	    hosts: Elias-Fano, less the first one
//	    headers, one for each list:
//	       bit 7: the next list is of the same host; bits 6-4: class;
//	       bits 3-0: keys, 1 to 14; 15: uvarint keys; 0: a chunk of a class with
//	       uvarint keys, 1 bits of a low part, uvarint largest high part,
//	       uvarint first number
//	    lists: Elias-Fano, less the first number of a chunk; a single key: the
//	       key itself. The bits of the hosts begin at a byte, and so do those
//	       of all lists together.
//	    values: 8 for each key
package drum
