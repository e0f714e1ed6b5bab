package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/orbweaver/orbweaver/internal/cli"
	"github.com/orbweaver/orbweaver/internal/node"
	"github.com/orbweaver/orbweaver/internal/testweb/record"
)

// recordFlags are the recorded web.
type recordFlags struct {
	Record    []string     `help:"Serve WARC files, or the archive of a crawl directory, as they were recorded." placeholder:"FILE ..." sep:"none" group:"The recorded web"`
	More      []string     `arg:"" optional:"" name:"file" help:"More files for --record."`
	RecordAt  string       `help:"Of several captures of a URL the first at or after this time, such as 2024-05-31 or 2024-05-31T12:00:00Z (default: the latest)." placeholder:"TIME" group:"The recorded web"`
	RecordMax cli.ByteSize `help:"Cut responses off at so many bytes; each is held in memory while it is sent." default:"64MiB" placeholder:"BYTES" group:"The recorded web"`
}

// open reads the files.
func (f *recordFlags) open(token string) (*record.Archive, error) {
	bad := func(format string, args ...any) (*record.Archive, error) {
		return nil, &node.ConfigError{Text: fmt.Sprintf(format, args...)}
	}
	cfg := record.Config{Agent: token, MaxResponse: int64(f.RecordMax)}
	if f.RecordMax < 1 {
		return bad("--record-max %d: above 0, such as 64MiB", int64(f.RecordMax))
	}
	if f.RecordAt != "" {
		ok := false
		for _, layout := range []string{time.RFC3339, "2006-01-02T15:04:05", "2006-01-02 15:04:05", time.DateOnly,
			"20060102150405"} {
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
	files, err := warcFiles(slices.Concat(f.Record, f.More))
	if err != nil {
		return bad("--record: %v", err)
	}
	a, err := record.Open(files, cfg)
	if err != nil {
		return bad("--record: %v", err)
	}
	return a, nil
}

// describeRecord says what was read.
func describeRecord(out io.Writer, s record.Summary) {
	fmt.Fprintf(out, "recorded %s of %s, %s of them pages; %s in %s, %s\n", plural(s.URLs, "URL"),
		plural(s.Hosts, "host"),
		humanize.Comma(s.Pages), plural(s.Records, "record"), plural(int64(s.Files), "file"),
		humanize.IBytes(uint64(s.Bytes)))
	for _, why := range slices.Sorted(maps.Keys(s.Skipped)) {
		fmt.Fprintf(out, "skipped  %s: %s\n", plural(s.Skipped[why], "capture"), why)
	}
	if s.Damaged > 0 {
		fmt.Fprintf(out, "damaged  %s, %s passed over\n", plural(s.Damaged, "place"), plural(s.DamagedBytes, "byte"))
		for _, n := range s.Notes {
			fmt.Fprintf(out, "         %s\n", n)
		}
	}
}
