// Package mirror answers: how does a reader read archived pages from files, without a server?
//
//	index -> one capture a URL -> names (sorted, so that collisions meet) -> table of names
//	index -> the same captures -> pages with relative links -> files
//
// Invariants:
//   - Every relative link of a written page leads to a written file. A link to what is not in the
//     archive is an absolute URL.
//   - A name has only characters that every file system permits, is short, and differs from all other
//     names also where case is ignored. No name leads out of the directory.
//   - The directory is complete or absent: the files are written beside it, in NAME.partial, and
//     renamed at the end (disk.OpenWork).
//
// The memory does not depend on the number of URLs: names are sorted on disk (package extsort) and
// looked up in a file. A page is in memory as a whole while it is rewritten, up to Config.MaxPage.
//
//	table of names: records, sorted by key
//	  16  first bytes of the SHA-256 of the URL
//	   8  offset of the entry, big-endian
//	entry:
//	   1  'f' file, 'r' redirect
//	   4  length, big-endian
//	      name of the file, or URL to which the redirect leads
package mirror
