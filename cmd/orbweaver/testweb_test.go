package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/orbweaver/orbweaver/internal/cli"
	"github.com/orbweaver/orbweaver/internal/input"
	"github.com/orbweaver/orbweaver/internal/quantity"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testweb"
)

func TestTestweb(t *testing.T) {
	dir := t.TempDir()
	must.Do(t, os.WriteFile(filepath.Join(dir, "index.html"), []byte("home"), 0o644))
	c := TestwebCmd{Folder: []string{"https://A.example/=" + dir, "b.example/my%20docs=" + dir},
		Address: []string{"http://a.example/=127.5.5.5"}, Demo: true, Scheme: "https",
		CAOut: filepath.Join(dir, "ca.pem"), ReportOut: filepath.Join(dir, "report.json"),
		Log:       filepath.Join(dir, "log.tsv"),
		TimeLimit: 50 * time.Millisecond, AsJSON: true}
	var out bytes.Buffer
	must.Do(t, c.Run(&out, cli.ErrorOutput{Writer: &out}))
	var said struct {
		Seeds     []string
		ConnectTo []string `json:"connect_to"`
	}
	must.Do(t, json.Unmarshal(out.Bytes(), &said))
	want := "https://a.example/ https://b.example/my%20docs/ http://www.aldermouth.example/"
	if got := strings.Join(said.Seeds, " "); got != want || len(said.ConnectTo) != 2 {
		t.Errorf("got seeds %s and %q, want %s", got, said.ConnectTo, want)
	}
	c = TestwebCmd{Folder: []string{"http://a.example/=" + dir, "b.example=" + dir},
		Raw: []string{"https://c.example=" + dir}, Scheme: "both"}
	want = "http://a.example/ https://b.example/ https://c.example/"
	if s, err := c.config(); err != nil || strings.Join(s.seeds, " ") != want {
		t.Errorf("got seeds %s, %v", s.seeds, err)
	}
	for _, f := range []string{"ca.pem", "report.json", "log.tsv"} {
		if _, err := os.Stat(filepath.Join(dir, f)); err != nil {
			t.Error(err)
		}
	}
}

func TestTestwebRefuses(t *testing.T) {
	for name, c := range map[string]TestwebCmd{
		"nothing":   {},
		"folder":    {Folder: []string{"no-equals-sign"}},
		"directory": {Folder: []string{"a.example=/does/not/exist"}},
		"address":   {Demo: true, Address: []string{"a.example=10.0.0.1"}},
		"raw":       {Raw: []string{"x"}},
	} {
		var bad *input.ConfigError
		if err := c.Run(&bytes.Buffer{}, cli.ErrorOutput{Writer: io.Discard}); !errors.As(err, &bad) {
			t.Errorf("%s: got %v, want a configuration error", name, err)
		}
	}
}

// A port in use is refused with the name of its flag.
func TestTestwebPortInUse(t *testing.T) {
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer l.Close()
	addr := l.Addr().String()
	_, port, _ := net.SplitHostPort(addr)
	number := must.Get(strconv.Atoi(port))(t)
	for want, c := range map[string]TestwebCmd{
		"--http-port " + port + ": the port is in use; choose another":  {Demo: true, HTTP: number},
		"--https-port " + port + ": the port is in use; choose another": {Demo: true, HTTPS: number},
		"--control " + addr + ": the port is in use; choose another":    {Demo: true, Control: addr},
		"--dns-listen " + addr + ": the port is in use; choose another": {Demo: true, DNSListen: addr},
	} {
		c.Scheme = "both"
		var bad *input.ConfigError
		err := c.Run(&bytes.Buffer{}, cli.ErrorOutput{Writer: io.Discard})
		if !errors.As(err, &bad) || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

func TestShare(t *testing.T) {
	for _, tt := range []struct {
		text string
		want quantity.Share // -1: refused
	}{
		{"0", 0}, {"0.05", 0.05}, {"5%", 0.05}, {"100%", 1}, {"1", 1}, {"1e-3", 0.001},
		{"", -1}, {"%", -1}, {"2", -1}, {"-0.1", -1}, {"101%", -1}, {"NaN", -1}, {"5 %", -1},
	} {
		got := quantity.Share(-1)
		if err := got.UnmarshalText([]byte(tt.text)); got != tt.want || (err == nil) != (tt.want >= 0) {
			t.Errorf("%q: got %g, %v, want %g", tt.text, got, err, tt.want)
		}
	}
}

// The summary has aligned columns and plain words.
func TestTestwebSummary(t *testing.T) {
	const ms = testweb.Seconds(time.Millisecond)
	v := func(kind, url, detail string) testweb.Violation {
		return testweb.Violation{Kind: kind, By: "host", Host: "a.example", URL: url, Detail: detail, Gap: 1754338,
			Promised: 100 * ms}
	}
	var out bytes.Buffer
	summarize(&out, &testweb.Report{Requests: 1234, Pages: 20, Compressed: 3, Compressible: 12, BeforeRobots: 1,
		ViolationCount: map[string]int64{"gap": 1, "connections": 1, "robots": 1}, Violations: []testweb.Violation{
			v("gap", "http://a.example/x", ""), v("connections", "", "2 connections at once"),
			v("robots", "http://a.example/\x1bno", "disallow: /")}})
	const want = `requests    1,234, 20 of them for pages; 0 B
compressed  3 of 12 pages that the web can compress (25 %)
twice       0 URLs
violations  connections: 1, gap: 1, robots: 1
            gap          1.75 ms after the last response of the host, not 100 ms  http://a.example/x
            connections  2 connections at once to the host                        a.example
            robots       forbidden by "disallow: /"                               http://a.example/\u001bno
            not counted: 1 request before the host's robots.txt was answered
`
	if out.String() != want {
		t.Errorf("got\n%swant\n%s", out.String(), want)
	}
	for want, r := range map[string]*testweb.Report{
		"":                                     {},
		"none: this web offers no compression": {Pages: 3},
		"2 of 3 pages, as recorded":            {Pages: 3, Compressed: 2},
		"2 of 3 pages (67 %)":                  {Pages: 3, Compressed: 2, Compressible: 3},
	} {
		if got := compression(r); strings.TrimSpace(strings.TrimPrefix(got, "compressed")) != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	many := make([]testweb.Violation, 200)
	out.Reset()
	summarize(&out, &testweb.Report{ViolationCount: map[string]int64{"gap": 1234}, Violations: many})
	const more = "\n            and 1,229 more; --report-out FILE lists up to 200 of each kind\n"
	if !strings.HasSuffix(out.String(), more) {
		t.Errorf("got\n%s", out.String())
	}
}
