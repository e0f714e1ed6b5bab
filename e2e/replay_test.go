package e2e

import (
	"bytes"
	"crypto/sha1"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/testseed"
)

// notPywb matches the keys of index lines that pywb does not write.
var notPywb = regexp.MustCompile(`, "(charset|languages|truncated|redirect|hops|via|fetched-status|duplicate-of|` +
	`near-duplicate-of|category|body-digest)": "([^"\\]|\\.)*"`)

// judged fails the test unless every archive file passes our own verifier and warcio's, and pywb's
// indexer writes the same index as the crawl.
func (a *ledger) judged(t *testing.T) {
	t.Helper()
	verify(t, a.dir)
	venv := venv(t)
	if venv == "" {
		return
	}
	checks := strings.Split(foreign(t, filepath.Join(venv, "bin", "warcio"),
		append([]string{"check", "-v"}, a.warcs(t)...)...), "\n")
	passed, bad := 0, &most{t: t}
	for i, line := range checks {
		switch strings.TrimSpace(line) {
		case "digest pass":
			passed++
		case "digest present but not checked (revisit)":
			if !strings.HasSuffix(checks[i-1], " revisit") {
				bad.errorf("warcio: %s: %s", checks[i-1], line)
			}
		default:
			if strings.HasPrefix(line, "    ") {
				bad.errorf("warcio: %s: %s", checks[i-1], line)
			}
		}
	}
	bad.done("warcio check")
	theirs := strings.Split(strings.TrimSpace(foreign(t, filepath.Join(venv, "bin", "cdx-indexer"),
		append([]string{"-j"}, a.warcs(t)...)...)), "\n")
	b := must.Get(os.ReadFile(filepath.Join(a.dir, "indexes", "index.cdxj")))(t)
	ours := strings.Split(strings.TrimSpace(string(b)), "\n")
	if !slices.IsSorted(ours) {
		t.Error("index.cdxj is not sorted bytewise")
	}
	for i, line := range ours {
		ours[i] = notPywb.ReplaceAllString(line, "")
	}
	slices.Sort(ours)
	slices.Sort(theirs)
	differ := &most{t: t}
	for i := range max(len(ours), len(theirs)) {
		switch {
		case i >= len(ours) || i >= len(theirs):
			differ.errorf("index.cdxj has %d lines, pywb's indexer writes %d", len(ours), len(theirs))
		case ours[i] != theirs[i]:
			differ.errorf("index.cdxj  %s\npywb writes %s", ours[i], theirs[i])
		}
		if differ.n > 3 {
			break
		}
	}
	t.Logf("warcio: %d records pass; pywb's indexer: %d lines, as ours", passed, len(theirs))
}

// replays serves the crawl with pywb. It fails the test unless pages come back byte for byte: some
// with full records, and some that are in the archive as revisit records only. All were served by
// https, and compressed. The test also requests one page in the form that pywb gives to browsers.
func (a *ledger) replays(t *testing.T, tr *truth) {
	venv := venv(t)
	if venv == "" {
		t.Skip("no pywb")
	}
	coded, revisited := map[string]bool{}, map[string]bool{}
	for _, name := range a.warcs(t) {
		must.Do(t, sort(name, coded, revisited))
	}
	kinds := map[string][]string{}
	for u, p := range tr.Pages {
		switch {
		case p.Status != http.StatusOK:
		case revisited[u]:
			kinds["revisit"] = append(kinds["revisit"], u)
		case coded[u]:
			kinds["gzip"] = append(kinds["gzip"], u)
		}
	}
	rng := testseed.Rand(t)

	base := wayback(t, venv, a.dir)
	const each = 20
	for _, kind := range []string{"gzip", "revisit"} {
		us := kinds[kind]
		if len(us) < each {
			t.Errorf("only %d pages of kind %s", len(us), kind)
			continue
		}
		slices.Sort(us)
		rng.Shuffle(len(us), func(i, j int) { us[i], us[j] = us[j], us[i] })
		wrong := &most{t: t}
		for _, u := range us[:each] {
			status, body := replay(t, base, "id_", u)
			if sum := sha1.Sum(body); status != http.StatusOK || hex.EncodeToString(sum[:]) != tr.Pages[u].Digest {
				wrong.errorf("%s: pywb replays %d with %d bytes, the web serves 200 with %d", u, status, len(body),
					tr.Pages[u].Bytes)
			}
		}
		wrong.done("replayed otherwise")
		t.Logf("%s: %d of %d pages, replayed otherwise %d", kind, each, len(us), wrong.n)
	}
	const page, link = "https://sqlite.org/lang.html", "mp_/https://sqlite.org/docsrc/honeypot"
	status, body := replay(t, base, "mp_", page)
	if status != http.StatusOK || !bytes.Contains(body, []byte("SQL As Understood By SQLite")) ||
		!bytes.Contains(body, []byte(link)) {
		t.Errorf("%s: status %d, %d bytes; want the page with links into the collection", page, status, len(body))
	}
}

// sort separates the URLs whose body was compressed, and those that are revisits.
func sort(name string, coded, revisited map[string]bool) error {
	return records(name, func(h http.Header, block io.Reader) error {
		u := h.Get("WARC-Target-URI")
		switch h.Get("WARC-Type") {
		case "response":
			head := make([]byte, 2048)
			n, _ := io.ReadFull(block, head)
			head, _, _ = bytes.Cut(head[:n], []byte("\r\n\r\n"))
			coded[u] = bytes.Contains(bytes.ToLower(head), []byte("\r\ncontent-encoding: gzip"))
		case "revisit":
			revisited[u] = true
		}
		return nil
	})
}

// wayback starts pywb on the crawl in dir, as docs/archive.md shows, but on a free port. It returns
// the address of the collection.
func wayback(t *testing.T, venv, dir string) string {
	t.Helper()
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	port := l.Addr().(*net.TCPAddr).Port
	l.Close()
	home := t.TempDir()
	config, args := replayConfig(t)
	i := slices.Index(args, "-p")
	if i < 0 || i+1 == len(args) {
		t.Fatalf("wayback %v: no -p PORT", args)
	}
	args[i+1] = strconv.Itoa(port)
	must.Do(t, os.Symlink(dir, filepath.Join(home, "crawl")))
	must.Do(t, os.WriteFile(filepath.Join(home, "config.yaml"), []byte(config), 0o644))
	cmd := exec.Command(filepath.Join(venv, "bin", "wayback"), args...)
	cmd.Dir = home
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	must.Do(t, cmd.Start())
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	t.Cleanup(func() {
		cmd.Process.Signal(syscall.SIGTERM)
		select {
		case <-ended:
		case <-time.After(10 * time.Second):
			t.Error("pywb does not stop")
			cmd.Process.Kill()
			<-ended
		}
	})
	base := fmt.Sprintf("http://127.0.0.1:%d/crawl/", port)
	for limit := time.Now().Add(time.Minute); ; time.Sleep(100 * time.Millisecond) {
		res, err := http.Get(base)
		if err == nil {
			res.Body.Close()
			return base
		}
		select {
		case err := <-ended:
			ended <- err
			t.Fatalf("pywb: %v\n%s", err, tail(out.String()))
		default:
		}
		if time.Now().After(limit) {
			t.Fatalf("pywb does not answer: %v\n%s", err, tail(out.String()))
		}
	}
}

// replay asks pywb for the capture of u that is nearest to now.
func replay(t *testing.T, base, form, u string) (status int, body []byte) {
	t.Helper()
	at, err := url.Parse(base)
	must.Do(t, err)
	at.Opaque = at.Path + time.Now().UTC().Format("20060102150405") + form + "/" + u
	res := must.Get(http.DefaultClient.Do(&http.Request{Method: http.MethodGet, URL: at, Host: at.Host,
		Header: http.Header{}}))(t)
	defer res.Body.Close()
	if body, err = io.ReadAll(res.Body); err != nil {
		t.Errorf("%s: %v", u, err)
	}
	return res.StatusCode, body
}

// TestReplayOfFraming: pywb shows the same content of pages that were sent in chunks, in other chunks, and without
// chunks, whichever of them the archive holds in full.
func TestReplayOfFraming(t *testing.T) {
	weighs(t, 1)
	venv := venv(t)
	if venv == "" {
		t.Skip("no pywb")
	}
	const content = "<html><p>the very same content</p></html>"
	for _, order := range [][]string{{"7", "16", "whole"}, {"whole", "7", "16"}} {
		web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			size, err := strconv.Atoi(strings.TrimPrefix(r.URL.Path, "/"))
			switch {
			case r.URL.Path == "/":
				for _, to := range order {
					fmt.Fprintf(w, "<a href=/%s>x</a>", to)
				}
			case r.URL.Path == "/whole":
				w.Header().Set("Content-Type", "text/html")
				w.Header().Set("Content-Length", strconv.Itoa(len(content)))
				io.WriteString(w, content)
			case err == nil:
				w.Header().Set("Content-Type", "text/html")
				for part := range slices.Chunk([]byte(content), size) {
					w.Write(part)
					w.(http.Flusher).Flush()
				}
			default:
				http.NotFound(w, r)
			}
		}))
		dir := filepath.Join(t.TempDir(), "crawl")
		crawl(t.Context(), t, "crawl", "--contact", "a@b.example", "--allow-private", "--delay", "1ms", "--no-sitemaps",
			"-o", dir, web.URL).must(t, 0)
		web.Close()
		b, err := os.ReadFile(filepath.Join(dir, "indexes", "index.cdxj"))
		if err != nil || bytes.Count(b, []byte("warc/revisit")) != 2 {
			t.Errorf("%v: want two revisits: %s, %v", order, b, err)
		}
		base := wayback(t, venv, dir)
		for _, path := range order {
			if status, body := replay(t, base, "id_", web.URL+"/"+path); status != 200 || string(body) != content {
				t.Errorf("%v: pywb replays /%s with %d, %q", order, path, status, body)
			}
		}
	}
}
