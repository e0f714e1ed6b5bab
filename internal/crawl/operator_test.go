package crawl_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/orbweaver/orbweaver/internal/crawl"
	"github.com/orbweaver/orbweaver/internal/crawl/state"
	"github.com/orbweaver/orbweaver/internal/frontier"
	"github.com/orbweaver/orbweaver/internal/store/journal"
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

// The journal of an earlier version has the blocks of hosts. They are there until ForgetOldBlocks, also after a kill.
func TestOldBlocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := parsed(t, orderedWeb)
		mem := testdisk.NewMem()
		reopen := func(want ...string) *world {
			t.Helper()
			w := s.opened(t, mem)
			if got := w.OldBlocks(); !slices.Equal(got, want) {
				t.Errorf("old blocks: %q, want %q", got, want)
			}
			if w.Frontier.Host("a.example").Blocked {
				t.Error("the journal has blocked a host")
			}
			return w
		}
		w := reopen()
		for _, st := range []frontier.HostState{{Host: "b.example", Blocked: true}, {Host: "a.example", Blocked: true},
			{Host: "c.example", Blocked: true}, {Host: "c.example"}} {
			must(t, w.parts.Journal.Append([]journal.Record{{Kind: state.Host, Payload: st.AppendTo(nil)}}))
		}
		must(t, w.parts.Journal.Sync())
		mem = w.kill(func() {})
		w.close()
		w = reopen("a.example", "b.example")
		must(t, w.ForgetOldBlocks())
		mem = w.kill(func() {})
		w.close()
		w = reopen()
		finished(t)(w.Run(t.Context()))
		must(t, w.close())
	})
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
		if text, err := w.Drop(ctx, "a.example"); text != "" || !errors.Is(err, crawl.ErrUnderWay) {
			t.Errorf("got %q, %v", text, err)
		}
		finished(t)(end())
		if log := logText(w.parts.Lines(t, w.fs)); !strings.Contains(log, "-6000 a.example/") {
			t.Errorf("nothing was dropped:\n%s", log)
		}
		must(t, w.close())
	})
}
