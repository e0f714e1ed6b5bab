package crawl_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/orbweaver/orbweaver/internal/crawl"
	"github.com/orbweaver/orbweaver/internal/crawl/visit"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/testdisk"
	"github.com/orbweaver/orbweaver/internal/warc"
)

// readRecord reads a record as another program does: the one at offset in file, which is called file and ".open" while
// the crawl writes it.
func readRecord(mem *testdisk.Mem, url, file string, offset int64) error {
	path := crawlDir + "/archive/" + file
	f, err := mem.OpenFile(path+".open", os.O_RDONLY, 0)
	if errors.Is(err, fs.ErrNotExist) {
		f, err = mem.OpenFile(path, os.O_RDONLY, 0)
	}
	if err != nil {
		return err
	}
	defer f.Close()
	rec, err := warc.At(f, offset)
	if err != nil {
		return fmt.Errorf("%s at %d: %w", file, offset, err)
	}
	if _, err := io.Copy(io.Discard, rec); err != nil {
		return fmt.Errorf("%s at %d: %w", file, offset, err)
	}
	if rec.URL() != url || rec.Type() != "response" && rec.Type() != "revisit" {
		return fmt.Errorf("%s at %d: a %s of %s", file, offset, rec.Type(), rec.URL())
	}
	return nil
}

// manyPages is a web of pages of which some are the same. The WARC files have few records.
func manyPages(t *testing.T) *story {
	t.Helper()
	var b strings.Builder
	for h := range 8 {
		fmt.Fprintf(&b, "seed http://h%d.example/\ndns h%[1]d.example 192.0.2.%d\nhttp://h%[1]d.example/", h, h+1)
		for n := range 30 {
			fmt.Fprintf(&b, " /%d", n)
		}
		b.WriteString("\n")
		for n := range 30 {
			fmt.Fprintf(&b, "http://h%d.example/%d size=%d\n", h, n, 300+n/2*100)
		}
	}
	s := parsed(t, "delay 10ms\n"+b.String())
	s.archive = 20_000
	return s
}

// When Pages receives a page, its record can be read.
func TestRecordOfPageIsThere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, mem := manyPages(t), testdisk.NewMem()
		var pages, early atomic.Int64
		s.with = func(r *crawl.Parts) error {
			r.Pages = visit.PagesFunc(func(_ context.Context, p *visit.Page) error {
				url, w := p.Link.URL.String(), p.Written
				if readRecord(mem, url, w.File, w.Offset) != nil {
					early.Add(1)
				}
				pages.Add(1)
				if err := cmp.Or(p.ShowRecord(), readRecord(mem, url, w.File, w.Offset)); err != nil {
					t.Error(err)
				}
				return nil
			})
			return nil
		}
		w := s.opened(t, mem)
		if stop := <-w.background(t.Context(), t); stop != crawl.Finished || pages.Load() < 240 || early.Load() == 0 {
			t.Errorf("stop %s after %d pages; %d records had to be shown", stop, pages.Load(), early.Load())
		}
		must.Do(t, w.close())
	})
}

// When a page of an application comes, its record can be read.
func TestRecordOfDeliveryIsThere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, mem := manyPages(t), testdisk.NewMem()
		w := s.opened(t, mem)
		ended := w.background(t.Context(), t)
		synctest.Wait()
		must.Do(t, w.Orders.SetApplications(newsAndList(t)))
		feed(t, w, "news", "http://h0.example/", "http://h1.example/")
		pages := 0
		for at := int64(0); pages < 62; {
			changed := w.Applications.Changed("news")
			ds := must.Get(w.Applications.Deliveries("news", at, 10))(t)
			for _, d := range ds {
				if err := readRecord(mem, d.URL, d.File, d.Offset); err != nil {
					t.Error(err)
				}
				at = d.Position
				pages++
			}
			if len(ds) > 0 {
				must.Do(t, w.Applications.Acknowledge(t.Context(), "news", at))
				continue
			}
			select {
			case <-changed:
			case <-time.After(time.Hour):
				t.Fatalf("%d pages have come", pages)
			}
		}
		must.Do(t, w.Orders.SetApplications(nil))
		<-ended
		must.Do(t, w.close())
	})
}
