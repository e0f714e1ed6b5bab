package crawl

import (
	"github.com/orbweaver/orbweaver/internal/crawl/ledger"
	"github.com/orbweaver/orbweaver/internal/crawl/plan"
	"github.com/orbweaver/orbweaver/internal/crawl/state"
)

// In tests a snapshot has several tally records and many parts of links and keys, which are kept, merged and dropped, a
// drop takes several turns, and few pages are visited again at once.
func init() {
	tallyPiece, ledger.SmallPart, ledger.LargePart = 100, 300, 1500
	state.SpoolBytes = 200
	dropSlice, plan.AgainMax = 3, 40
}

// OrdinarySizes is for benchmarks: they have the sizes that hold outside of tests.
func OrdinarySizes() {
	tallyPiece, ledger.SmallPart, ledger.LargePart = 256<<10, 16<<20, 256<<20
	state.SpoolBytes = 16 << 20
}
