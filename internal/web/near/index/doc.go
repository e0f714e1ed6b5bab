// Package index answers: of which archived page is this page a near-duplicate?
//
//	Find -> recent pages in RAM -> yes: that page; or wait for a visit that is about to archive one
//	                            -> no:  claim; entries on disk, by band -> similar enough? -> that page
//	Claim.Archived -> recent -> Syncing, durable -> Run -> entries on disk
//
// A page is a near-duplicate of an archived page if the estimated similarity of their texts (package near) is at least
// Config.Threshold. Only pages that are no near-duplicates are in the Index. So the pages that refer to one page are
// all similar to it, and a slow drift over many versions ends at the threshold.
//
// # Invariants
//
//   - Find names a page only if its finish precedes the finish of the asking page in the journal. So a kill that undoes
//     the first visit undoes the second one, too.
//   - An entry reaches the disk after the finish of its page is durable. So after a kill or a power failure, Find names
//     only pages that are finished.
//   - If the Index loses entries, more pages count as new, never fewer. This happens to those that are in RAM at a
//     kill, and to those since its last sync at a power failure.
//   - A page is no near-duplicate of an earlier version of itself: entries with its URL do not count.
//   - The candidate's Sketch is compared, so two pages that share a key by chance are not taken for similar.
//
// # Sizes
//
// A page takes 242 bytes plus its URL in the file, and 16 keys in drum with 250 bytes. Config.MemoryBytes
// bounds the RAM of drum. Recent pages take some 1.6 KB each until the next sync of the journal; there are at most
// recentMost.
//
// # Format
//
// The file "near" is one of package entries. Its head is the Sketch and the date of the page's record in Unix
// milliseconds (8 bytes), its tail is the URL. An entry is under the keys of its bands (near.Sketch.Keys). The first 16
// bits of a key choose the host part of the key in drum, so that drum packs the rest more tightly.
package index
