// Package remote answers: how does a reader of files read an object store?
//
//	OpenFile, Stat, ReadDir -> what earlier lists say -> List
//	ReadAt -> blocks in memory -> one range request for the blocks that are missing
//
// An FS is a disk.FS over a store: keys are the paths of files, and folders are what the keys have in common. Mounted
// shows stores as folders of another FS, so that a reader takes local folders and stores alike.
//
// Invariants:
//
//   - An FS writes nothing. Each operation that would write returns ErrReadOnly.
//   - A reader gets the bytes of one version of an object, or ErrReplaced. A store without tags is checked by size.
//   - An object that a list names is opened without a request. OpenRange asks for nothing but the bytes.
//   - Memory is bounded: Config.Memory for blocks, maxKnown objects of lists, and one request for each caller.
//   - A request ends after Config.Wait, so a store that does not answer stops no reader for ever.
//
// Reading at random places asks for 64 KiB at a time. When a reader goes on where its last request ended, the requests
// become longer, up to 4 MiB.
package remote
