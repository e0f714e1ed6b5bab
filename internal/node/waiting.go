package node

import (
	"path/filepath"

	"github.com/RoaringBitmap/roaring/v2/roaring64"

	"github.com/orbweaver/orbweaver/internal/crawl/state"
	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/store/journal"
)

// waitingIn counts the URLs of the crawl in dir that are accepted and not finished. It reads the
// journal and changes nothing. After a power failure the crawl itself may find that more URLs
// wait, because it compares the journal with the archive and the logs.
func waitingIn(dir string) (int64, error) {
	h := state.NewHistory(nil)
	waiting := roaring64.New()
	_, err := journal.Replay(disk.OS, filepath.Join(dir, "state", "journal"), func(kind byte, p []byte) error {
		switch kind {
		case state.Number:
			return h.Number(kind, p)
		case state.Done:
			return h.Runs(kind, p)
		case state.Sent:
			return h.Ended(kind, p)
		case state.Pending:
			number, _, err := state.SplitPending(p)
			waiting.Add(number)
			return err
		case state.Accept:
			h.Last++
			waiting.Add(h.Last)
		case state.Outgoing, state.Passed:
			h.Last++
		case state.Finished:
			f, err := state.DecodeFinish(p)
			if err != nil || f.IsRobots() {
				return err
			}
			return h.Finish(f.Number)
		}
		return nil
	})
	waiting.AndNot(h.Done)
	return int64(waiting.GetCardinality()), err
}
