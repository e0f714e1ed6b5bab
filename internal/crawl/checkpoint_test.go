package crawl_test

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/testdisk"
	"github.com/orbweaver/orbweaver/internal/testkit/testparts"
	"github.com/orbweaver/orbweaver/internal/warc"
)

// hookFS calls hook when a snapshot's file is created: after the sync of journal and archive, and
// before the merge.
type hookFS struct {
	disk.FS
	hook func()
}

func (h *hookFS) OpenFile(name string, flag int, perm fs.FileMode) (disk.File, error) {
	if h.hook != nil && strings.HasSuffix(name, ".tmp") && flag&os.O_CREATE != 0 {
		f := h.hook
		h.hook = nil
		f()
	}
	return h.FS.OpenFile(name, flag, perm)
}

// A payload that a checkpoint remembers is in the archive in any order of events. Otherwise
// its URL, when fetched again, would be a revisit of a lost record.
func TestCheckpointRemembersWhatIsThere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := testdisk.NewMem()
		s := parsed(t, "delay 1s\nseed http://h0.example/\ndns h0.example 192.0.2.1\nhttp://h0.example/ same\n")
		hook := &hookFS{FS: mem}
		w := s.opened(t, hook)
		head := "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n"
		x := func() *warc.Exchange {
			return &warc.Exchange{URL: "http://h0.example/", Began: time.Now(),
				Request:  []byte("GET / HTTP/1.1\r\nHost: h0.example\r\n\r\n"),
				Response: warc.Bytes(head + "hello"), HTTP: true, HeadLen: len(head)}
		}
		hook.hook = func() { // a worker archives a page while the dispatcher begins a checkpoint
			if _, err := w.Archive.Write(x()); err != nil {
				t.Error(err)
			}
		}
		must.Do(t, w.Orders.Pause(t.Context(), true))
		ctx, cancel := context.WithCancel(t.Context())
		end := w.running(ctx)
		synctest.Wait()
		_, err := w.Orders.Checkpoint(t.Context())
		must.Do(t, err)
		synctest.Wait()
		for name, after := range map[string]*testdisk.Mem{"kill": mem.Clone(), "power failure": mem.Crash(1)} {
			again := s.opened(t, after)
			wr, err := again.Archive.Write(x()) // the URL is fetched again
			must.Do(t, err)
			must.Do(t, again.close())
			n := 0
			for _, c := range testparts.Captures(t, after, "") {
				if c.Type == "response" {
					n++
				}
			}
			if n == 0 {
				t.Errorf("%s: revisit %v, with %d responses in the archive", name, wr.Revisit, n)
			}
		}
		w.dead.Store(true)
		cancel()
		ran(t)(end())
		must.Do(t, w.close())
	})
}

// A checkpoint takes over the parts of the one before. It writes only what is new.
func TestCheckpointKeepsParts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var text strings.Builder
		text.WriteString("delay 1s\nseed http://a.example/\ndns a.example 192.0.2.1\nhttp://a.example/")
		for i := range 2000 {
			fmt.Fprintf(&text, " /%d", i)
		}
		s := parsed(t, text.String()+"\n")
		var written atomic.Int64
		fs := testdisk.NewFaulty(testdisk.NewMem(), func(c testdisk.Call) testdisk.Fault {
			if c.Op == testdisk.OpWrite && strings.Contains(c.Name, "/journal/part-") {
				written.Add(int64(c.Bytes))
			}
			return testdisk.Fault{}
		})
		w := s.opened(t, fs)
		ctx, cancel := context.WithCancel(t.Context())
		end := w.running(ctx)
		var sizes []int64
		for range 3 {
			time.Sleep(10 * time.Second)
			written.Store(0)
			_, err := w.Orders.Checkpoint(t.Context())
			must.Do(t, err)
			time.Sleep(5 * time.Second)
			sizes = append(sizes, written.Load())
		}
		if sizes[0] < 50_000 || sizes[1] == 0 || sizes[1] > sizes[0]/10 || sizes[2] > sizes[0]/10 {
			t.Errorf("the checkpoints wrote %d bytes of parts; want many, then few", sizes)
		}
		cancel()
		ran(t)(end())
		must.Do(t, w.close())
	})
}
