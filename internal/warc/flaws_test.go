package warc

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/testdisk"
	"github.com/orbweaver/orbweaver/internal/testkit/testseed"
	"github.com/orbweaver/orbweaver/internal/testkit/testtier"
)

// foreign returns a record as other programs write it. Content-Length is wrong by off bytes.
func foreign(kind, url, date, more, content string, off int) string {
	return fmt.Sprintf("WARC/1.1\r\nWARC-Type: %s\r\nWARC-Record-ID: <urn:uuid:00000000-0000-4000-8000-%012d>\r\n"+
		"WARC-Date: %s\r\nWARC-Target-URI: %s\r\nContent-Type: application/http; msgtype=response\r\n%s"+
		"Content-Length: %d\r\n\r\n%s\r\n\r\n", kind, len(url), date, url, more, len(content)+off, content)
}

// hello returns a response record for the URL http://h.example/name.
func hello(name string, off int) string {
	return foreign("response", "http://h.example/"+name, "2020-01-02T03:04:05Z", "",
		"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n<p>hello</p>", off)
}

// Damage and records without a place of their own cost no other record: the index, the list, a search and the index of
// a crawl directory have the rest, and the error names the places.
func TestFlaws(t *testing.T) {
	plainA, plainC := hello("a", 0), hello("c", 0)
	a, b, c := gzipped(hello("a", 0)), gzipped(hello("b", 0)), gzipped(hello("c", 0))
	at := func(n int, text string) string { return fmt.Sprintf("offset %d: %s", n, text) }
	const together = "not in the index: 2 records in a gzip member with others"
	for name, f := range map[string]struct{ file, index, list, flaw string }{
		"whole":           {a + b + c, "abc", "abc", ""},
		"empty":           {"", "", "", ""},
		"cut at the end":  {(a + b + c)[:len(a+b+c)-20], "ab", "ab", at(len(a+b), "gzip member: unexpected EOF")},
		"cut in the head": {a + b[:5], "a", "a", at(len(a), "gzip member: unexpected EOF")},
		"one too long":    {a + gzipped(hello("b", 9)) + c, "ac", "ac", at(len(a), "the content ends 5 bytes before")},
		"one too short":   {a + gzipped(hello("b", -1)) + c, "ac", "abc", at(len(a), `no WARC record: ">"`)},
		"zeros between":   {a + strings.Repeat("\x00", 512) + c, "ac", "ac", at(len(a), `no WARC record: "\x00`)},
		"zeros first":     {strings.Repeat("\x00", 70_000) + c, "c", "c", at(0, `no WARC record: "\x00`)},
		"bits":            {a + b[:80] + "????" + b[84:] + c, "ac", "ac", at(len(a), "")},
		"plain": {hello("a", 0) + "junk\r\n" + hello("c", 0), "ac", "ac",
			at(len(hello("a", 0)), "no WARC record")},
		"cut inside": {a + b[:len(b)/2] + c, "ac", "ac", at(len(a), "gzip member: ")},
		"stored blocks": {a + b[:10] + "\x00\xff\xff\x00\x00" + b[15:] + c + c, "acc", "acc",
			at(len(a), `no WARC record: `)},
		"plain length of more":  {plainA + hello("b", 70) + plainC, "abc", "abc", "no WARC record"},
		"plain length past end": {plainA + hello("b", 1<<50) + plainC, "ac", "ac", at(len(plainA), "the content ends")},
		"plain cut in the head": {plainA + hello("b", 0)[:120] + plainC, "ac", "ac",
			at(len(plainA), "the header has the fields of two records")},
		"plain zeros": {plainA + "\x00\x00" + plainC, "ac", "ac", at(len(plainA), `no WARC record: "\x00\x00WARC`)},
		"one member":  {gzipped(hello("a", 0) + hello("b", 0)), "", "ab", at(0, together)},
		"ARC": {gzipped("filedesc://x.arc 0.0.0.0 20200102030405 text/plain 9\n"), "", "",
			"ARC is not supported"},
		"zstd":            {"\x28\xb5\x2f\xfd\x04\x58\x41\x42", "", "", ".warc.zst is not supported"},
		"zstd dictionary": {"\x5d\x2a\x4d\x18\x04\x00\x00\x00", "", "", ".warc.zst is not supported"},
		"no date": {a + gzipped(foreign("response", "http://h.example/b", "soon", "", "", 0)), "a", "ab",
			at(len(a), `not in the index: 1 record with the WARC-Date "soon", which is not a date`)},
		"no URL": {gzipped(foreign("response", "", "2020-01-02T03:04:05Z", "", "", 0)), "", "?",
			"1 record without WARC-Target-URI"},
	} {
		t.Run(name, func(t *testing.T) {
			var got, keys string
			last := func(url string) string {
				return string(("?" + url)[len(url)])
			}
			check := func(what, got, want string, err error) {
				t.Helper()
				if flaws, ok := errors.AsType[*Flaws](err); got != want || (err != nil) != ok ||
					what != "List" && ok != (f.flaw != "") {
					t.Errorf("%s: got %q, %v, want %q", what, got, err, want)
				} else if ok && what != "List" && !strings.Contains(flaws.Error(), f.flaw) {
					t.Errorf("%s: got the error %v, want %q", what, err, f.flaw)
				}
			}
			err := Index(strings.NewReader(f.file), "f.warc.gz", func(line []byte) error {
				l, err := ParseLine(line)
				if rec, bad := At(strings.NewReader(f.file), l.Offset); bad != nil || rec.URL() != l.URL {
					t.Errorf("no record of %s at %d: %v", l.URL, l.Offset, bad)
				}
				got += last(l.URL)
				return err
			})
			check("Index", got, f.index, err)
			got = ""
			err = List(strings.NewReader(f.file), func(r Row) error { got += last(r.URL); return nil })
			check("List", got, f.list, err)
			for _, name := range f.index {
				rec, err := Find(strings.NewReader(f.file), "http://h.example/"+string(name))
				if rec == nil || err != nil && !errors.Is(err, ErrDamaged) {
					t.Errorf("Find %c: %v, %v", name, rec, err)
				}
			}
			mem := testdisk.NewMem()
			must.Do(t, mem.MkdirAll("/c/archive", 0o755))
			must.Do(t, mem.MkdirAll("/t", 0o755))
			must.Do(t, disk.WriteFile(mem, "/c/archive/f.warc.gz", []byte(f.file)))
			for range 2 { // the second time, the runs are there
				keys = ""
				err = BuildIndex(mem, "/c")
				for l, err := range Lines(mem, Place{Dir: "/c"}, "") {
					must.Do(t, err)
					keys += last(l.URL)
				}
				check("BuildIndex", keys, f.index, err)
			}
			var out bytes.Buffer
			err = SortedIndex(mem, []string{"/c/archive/f.warc.gz"}, "/t", &out)
			if strings.Count(out.String(), "\n") != len(f.index) {
				t.Errorf("SortedIndex: got %s, want %s", &out, f.index)
			}
			check("SortedIndex", "", "", err)
		})
	}
}

// A file with damage at random has an index line for each record that is as it was.
func TestDamageAtRandom(t *testing.T) {
	rng := testseed.Rand(t)
	for range testtier.Rounds(200, 5000) {
		zip := func(s string) string { return s }
		if rng.IntN(2) == 0 {
			zip = gzipped
		}
		var file, want, done string
		for _, name := range "abcdefgh" {
			off, rec := 0, ""
			broken := rng.IntN(4) == 0
			if broken && rng.IntN(3) == 0 {
				off = []int{-30, -1, 1, 5, 60, 1 << 40}[rng.IntN(6)]
			}
			if rec = zip(hello(string(name), off)); broken && off == 0 {
				b, i := []byte(rec), rng.IntN(len(rec))
				kind := rng.IntN(5)
				switch kind {
				case 0:
					b[i] ^= byte(1 + rng.IntN(255))
				case 1:
					b = b[:i]
				case 2:
					b = b[i+1:]
				case 3:
					clear(b[i:])
				case 4:
					for range rng.IntN(900) {
						b = append(b, byte(rng.IntN(256)))
					}
				}
				rec, done = string(b), done+fmt.Sprintf("%c %d at %d, ", name, kind, i)
			} else if !broken {
				want += string(name)
			}
			file += rec
		}
		got := map[string]bool{}
		err := Index(strings.NewReader(file), "f", func(line []byte) error {
			l, err := ParseLine(line)
			got[l.URL] = true
			return err
		})
		for _, name := range want {
			if !got["http://h.example/"+string(name)] || err != nil && !errors.Is(err, ErrDamaged) {
				t.Fatalf("%s: got %v, %v, without %c:\n%q", done, got, err, name, file)
			}
		}
	}
}

// A file of damaged members that contain each other is read some times, and not once for each.
func TestNestedDamage(t *testing.T) {
	member := gzipped(hello("a", 0))
	stored := member[:10] + "\x00\xff\xff\x00\x00" + magic // a stored block of 64 KiB
	file := strings.Repeat(stored, 10_000)
	for _, rec := range []string{file, strings.Repeat("WARC/1.0\r\nContent-Length: 1000000\r\n\r\n", 10_000)} {
		n := counter{r: strings.NewReader(rec)}
		err := Index(struct {
			io.Reader
			io.Seeker
		}{&n, n.r.(io.Seeker)}, "f", func([]byte) error { return nil })
		if most := int64(len(rec)) * (maxRewind + 2); !errors.Is(err, ErrDamaged) || n.n > most {
			t.Errorf("read %d bytes, want at most %d: %.100v", n.n, most, err)
		}
	}
}

// The expected values are those of pywb's cdx-indexer.
func TestForeignDates(t *testing.T) {
	for date, want := range map[string]string{
		"2012-02-10T16:15:52Z": "20120210161552", "2012-02-10T16:15:52+0000": "20120210161552",
		"2012-02-10t16:15:52z": "20120210161552", "2012-02-10 16:15:52": "20120210161552",
		"2012-02-10T16:15:52.5Z": "20120210161552", "2012-02-10T16:15Z": "20120210161500",
		"2012-02-10": "20120210000000", "2012/02/10 16:15:52": "20120210161552", "2012-2-1T6:5:2Z": "20120201060502",
		"2012-02-10_16:15:52":  "20120210161552",
		"2012-02-30T00:00:00Z": "", "Fri, 10 Feb 2012 16:15:52 GMT": "", "": "",
		// pywb fails.
		"20120210161552": "20120210161552", "2012": "20120101000000", "2012-02-10T16:15:52+02:00": "20120210141552",
	} {
		if got := digits14(date); got != want {
			t.Errorf("%s: got %q, want %q", date, got, want)
		}
	}
}

// The expected values are those of pywb's cdx-indexer (surt 0.3.1).
func TestKeysOfOtherSchemes(t *testing.T) {
	for url, want := range map[string]string{
		"https://h.example/p":                  "example,h)/p",
		"HTTPS://H.example/X":                  "example,h)/x",
		"urn:pageinfo:https://h.example/p":     "urn:pageinfo:https://h.example/p",
		"urn:view:https://h.example/":          "urn:view:https://h.example",
		"screenshot:http://h.example/p":        "screenshot:http://h.example/p",
		"thumbnail:http://h.example/p":         "thumbnail:http://h.example/p",
		"youtube-dl:00001:https://h.example/v": "youtube-dl:00001:https://h.example/v",
		"blob:https://h.example/1234":          "blob:https://h.example/1234",
		"data:text/plain,x://y":                "data:text/plain,x://y",
		`javascript:alert("http://x")`:         `javascript:alert("http://x")`,
		"file:///C:/Users/x/a.html":            "file:/c:/users/x/a.html",
		"file://host/share/a":                  "host)/share/a",
		"ftp://a.example/x":                    "example,a)/x",
		"whois://h.example/q":                  "example,h)/q",
		"metadata://gnu.org/x":                 "org,gnu)/x",
		"xyz+1.0://h.example/a":                "example,h)/a",
		"filedesc://IA-001102.arc":             "filedesc://ia-001102.arc",
		"dns:h.example":                        "dns:h.example",
	} {
		if got := surt(url); got != want {
			t.Errorf("%s: got %q, want %q", url, got, want)
		}
	}
}

// URL and date name the original of a revisit, unless the digests are known to differ.
func TestOriginalByDate(t *testing.T) {
	const (
		sum32 = "sha1:E6HYJXPV3MYKX6JRVEGLTRZC7EBMNBZX" // of "the original"
		hex   = "sha256:f5e0d2e3c5ad6bfd1c2d6e2b8a3f4c5d6e7f8091a2b3c4d5e6f708192a3b4c5d"
		other = "sha1:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
	)
	bytes32 := decodeDigest(hex[len("sha256:"):], 32)
	label := "sha-256:" + strings.ToUpper(hex[len("sha256:"):])
	base := "sha256:" + base64.RawURLEncoding.EncodeToString(bytes32)
	for _, c := range []struct {
		original, revisit string
		dated, want       bool
	}{
		{"", hex, true, true}, {"", hex, false, false},
		{hex, label, true, true}, {hex, label, false, true}, {hex, base, false, true}, {label, base, true, true},
		{hex, sum32, true, true}, {hex, sum32, false, false}, {hex, "xyz:1", true, true},
		{sum32, sum32, false, true}, {sum32, other, true, false}, {sum32, other, false, false},
		{sum32, "", true, true}, {sum32, "", false, true},
	} {
		digest := func(s string) string {
			if s == "" {
				return ""
			}
			return "WARC-Payload-Digest: " + s + "\r\n"
		}
		more := "WARC-Refers-To-Target-URI: http://h.example/o\r\n" + digest(c.revisit)
		if c.dated {
			more += "WARC-Refers-To-Date: 2019-01-01T00:00:00Z\r\n"
		}
		text := foreign("response", "http://h.example/o", "2019-01-01T00:00:00Z", digest(c.original),
			"HTTP/1.1 200 OK\r\n\r\nthe original", 0)
		at := len(text)
		text += foreign("revisit", "http://h.example/r", "2020-01-01T00:00:00Z", more, "HTTP/1.1 200 OK\r\n\r\n", 0)
		r := strings.NewReader(text)
		rec, err := At(r, int64(at))
		must.Do(t, err)
		original, err := FindOriginal(r, rec.Reference())
		if (err == nil) != c.want || err != nil && !errors.Is(err, ErrNoOriginal) {
			t.Errorf("%+v: %v", c, err)
		}
		if err != nil {
			continue
		}
		body, err := original.Payload(t.Context())
		must.Do(t, err)
		if b, err := io.ReadAll(body); string(b) != "the original" || err != nil {
			t.Errorf("%+v: got %q, %v", c, b, err)
		}
	}
}
