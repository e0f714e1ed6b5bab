package robots

import (
	"archive/tar"
	"bufio"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/testneed"
)

const data = "../../../../shared/data/robots"

// shared opens a file of the shared test data. Without the data it fails in CI and skips elsewhere.
func shared(t testing.TB, name string) *os.File {
	f, err := os.Open(filepath.Join(data, name))
	if err != nil {
		testneed.Missing(t, err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

// realFiles returns the robots.txt files of real hosts.
func realFiles(t testing.TB) map[string][]byte {
	z := must.Get(gzip.NewReader(shared(t, "real.tar.gz")))(t)
	files := map[string][]byte{}
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if err == io.EOF {
			return files
		}
		must.Do(t, err)
		b := must.Get(io.ReadAll(r))(t)
		files[strings.TrimPrefix(h.Name, "real/")] = b
	}
}

// target cuts a URL as Google's matcher does: path, parameters and query, unchanged.
func target(url string) string {
	start := 0
	if strings.HasPrefix(url, "//") {
		start = 2
	}
	if i := strings.Index(url[start:], "://"); i >= 0 {
		if p := strings.IndexAny(url[start:], "/?;"); p < 0 || p > i {
			start += i + 3
		}
	}
	p := strings.IndexAny(url[start:], "/?;")
	if p < 0 {
		return "/"
	}
	path, _, _ := strings.Cut(url[start+p:], "#")
	if strings.Contains(url[:start+p], "#") {
		return "/"
	}
	return path
}

var lineEnds = strings.NewReplacer("\r\n", "\n", "\r", "\n")

// Group.Allowed gives every verdict of Google's matcher on the real files. Group.Crawlable may
// differ only where the RFC does.
func TestExpected(t *testing.T) {
	files := realFiles(t)
	z := must.Get(gzip.NewReader(shared(t, "expected.jsonl.gz")))(t)
	type key struct{ file, agent string }
	rules, groups := map[string]*Rules{}, map[key]Group{}
	rows, stricter := 0, map[string]int{}
	for sc := bufio.NewScanner(z); sc.Scan(); rows++ {
		var row struct {
			File, Agent, URL, Kind string
			Allowed                bool
			Quirk                  []string
		}
		must.Do(t, json.Unmarshal(sc.Bytes(), &row))
		k := key{row.File, row.Agent}
		g, ok := groups[k]
		if !ok {
			body, ok := files[row.File]
			if !ok {
				t.Fatalf("the data has no file %s", row.File)
			}
			if rules[row.File] == nil {
				rules[row.File] = Parse(body)
			}
			g = rules[row.File].Group(row.Agent)
			groups[k] = g
		}
		path := target(row.URL)
		got, rule, line := g.Allowed(path)
		if got != row.Allowed {
			t.Errorf("%s %s %s: got %v by %q (line %d), want %v (quirk %v)",
				row.File, row.Agent, row.URL, got, rule, line, row.Allowed, row.Quirk)
		}
		if rule != "" {
			lines := strings.Split(lineEnds.Replace(string(files[row.File])), "\n")
			if line < 1 || line > len(lines) || !strings.Contains(lines[line-1], rule) {
				t.Errorf("%s: line %d is not %q", row.File, line, rule)
			}
		}
		if crawl, rule, _ := g.Crawlable(path); crawl != got {
			switch {
			case path == "/robots.txt" && crawl:
				stricter["robots.txt"]++
			case !crawl && (!normal(path) || !normal(pattern(rule))):
				stricter["percent"]++
			default:
				t.Errorf("%s %s %s: Crawlable gives %v by %q, but Allowed gives %v",
					row.File, row.Agent, row.URL, crawl, rule, got)
			}
		}
	}
	t.Logf("%d rows; Crawlable differs: %v", rows, stricter)
	if rows != 53607 {
		t.Errorf("got %d rows, want 53607", rows)
	}
}

// pattern returns the value of a rule's line, which paths are compared with.
func pattern(rule string) string {
	_, value, _ := strings.Cut(rule, ":")
	return strings.TrimSpace(value)
}

// The conformance files of google/robotstxt-spec-test.
func TestConformance(t *testing.T) {
	shared(t, "README.md")
	var names []string
	for _, dir := range []string{"correctness", "stress"} {
		found := must.Get(filepath.Glob(filepath.Join(data, "spec", dir, "*.textproto")))(t)
		names = append(names, found...)
	}
	if len(names) != 41 {
		t.Fatalf("got %d files, want 41", len(names))
	}
	cases := 0
	for _, name := range names {
		src, err := os.ReadFile(name)
		must.Do(t, err)
		spec, err := readSpec(string(src))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for _, c := range spec {
			cases++
			g := Parse([]byte(c.robots)).Group(c.agent)
			if got, rule, line := g.Allowed(target(c.url)); got != c.allowed {
				t.Errorf("%s: %q for %q: got %v by %q (line %d), want %v; robots.txt %q",
					filepath.Base(name), c.url, c.agent, got, rule, line, c.allowed, c.robots)
			}
		}
	}
	if cases != 400 {
		t.Errorf("got %d cases, want 400", cases)
	}
}

type specCase struct {
	robots, url, agent string
	allowed            bool
}

// readSpec reads the part of text-format protobuf that the conformance files use: scalar fields,
// lists and messages. Adjacent strings are joined.
func readSpec(src string) ([]specCase, error) {
	var toks []string
	for i := 0; i < len(src); {
		switch c := src[i]; {
		case strings.IndexByte(" \t\r\n,;", c) >= 0:
			i++
		case c == '#':
			for i < len(src) && src[i] != '\n' {
				i++
			}
		case c == '"' || c == '\'':
			j := i + 1
			for ; j < len(src) && src[j] != c; j++ {
				if src[j] == '\\' {
					j++
				}
			}
			if j >= len(src) {
				return nil, fmt.Errorf("the string at byte %d does not end", i)
			}
			s, err := unquote(src[i+1 : j])
			if err != nil {
				return nil, err
			}
			toks = append(toks, `"`+s)
			i = j + 1
		case strings.IndexByte("[]{}:", c) >= 0:
			toks = append(toks, src[i:i+1])
			i++
		default:
			j := i
			for j < len(src) && strings.IndexByte(" \t\r\n,;:[]{}\"'#", src[j]) < 0 {
				j++
			}
			toks = append(toks, src[i:j])
			i = j
		}
	}
	var out []specCase
	var cur specCase
	fields := map[string]bool{}
	for i := 0; i < len(toks); i++ {
		field := toks[i]
		if field == "}" && fields["testurl"] {
			if !fields["useragent"] || !fields["expected_outcome"] {
				return nil, fmt.Errorf("the case for %q is incomplete", cur.url)
			}
			out = append(out, cur)
			clear(fields)
		}
		if i+2 >= len(toks) || toks[i+1] != ":" || toks[i+2] == "[" || toks[i+2] == "{" {
			continue
		}
		value := ""
		for i += 2; i < len(toks) && toks[i][0] == '"'; i++ {
			value += toks[i][1:]
		}
		if value == "" && toks[i-1][0] != '"' {
			value = toks[i]
		} else {
			i--
		}
		fields[field] = true
		switch field {
		case "robotstxt":
			cur.robots = value
		case "testurl":
			cur.url = value
		case "useragent":
			cur.agent = value
		case "expected_outcome":
			if value != "ALLOWED" && value != "DISALLOWED" {
				return nil, fmt.Errorf("unknown outcome %q", value)
			}
			cur.allowed = value == "ALLOWED"
		}
	}
	return out, nil
}

func unquote(s string) (string, error) {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' {
			b.WriteByte(s[i])
			continue
		}
		i++
		if i == len(s) {
			return "", fmt.Errorf("%q ends in a backslash", s)
		}
		if p := strings.IndexByte("nrtvfab", s[i]); p >= 0 {
			b.WriteByte("\n\r\t\v\f\a\b"[p])
			continue
		}
		base, digits := 8, s[i:min(len(s), i+3)]
		switch {
		case s[i] == 'x':
			base, digits = 16, s[i+1:min(len(s), i+3)]
			i++
		case s[i] < '0' || s[i] > '7':
			b.WriteByte(s[i])
			continue
		}
		n, v := 0, 0
		for ; n < len(digits) && strings.IndexByte("01234567"+"89abcdefABCDEF"[:map[int]int{8: 0, 16: 14}[base]],
			digits[n]) >= 0; n++ {
			v = v*base + int(unhex(digits[n]))
		}
		if n == 0 {
			return "", fmt.Errorf("unknown escape in %q", s)
		}
		b.WriteByte(byte(v))
		i += n - 1
	}
	return b.String(), nil
}
