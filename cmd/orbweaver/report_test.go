package main

import (
	"bytes"
	"testing"
	"testing/synctest"
	"time"

	"github.com/orbweaver/orbweaver/internal/report/review"
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
		want := "reading crawl/logs/crawl.log\\u001b: 10 GB of 25 GB\n" +
			"reading crawl/logs/crawl.log\\u001b: 20 GB of 25 GB\n"
		if got := b.String(); got != want {
			t.Errorf("got  %q\nwant %q", got, want)
		}
	})
}
