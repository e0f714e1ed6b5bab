// Package moved answers: where is a file of a segment that is no longer on this disk?
//
//	OpenFile -> here? -> else: _STORED of its segment -> manifest.json names it? -> the store, by range requests
//
// A crawl with a store and a small disk removes the files of segments that the store has. Their index, manifest and
// _STORED stay. An FS shows such files at their old places: it lists them, tells their sizes from the manifest, and
// reads them in the store. So no reader needs to know where a file is.
//
// Invariants:
//
//   - A file that is here is read here. Writing, and all that is not in a segment, is left to the other file system.
//   - Stat and ReadDir ask no store.
//   - If a store does not answer, or lacks the file, the error is an Unavailable. It is never fs.ErrNotExist: a reader
//     does not take the file for one that was never there.
//   - Memory is bounded: maxKnown manifests, and Config.Memory for each of at most maxStores stores.
package moved
