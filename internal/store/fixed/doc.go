// Package fixed answers: which value has this key, in a set that no longer changes?
//
//	keys in order -> Write -> one file -> Open -> Find: filter in RAM -> index in RAM -> one block of the file
//
// A key is 20 bytes of a hash, such as a SHA-1. The whole key is stored and compared. A Table takes about 1.5 bytes of
// RAM for each entry and reads at most one block for a key, so many goroutines may ask at once. Package entries is for
// sets that grow while they are asked; it needs a goroutine of its own and a pass over its files.
//
// # Invariants
//
//   - A file is whole or absent: Write uses disk.WriteStream.
//   - Index, filter and each block have checksums. Open refuses a file whose index or foot is damaged. A key whose
//     block is damaged counts as unknown. So damage loses entries, and never gives a wrong value.
//
// # The filter
//
// The filter is a Bloom filter in blocks of 64 bytes (Putze, Sanders, Singler: "Cache-, hash- and space-efficient bloom
// filters", 2007). The first 8 bytes of a key choose the block, and 9 bits of the next 8 bytes choose a bit in it for
// each probe. With 10 bits for each entry, one of 80 unknown keys passes. If the memory is scarce, the filter has fewer
// bits. Without a filter each key costs the read of a block.
//
// # Format
//
// Numbers are little-endian, checksums are CRC-32C.
//
//	blocks, each of about 8 KiB:
//	   4  checksum of the rest
//	      entries in the order of the keys: 20 key · uvarint length · value
//	index, for each block: 20 first key · 8 offset of the block
//	filter
//	note of the owner
//	foot, 76 bytes:
//	   8  offset of the index    8  offset of the filter    8  offset of the note
//	   8  entries                8  blocks                  4  probes of the filter
//	   4  checksum of the index  4  of the filter           4  of the note
//	   4  free                   8  "OWFIXED" 1             4  checksum of the foot before it
//	   4  free
package fixed
