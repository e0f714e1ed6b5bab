// Package entries answers: which entry, on disk, was stored under this key first?
//
//	Append -> file of entries, then drum: key -> offset
//	Look   -> drum -> offset -> At: the entry
//
// A Map has more entries than fit in RAM. An entry is a few bytes of data under one or several keys. One goroutine owns
// a Map.
//
// # Invariants
//
//   - An entry is in the file before its keys are in drum, and outlives a kill. A power failure may take the entries
//     since the last sync.
//   - Every entry is under a checksum, and a damaged one is ignored. If drum's part is damaged, it is rebuilt from the
//     file. So damage loses entries, and never gives a wrong one.
//   - The keys of drum are hashes, so the owner compares the entry with what it has asked for.
//
// # Format
//
// The owner chooses the name, the magic and the length of the head.
// The rest of the directory is drum's. Drum's mark says up to which offset drum has the file.
//
//	8  magic
//	   of each entry: a frame of package frames · head · tail of at least one byte
package entries
