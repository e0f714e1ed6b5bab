package settings

import (
	"context"
	"fmt"
	"io"

	"github.com/orbweaver/orbweaver/internal/node/past"
	"github.com/orbweaver/orbweaver/internal/node/saving"
	"github.com/orbweaver/orbweaver/internal/store/crawldir"
	"github.com/orbweaver/orbweaver/internal/store/disk"
)

// FromStore brings the newest saved state of a crawl from a store into dir, if that holds no crawl: see saving.Bring.
// agent is the name of the agent, or "" if it crawls alone. It tells errs what it waits for.
// there reports that dir holds a crawl.
func FromStore(ctx context.Context, store past.Place, dir, agent string, must bool, errs io.Writer) (
	there bool, err error) {
	told := saving.Told(func(text string) { fmt.Fprintln(errs, "orbweaver:", text) })
	if err := saving.Bring(ctx, saving.Series{Store: store, Agent: agent, FS: disk.OS, Dir: dir, Notes: told},
		must); err != nil {
		return false, err
	}
	return crawldir.HoldsCrawl(nil, dir)
}

// StoreWait says what a process that has dir open waits for before it crawls; "": it does not wait for the store.
func StoreWait(dir string) string { return saving.Waits(disk.OS, dir) }
