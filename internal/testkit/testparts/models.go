package testparts

import (
	"math/rand/v2"
	"strings"

	"github.com/cespare/xxhash/v2"

	"github.com/orbweaver/orbweaver/internal/store/keyset"
)

// Takes chooses the files that lose their unsynced writes in a crash: a file system may keep a
// later write to one file and lose an earlier write to another. With nil, Mem chooses, even parts
// of a write.
func Takes(rng *rand.Rand) func(name string) bool {
	salt := rng.Uint64()
	switch of := rng.IntN(8); of {
	case 0, 1, 2:
		return func(name string) bool { return strings.HasPrefix(name, Dir+"/state/seen/held-") }
	case 3:
		return func(name string) bool { return strings.HasPrefix(name, Dir+"/state/journal/") }
	case 4, 5:
		return func(name string) bool { return xxhash.Sum64String(name)>>(salt%57)&1 == 0 }
	}
	return nil
}

// Tiny is a seen-set with hardly any memory. Its filters answer "perhaps" to some or all of the new
// keys.
func Tiny(seed uint64) keyset.Config { return keyset.Config{MemoryBytes: 1 + int64(seed%2)<<6} }
