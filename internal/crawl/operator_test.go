package crawl_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/orbweaver/orbweaver/internal/crawl"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/testdisk"
)

const orderedWeb = `
delay 1s
seed http://a.example/
dns a.example 192.0.2.1
dns b.example 192.0.2.2
http://a.example/ http://b.example/ /1 /2 /3
http://b.example/ http://a.example/4
`

// start is begin for a story that was parsed.
func (s *story) start(t *testing.T) (w *world, cancel context.CancelFunc, end func() (crawl.Stop, error)) {
	t.Helper()
	w = s.opened(t, testdisk.NewMem())
	ctx, cancel := context.WithCancel(t.Context())
	return w, cancel, w.running(ctx)
}

// If a command takes long, its caller learns that it continues.
func TestLongOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := parsed(t, orderedWeb)
		w := s.opened(t, newSlowDisk(testdisk.NewMem(), false))
		end := w.running(t.Context())
		time.Sleep(time.Second)
		ctx, cancel := context.WithTimeout(t.Context(), slowSync/2)
		defer cancel()
		if text, err := w.Orders.Drop(ctx, "a.example"); text != "" || !errors.Is(err, crawl.ErrUnderWay) {
			t.Errorf("got %q, %v", text, err)
		}
		finished(t)(end())
		if log := logText(w.parts.Lines(t, w.fs)); !strings.Contains(log, "-6000 a.example/") {
			t.Errorf("nothing was dropped:\n%s", log)
		}
		must.Do(t, w.close())
	})
}
