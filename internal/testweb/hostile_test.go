package testweb

import (
	"bufio"
	"bytes"
	"compress/flate"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/zstd"

	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/testneed"
)

// ask sends a request over TCP and reads at most limit bytes of the response. ended means that the connection ended
// within patience.
func ask(t testing.TB, w *Web, host, path string, limit int64, patience time.Duration) (reply []byte, ended bool) {
	t.Helper()
	a, _ := w.Lookup(host)
	c, err := net.Dial("tcp", net.JoinHostPort(a.String(), fmt.Sprint(w.HTTPPort())))
	must.Do(t, err)
	defer c.Close()
	fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: %s\r\n\r\n", path, host)
	in := bufio.NewReader(c)
	if host != HostileHost || path != "/hang" { // the patience begins with the first byte
		c.SetReadDeadline(time.Now().Add(time.Minute))
		_, _ = in.Peek(1) // ReadAll returns its error
	}
	c.SetReadDeadline(time.Now().Add(patience))
	reply, err = io.ReadAll(io.LimitReader(in, limit))
	return reply, (err == nil && int64(len(reply)) < limit) || (err != nil && !isTimeout(err))
}

func TestHostilities(t *testing.T) {
	w := serving(t, Config{Sites: HostileSites()})
	home, _ := ask(t, w, HostileHost, "/", 1<<20, 20*time.Second)
	for _, h := range Hostilities() {
		path := strings.TrimSuffix(h.Path, "*")
		t.Run(h.Path[1:], func(t *testing.T) {
			if !bytes.Contains(home, []byte(`href="`+path+`"`)) {
				t.Error("the home page does not link to it")
			}
			patience := 20 * time.Second
			kept := h.Path == "/pipelined"
			if h.Endless || kept {
				patience = 200 * time.Millisecond
			}
			reply, ended := ask(t, w, HostileHost, path, 32<<20, patience)
			if ended == (h.Endless || kept) {
				t.Errorf("ended is %v after %d bytes", ended, len(reply))
			}
			silent := h.Path == "/hang" || h.Path == "/empty" || h.Path == "/reset"
			if (len(reply) == 0) != silent {
				t.Errorf("got %d bytes, want none: %v", len(reply), silent)
			}
		})
	}
	r0, _ := ask(t, w, HostileHost, "/deeper/images/photos/deeper/", 1<<20, 20*time.Second)
	if !bytes.Contains(r0, []byte("A trap")) {
		t.Errorf("deep in the trap: got %q", r0)
	}
	until(t, "all requests ended", func() bool { return w.Report().Active == 0 })
	r := w.Report()
	if got := r.Hosts[HostileHost]; got.Requests < int64(len(Hostilities())) || got.Aborted < 10 || got.Broken < 2 {
		t.Errorf("got %+v", got)
	}
}

func until(t testing.TB, what string, f func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !f(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within a minute: %s", what)
		}
	}
}

func TestBombs(t *testing.T) {
	for coding, b := range bombs() {
		reps := 4
		packed := append([]byte(nil), b.front...)
		for range reps {
			packed = append(packed, b.part...)
		}
		var r io.Reader
		switch coding {
		case "gzip":
			r = flate.NewReader(bytes.NewReader(packed[10:]))
		case "br":
			r = brotli.NewReader(bytes.NewReader(packed))
		case "zstd":
			z, err := zstd.NewReader(bytes.NewReader(packed), zstd.WithDecoderConcurrency(1))
			must.Do(t, err)
			defer z.Close()
			r = z
		}
		n, _ := io.Copy(io.Discard, r)
		if want := int64(reps * bombStep); n < want {
			t.Errorf("%s: unpacks to %d bytes, want %d or more", coding, n, want)
		}
		t.Logf("%s: %d bytes for %d MiB", coding, len(b.part), bombStep>>20)
	}
}

func TestRawReplies(t *testing.T) {
	dir := "../../../shared/data/http"
	if _, err := os.Stat(filepath.Join(dir, "index.jsonl")); err != nil {
		testneed.Missing(t, err)
	}
	raw, names, err := RawReplies(dir)
	must.Do(t, err)
	index, err := os.ReadFile(filepath.Join(dir, "index.jsonl"))
	must.Do(t, err)
	if want := bytes.Count(index, []byte("\n")); len(names) != want {
		t.Errorf("got %d names, want %d", len(names), want)
	}
	w := serving(t, Config{Sites: []Site{{Host: "raw.example", Raw: raw}}})
	for line := range bytes.Lines(index) {
		var e struct{ File string }
		must.Do(t, json.Unmarshal(line, &e))
		want, err := os.ReadFile(filepath.Join(dir, e.File))
		must.Do(t, err)
		got, _ := ask(t, w, "raw.example", "/"+strings.TrimSuffix(e.File, ".http"), 32<<20, 20*time.Second)
		if !bytes.Equal(got, want) {
			t.Errorf("%s: got %d bytes, want %d", e.File, len(got), len(want))
		}
	}
}

func TestRawKeepsConnection(t *testing.T) {
	w := serving(t, Config{Sites: []Site{{Host: "raw.example", Raw: func(c *RawConn, _ *httpRequest) bool {
		c.WriteString("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
		return true
	}}}})
	c := client(t, w)
	for i := range 3 {
		if _, body := get(t, c, fmt.Sprintf("https://raw.example/%d", i)); body != "ok" {
			t.Fatalf("got %q", body)
		}
	}
	until(t, "three requests", func() bool { return w.Report().Pages == 3 })
	if got := w.Report().Hosts["raw.example"]; got.Connections != 1 || got.MaxConcurrent != 1 {
		t.Errorf("got %+v, want one connection", got)
	}
}
