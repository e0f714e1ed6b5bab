package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/orbweaver/orbweaver/internal/input"
	"github.com/orbweaver/orbweaver/internal/output/crawls"
	"github.com/orbweaver/orbweaver/internal/quantity"
	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/testweb/record"
)

// recordFlags describe the recorded web.
type recordFlags struct {
	Record    []string          `help:"${testweb_record}" placeholder:"FILE ..." sep:"none" group:"Recorded web"`
	More      []string          `arg:"" optional:"" name:"file" help:"${testweb_more}"`
	RecordAt  string            `help:"${testweb_record_at}" placeholder:"TIME" group:"Recorded web"`
	RecordMax quantity.ByteSize `help:"${testweb_record_max}" default:"64MiB" placeholder:"BYTES" group:"Recorded web"`
}

// open reads the files of the recorded web. token is the product name that robots.txt is
// judged for.
func (f *recordFlags) open(token string) (*record.Archive, error) {
	bad := func(format string, args ...any) (*record.Archive, error) { return nil, input.Errorf(format, args...) }
	cfg := record.Config{Agent: token, MaxResponse: int64(f.RecordMax)}
	if f.RecordMax < 1 {
		return bad("--record-max %d is not above 0; give a size such as 64MiB", int64(f.RecordMax))
	}
	if f.RecordAt != "" {
		ok := false
		for _, layout := range []string{
			time.RFC3339, "2006-01-02T15:04:05", "2006-01-02 15:04:05", time.DateOnly, "20060102150405",
		} {
			if t, err := time.Parse(layout, f.RecordAt); err == nil {
				cfg.At, ok = t, true
				break
			}
		}
		if !ok {
			return bad("--record-at: %q is not a time; write 2024-05-31, 2024-05-31T12:00:00Z or 20240531120000",
				f.RecordAt)
		}
	}
	named := slices.Concat(f.Record, f.More)
	files, err := warcFiles(crawls.New(context.Background(), disk.OS, nil), io.Discard, named)
	if err != nil {
		return bad("--record: %v", err)
	}
	if len(files) == 0 {
		return bad("--record %s: the archive is empty; name one with pages", strings.Join(named, " "))
	}
	a, err := record.Open(files, cfg)
	if errors.Is(err, record.ErrNothing) {
		return bad("--record %s: %v", strings.Join(named, " "), err)
	}
	if err != nil {
		return bad("--record: %v", err)
	}
	return a, nil
}

// describeRecord prints what the archive holds and what cannot be served.
func describeRecord(out io.Writer, s record.Summary) {
	fmt.Fprintf(out, "recorded %s of %s, %s; %s in %s, %s\n",
		plural(s.URLs, "URL"), plural(s.Hosts, "host"), plural(s.Pages, "page"),
		plural(s.Records, "record"), plural(int64(s.Files), "file"), humanize.IBytes(uint64(s.Bytes)))
	for _, why := range slices.Sorted(maps.Keys(s.Skipped)) {
		fmt.Fprintf(out, "skipped  %s: %s\n", plural(s.Skipped[why], "capture"), why)
	}
	if s.Damaged > 0 {
		fmt.Fprintf(out, "damaged  %s, %s skipped\n", plural(s.Damaged, "place"), plural(s.DamagedBytes, "byte"))
		for _, n := range s.Notes {
			fmt.Fprintf(out, "         %s\n", n)
		}
	}
}
