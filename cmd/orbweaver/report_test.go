package main

import (
	"bytes"
	"encoding/csv"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/orbweaver/orbweaver/internal/report/review"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testweb"
	"github.com/orbweaver/orbweaver/internal/testweb/demo"
)

// Not on a terminal, a long read says every ten seconds how far it is.
func TestReportProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b bytes.Buffer
		progress := newReading(&b)
		for read := int64(0); read <= 25e9; read += 1e9 {
			progress(review.Progress{File: "crawl/logs/crawl.log\x1b", Read: read, Total: 25e9})
			time.Sleep(time.Second)
		}
		want := "reading crawl/logs/crawl.log\\u001b: 3.0 GB of 25 GB\n" +
			"reading crawl/logs/crawl.log\\u001b: 13 GB of 25 GB\n" +
			"reading crawl/logs/crawl.log\\u001b: 23 GB of 25 GB\n"
		if got := b.String(); got != want {
			t.Errorf("got  %q\nwant %q", got, want)
		}
	})
}

// The counts of a report are those of the crawl's own reports.
func TestReportAgrees(t *testing.T) {
	web, err := testweb.New(testweb.Config{Sites: demo.Sites()})
	must.Do(t, err)
	stop := web.Start()
	defer stop()
	dir := filepath.Join(t.TempDir(), "crawl") // without the hosts that have a Crawl-delay
	orbweaver(t, 0, "crawl", "--quiet", "--dir", dir, "--contact", "x@example.org", "--allow-private", "--scope", "any",
		"--requisites", "--exclude", "library|tidewatch", "--delay", "0s", "--retry-wait", "20ms",
		"--slow-down", "20ms", "--dns", web.DNSAddr(), "--connect-to", strings.Join(web.ConnectTo(), ","),
		demo.Seeds()[0])
	r := must.Get(review.Read(t.Context(), []string{dir}, review.Config{Top: 1000}))(t)
	s := r.Dirs[0].Summary
	if s == nil || s.Pages < 100 || s.Denied == 0 || s.Duplicates == 0 {
		t.Fatalf("summary %+v", s)
	}
	sum := func(list []review.Count) map[string]int64 {
		m := map[string]int64{}
		for _, c := range list {
			m[c.Name] += c.Count
		}
		return m
	}
	hosts := map[string]string{}
	for _, h := range r.Hosts {
		hosts[h.Host] = fmt.Sprintln(h.Visits, h.Pages, h.Failed, h.Denied, h.Duplicates)
	}
	wantHosts := map[string]string{}
	for _, row := range csvRows(t, filepath.Join(dir, "reports", "hosts.csv")) {
		wantHosts[row["host"]] = fmt.Sprintln(row["urls"], row["pages"], row["errors"], row["robots_denied"],
			row["duplicates"])
	}
	types := map[string]int64{}
	for _, row := range csvRows(t, filepath.Join(dir, "reports", "mime.csv")) {
		if types[row["mime"]], err = strconv.ParseInt(row["urls"], 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	broken := s.Status["404"]
	for _, tt := range []struct {
		name      string
		got, want any
	}{
		{"pages", r.Pages, s.Pages}, {"files", r.Files, s.Files},
		{"fetched", r.Fetched, s.Fetched}, {"visits", r.Visits, s.Finished},
		{"hosts", r.HostCount, s.Hosts}, {"duplicates", r.Duplicates, s.Duplicates}, {"denied", r.Denied, s.Denied},
		{"robots.txt", r.RobotsTxt, s.RobotsTxt}, {"truncated", r.Truncated, s.Truncated},
		{"statuses", sum(r.Status), s.Status}, {"errors", sum(r.Errors), s.Errors}, {"skipped", sum(r.Skipped),
			s.Skipped},
		{"table of hosts", hosts, wantHosts}, {"table of types", sum(r.MIME), types}, {"broken", r.BrokenCount, broken},
		{"damaged", r.Damaged, int64(0)}, {"state", string(r.Dirs[0].State), "finished"},
	} {
		if diff := cmp.Diff(tt.want, tt.got); diff != "" {
			t.Errorf("%s: -crawl +report\n%s", tt.name, diff)
		}
	}
}

// csvRows reads a table with a head.
func csvRows(t *testing.T, name string) (rows []map[string]string) {
	t.Helper()
	f, err := os.Open(name)
	must.Do(t, err)
	defer f.Close()
	all, err := csv.NewReader(f).ReadAll()
	if err != nil || len(all) < 2 {
		t.Fatalf("%s: %d rows, %v", name, len(all), err)
	}
	for _, cells := range all[1:] {
		row := map[string]string{}
		for i, c := range cells {
			row[all[0][i]] = c
		}
		rows = append(rows, row)
	}
	return rows
}
