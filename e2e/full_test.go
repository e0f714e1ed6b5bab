package e2e

import (
	"context"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/testneed"
	"github.com/orbweaver/orbweaver/internal/testweb"
)

// If the disk is full, the program ends with code 3 and says what to do. So it does before, if less is free than
// --min-free-disk. When the disk has space again, --resume continues without a loss. The disk is a real one, in
// memory, which requires root.
func TestDiskFull(t *testing.T) {
	weighs(t, 1)
	disk := t.TempDir()
	if err := syscall.Mount("tmpfs", disk, "tmpfs", 0, "size=2m"); err != nil {
		testneed.Missing(t, "a small disk, which requires root: mount:", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(disk, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	const pages = 120
	site := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		if r.URL.Path == "/" {
			for i := range pages {
				fmt.Fprintf(w, "<a href=/%d>%d</a>\n", i, i)
			}
			return
		}
		// The text is random, so that no compressor makes it small.
		x := uint64(len(r.URL.Path))*1e9 + uint64(r.URL.Path[len(r.URL.Path)-1])
		for range 2500 {
			x = x*6364136223846793005 + 1442695040888963407
			fmt.Fprintf(w, "%016x%s ", x, r.URL.Path)
		}
	})
	web := serve(t, testweb.Config{Sites: []testweb.Site{{Host: "full.example", Handler: site, Scheme: "http"}},
		KeepURLs: 1000})
	dir := filepath.Join(disk, "crawl")
	early := crawl(context.Background(), t, flags(t, web, dir, "--delay", "0s", "http://full.example/")...).must(t, 3)
	if want := "Stopped by --min-free-disk with 1 URL to do."; !strings.Contains(early.stdout, want) {
		t.Errorf("with less than 1 GB the program does not say %q:\n%s", want, early.stdout)
	}
	first := flags(t, web, dir, "--delay", "0s", "--resume", "--min-free-disk", "0")
	full := crawl(context.Background(), t, first...).must(t, 3)
	for _, want := range []string{"the disk is full", "Free disk space", "--resume", "no space left on device"} {
		if !strings.Contains(full.stderr, want) {
			t.Errorf("the message does not say %q:\n%s", want, full.stderr)
		}
	}
	more := flags(t, web, dir, "--delay", "0s", "--resume")
	crawl(context.Background(), t, more...).must(t, 3) // the disk is as full as before
	must.Do(t, syscall.Mount("tmpfs", disk, "tmpfs", syscall.MS_REMOUNT, "size=100m"))
	more = append(more, "--min-free-disk", "1MB")
	crawl(context.Background(), t, more...).must(t, 0)
	verify(t, dir)
	found := indexed(t, dir)
	for i := range pages {
		if u := fmt.Sprintf("http://full.example/%d", i); found[u] == 0 {
			t.Errorf("%s is not in the index", u)
		}
	}
	if n := summary(t, dir)["pages"]; n != float64(pages+1) {
		t.Errorf("%v pages, want %d", n, pages+1)
	}
}
