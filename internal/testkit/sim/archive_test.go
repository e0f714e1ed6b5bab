package sim

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testweb"
	"github.com/orbweaver/orbweaver/internal/testweb/gen"
)

// member returns a record in a gzip member.
func member(kind, url, block string, fields ...string) []byte {
	_, body, _ := strings.Cut(block, "\r\n\r\n")
	head := "WARC/1.1\r\nWARC-Type: %s\r\nWARC-Record-ID: <urn:uuid:1>\r\nWARC-Date: 2000-01-01T00:00:00Z\r\n" +
		"WARC-Target-URI: %s\r\nContent-Length: %d\r\nWARC-Block-Digest: %s\r\nWARC-Payload-Digest: %s\r\n"
	text := fmt.Sprintf(head, kind, url, len(block), digestOf([]byte(block)), digestOf([]byte(body)))
	for _, f := range fields {
		text += f + "\r\n"
	}
	return compressed(text + "\r\n" + block + "\r\n\r\n")
}

func compressed(text string) []byte {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	z.Write([]byte(text))
	z.Close()
	return b.Bytes()
}

func responseOf(body string) string {
	return fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
}

// TestReadWARC checks that the reader of archives finds damage, and returns the records before it.
func TestReadWARC(t *testing.T) {
	good := member("response", "http://a.example/", responseOf("hello"))
	plain := func(change func(string) string) []byte {
		z := must.Get(gzip.NewReader(bytes.NewReader(good)))(t)
		var b bytes.Buffer
		must.Get(b.ReadFrom(z))(t)
		return compressed(change(b.String()))
	}
	replace := func(from, to string) []byte {
		return plain(func(s string) string { return strings.Replace(s, from, to, 1) })
	}
	for name, c := range map[string]struct {
		last []byte
		ok   bool
	}{
		"whole":              {good, true},
		"none":               {nil, true},
		"unchanged":          {plain(func(s string) string { return s }), true},
		"cut":                {good[:len(good)-1], false},
		"zeros":              {make([]byte, 100), false},
		"another body":       {replace("hello", "hallo"), false},
		"short":              {replace("hello\r\n\r\n", "hello\r\n"), false},
		"two in a member":    {plain(func(s string) string { return s + s }), false},
		"no date":            {replace("WARC-Date: 2000-01-01T00:00:00Z\r\n", ""), false},
		"a field twice":      {replace("WARC-Date", "WARC-Type"), false},
		"no digest":          {replace("WARC-Payload-Digest", "Another-Digest"), false},
		"profile of revisit": {member("revisit", "http://a.example/", "", "WARC-Profile: other"), false},
	} {
		list, err := readWARC(slices.Concat(good, member("warcinfo", "", "x"), good, c.last))
		want := 2
		if c.ok && len(c.last) > 0 {
			want = 3
		}
		if len(list) != want || (err == nil) != c.ok {
			t.Errorf("%s: %d records, error %v; want %d", name, len(list), err, want)
		}
	}
}

// TestArchived checks that a page without a record is found, and a record with a body that the web does not have.
func TestArchived(t *testing.T) {
	made := must.Get(gen.New(gen.Plain(1, 2)))(t)
	truth := must.Get(made.Reachable(gen.Bounds{Seeds: []gen.Seed{{}}, Robots: true}))(t)
	url := made.URL(0, 0)
	now := start.Add(time.Minute)
	for name, c := range map[string]struct {
		list []record
		lost bool
		want string // in what is wrong; empty: nothing is wrong
	}{
		"archived":       {[]record{{capture: capture{url, "1"}, status: 200}}, false, ""},
		"missing":        {nil, false, "no agent has a record"},
		"lost":           {nil, true, ""},
		"another status": {[]record{{capture: capture{url, "1"}, status: 429}}, false, "no agent has a record"},
		"another body": {[]record{{capture: capture{url, "1"}, status: 200, digest: "sha1:A"}}, false,
			"another content"},
		"revisit": {[]record{{capture: capture{"x", "1"}, status: 200},
			{capture: capture{url, "2"}, status: 200, revisit: true, first: capture{"x", "1"}}}, false, ""},
		"revisit of nothing": {[]record{
			{capture: capture{url, "2"}, status: 200, revisit: true, first: capture{"x", "1"}}}, false, "refers to"},
		"revisit of another body": {[]record{{capture: capture{"x", "1"}, status: 200, digest: "sha1:A"},
			{capture: capture{url, "2"}, status: 200, revisit: true, first: capture{"x", "1"}}}, false, "refers to"},
	} {
		j := newJudge(made, truth, 0, 0, 0)
		j.begin(made.Host(0), 1, "/", now).end(0, testweb.Reply{Status: 200}, now, true)
		if c.lost {
			j.forgets(1, excuse{from: start, to: now})
		}
		all := newArchives()
		for _, r := range c.list {
			if r.digest == "" {
				r.digest = j.content(page{})
			}
			all.add(r)
		}
		wrong := j.archived(all)
		if c.want == "" && len(wrong) > 0 || c.want != "" && (len(wrong) != 1 || !strings.Contains(wrong[0], c.want)) {
			t.Errorf("%s: wrong is %q, want %q", name, wrong, c.want)
		}
	}
}
