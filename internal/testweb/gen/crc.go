package gen

import "hash/crc32"

// crcAdvance has tables for the length of each class. They give the CRC-32 of a text followed by that many zero bytes,
// for each byte of the text's CRC. The operation is linear over GF(2), as in zlib's crc32_combine.
var crcAdvance = func() (t [numClasses][4][256]uint32) {
	for c, n := range classBytes {
		zeros := make([]byte, n)
		// crc32.Update complements its argument and result.
		base := crc32.Update(0, crc32.IEEETable, zeros)
		for i := range 4 {
			for v := range 256 {
				t[c][i][v] = crc32.Update(uint32(v)<<(8*i), crc32.IEEETable, zeros) ^ base
			}
		}
	}
	return t
}()

// advanceCRC returns the CRC of a text followed by n zero bytes. crc is the CRC of the text. The caller then adds, by
// exclusive or, the CRC of the n bytes that really follow.
func advanceCRC(crc uint32, n int) uint32 {
	c := top
	switch n {
	case classBytes[large]:
		c = large
	case classBytes[small]:
		c = small
	}
	t := &crcAdvance[c]
	return t[0][crc&255] ^ t[1][crc>>8&255] ^ t[2][crc>>16&255] ^ t[3][crc>>24]
}
