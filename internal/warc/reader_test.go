package warc

import (
	"bytes"
	"compress/flate"
	"compress/zlib"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/klauspost/compress/zstd"

	"github.com/orbweaver/orbweaver/internal/testkit/must"
)

const plainRecord = "WARC/1.0\r\nWARC-Type: resource\r\nWARC-Record-ID: <urn:x:1>\r\n" +
	"WARC-Date: 2020-01-02T03:04:05Z\r\n" +
	"WARC-Target-URI: <http://a.example/>\r\nContent-Type: text/plain\r\nContent-Length: 5\r\n\r\nhello\r\n\r\n"

func TestReaderForms(t *testing.T) {
	lf := strings.ReplaceAll(plainRecord, "\r\n", "\n")
	gz := gzipped(plainRecord)
	size := strings.NewReplacer(
		"{plain}", fmt.Sprint(len(plainRecord)-4), "{next}", fmt.Sprint(len(plainRecord)),
		"{lf}", fmt.Sprint(len(lf)-2), "{nextlf}", fmt.Sprint(len(lf)),
		"{gz}", fmt.Sprint(len(gz)), "{gzlow}", fmt.Sprint(len(gzipped("warc/1.0"+plainRecord[8:]))), "{none}",
		fmt.Sprint(len(gzipped(""))))
	for _, c := range []struct {
		name, file string
		want       string // offset+length/gzip/shared of each record, then the error
	}{
		{"empty", "", "EOF"},
		{"one", plainRecord, "0+{plain}/false/false EOF"},
		{"lower case", "warc/1.0" + plainRecord[8:], "0+{plain}/false/false EOF"},
		{"lower case in gzip", gzipped("warc/1.0" + plainRecord[8:]), "0+{gzlow}/true/false EOF"},
		{"two", plainRecord + plainRecord, "0+{plain}/false/false {next}+{plain}/false/false EOF"},
		{"line feeds", lf + lf, "0+{lf}/false/false {nextlf}+{lf}/false/false EOF"},
		{"blank lines in front", "\r\n\r\n" + plainRecord, "4+{plain}/false/false EOF"},
		{"no end", plainRecord[:len(plainRecord)-4], "0+{plain}/false/false EOF"},
		{"gzip", gzipped(plainRecord), "0+{gz}/true/false EOF"},
		{"gzip twice", gzipped(plainRecord) + gzipped(plainRecord), "0+{gz}/true/false {gz}+{gz}/true/false EOF"},
		{"plain then gzip", plainRecord + gzipped(plainRecord), "0+{plain}/false/false {next}+{gz}/true/false EOF"},
		{"gzip then plain", gzipped(plainRecord) + plainRecord, "0+{gz}/true/false {gz}+{plain}/false/false EOF"},
		{"shared member", gzipped(plainRecord + plainRecord), "0+0/true/true 0+0/true/true EOF"},
		{"empty members", gzipped("") + gzipped(plainRecord) + gzipped(""), "{none}+{gz}/true/false EOF"},
		{"other text", "hello world\n", `offset 0: no WARC record: "hello world"`},
		{"cut in content", plainRecord[:len(plainRecord)-7],
			"offset 0: the content ends 3 bytes before its Content-Length of 5"},
		{"cut in header", plainRecord[:50], "offset 0: the file ends in the middle of a header"},
		{"cut in second", plainRecord + plainRecord[:9],
			"0+{plain}/false/false offset {next}: the file ends in the middle of a header"},
		{"cut in member", gzipped(plainRecord)[:100], "offset 0: gzip member: unexpected EOF"},
		{"cut in gzip header", gzipped(plainRecord) + "\x1f\x8b\x08",
			"0+{gz}/true/false offset {gz}: gzip member: unexpected EOF"},
		{"no length", "WARC/1.0\r\nWARC-Type: x\r\n\r\n", `offset 0: Content-Length "" is not a length`},
		{"negative length", "WARC/1.0\r\nContent-Length: -1\r\n\r\n", `offset 0: Content-Length "-1" is not a length`},
		{"huge length", "WARC/1.0\r\nContent-Length: 99999999999999999999\r\n\r\n",
			`offset 0: Content-Length "99999999999999999999" is not a length`},
		{"no colon", "WARC/1.0\r\nnonsense\r\n\r\n", `offset 0: a header line has no colon: "nonsense"`},
		{"long header", "WARC/1.0\r\nA: " + strings.Repeat("x", maxHeader),
			fmt.Sprintf("offset 0: the header has more than %d bytes", maxHeader)},
		{"many fields", "WARC/1.0\r\n" + strings.Repeat("a:\r\n", maxFields+1),
			fmt.Sprintf("offset 0: the header has more than %d fields", maxFields)},
	} {
		for name, in := range map[string]io.Reader{"whole": strings.NewReader(c.file),
			"bytewise": iotest.OneByteReader(strings.NewReader(c.file))} {
			want := size.Replace(c.want)
			if got := describe(NewReader(in)); got != want {
				t.Errorf("%s, %s: got %s, want %s", c.name, name, got, want)
			}
		}
	}
}

func describe(r *Reader) string {
	var parts []string
	for {
		rec, err := r.Next()
		if err == nil {
			err = r.Finish()
		}
		if err != nil {
			if err != io.EOF && !errors.Is(err, ErrDamaged) {
				parts = append(parts, "undamaged")
			}
			return strings.Join(append(parts, err.Error()), " ")
		}
		parts = append(parts, fmt.Sprintf("%d+%d/%v/%v", rec.Offset, rec.Length, rec.Gzip, rec.Shared))
	}
}

func TestRecordFields(t *testing.T) {
	r := NewReader(strings.NewReader("WARC/1.1 \r\nwarc-type:Response\r\nX-Long: a\r\n  b\r\n\tc\r\n" +
		"WARC-Target-URI: <http://a/>\r\nCONTENT-LENGTH: 3\r\n\r\nabc\r\n\r\n"))
	rec, err := r.Next()
	must.Do(t, err)
	got := []string{rec.Version, rec.Type(), rec.Header.Value("x-long"), rec.URL(), rec.Header[0].Name,
		fmt.Sprint(rec.Size)}
	want := []string{"WARC/1.1", "response", "a b c", "http://a/", "warc-type", "3"}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if b, err := io.ReadAll(rec); err != nil || string(b) != "abc" {
		t.Errorf("content: got %q, %v, want \"abc\"", b, err)
	}
	if _, err := r.Next(); err != io.EOF {
		t.Errorf("after the last record: %v, want EOF", err)
	}
}

// TestFoldedFields: a value may continue, or begin, on lines that start with a blank. Reading takes time linear in the
// number of such lines.
func TestFoldedFields(t *testing.T) {
	many := strings.Repeat("\r\n x", maxHeader/8)
	r := NewReader(strings.NewReader("WARC/1.0\r\nContent-Length:\r\n 3\r\nWARC-Target-URI:\r\n\t\r\n  http://a/\r\n" +
		"X:  \r\n \r\nY: a" + many +
		"\r\nZ: z\r\n\r\nabc\r\n\r\n"))
	rec, err := r.Next()
	must.Do(t, err)
	got := []string{fmt.Sprint(rec.Size), rec.URL(), rec.Header.Value("X"), rec.Header.Value("Z")}
	if want := []string{"3", "http://a/", "", "z"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if got, want := rec.Header.Value("Y"), "a"+strings.Repeat(" x", maxHeader/8); got != want {
		t.Errorf("%d bytes, want %d", len(got), len(want))
	}
	if err := r.Finish(); err != nil {
		t.Error(err)
	}
}

// TestSkipToLowerCase checks that Skip finds a record whose magic is in lower case.
func TestSkipToLowerCase(t *testing.T) {
	low := "warc/1.0" + plainRecord[8:]
	for _, file := range []string{"rubbish\n" + low, "rubbish\n" + gzipped(low)} {
		r := NewReader(strings.NewReader(file))
		if _, err := r.Next(); !errors.Is(err, ErrDamaged) {
			t.Fatalf("rubbish: got %v, want ErrDamaged", err)
		}
		must.Get(r.Skip())(t)
		if rec, err := r.Next(); err != nil || rec.Offset != 8 {
			t.Errorf("behind rubbish: got %+v, %v, want the record at offset 8", rec, err)
		}
	}
}

// TestVerifySegments checks the warnings about segment fields and repeated IDs.
func TestVerifySegments(t *testing.T) {
	record := func(kind, id, more string) string {
		return "WARC/1.1\r\nWARC-Type: " + kind + "\r\nWARC-Record-ID: <urn:x:" + id +
			">\r\nWARC-Date: 2020-01-02T03:04:05Z\r\n" +
			"WARC-Target-URI: http://a.example/\r\nContent-Length: 0\r\n" + more + "\r\n\r\n\r\n"
	}
	const origin = "WARC-Segment-Origin-ID: <urn:x:1>\r\n"
	for _, c := range []struct{ name, file, want string }{
		{"whole", record("response", "1", "WARC-Segment-Number: 1\r\n") +
			record("continuation", "2", "WARC-Segment-Number: 2\r\n"+origin), ""},
		{"second without origin", record("response", "1", "WARC-Segment-Number: 2\r\n"),
			"warning: response with WARC-Segment-Number 2, which is a continuation's"},
		{"continuation 1", record("continuation", "1", "WARC-Segment-Number: 1\r\n"+origin),
			"warning: continuation with WARC-Segment-Number 1, which is the first record's"},
		{"continuation without number", record("continuation", "1", origin),
			"warning: continuation without WARC-Segment-Number"},
		{"continuation without origin", record("continuation", "1", "WARC-Segment-Number: 2\r\n"),
			"error: continuation without WARC-Segment-Origin-ID"},
		{"origin at the first", record("response", "1", "WARC-Segment-Number: 1\r\n"+origin),
			"warning: response with a WARC-Segment-Origin-ID, which only a continuation has"},
		{"no number", record("response", "1", "WARC-Segment-Number: one\r\n"),
			`warning: WARC-Segment-Number "one" is not a number from 1`},
		{"zero", record("response", "1", "WARC-Segment-Number: 0\r\n"),
			`warning: WARC-Segment-Number "0" is not a number from 1`},
		{"repeated ID", record("resource", "1", "") + record("resource", "2", "") + record("resource", "1", ""),
			"warning: another record has the same WARC-Record-ID"},
	} {
		rep, err := new(Verifier).Verify(strings.NewReader(c.file))
		must.Do(t, err)
		var got []string
		for _, p := range rep.Problems {
			_, text, _ := strings.Cut(p.String(), ": ")
			text, _, _ = strings.Cut(text, " <urn")
			got = append(got, text)
		}
		if strings.Join(got, "; ") != c.want {
			t.Errorf("%s: got %q, want %q", c.name, got, c.want)
		}
	}
	var v Verifier
	for i, want := range []int64{0, 1} {
		if rep, err := v.Verify(strings.NewReader(plainRecord)); err != nil || rep.Warnings != want {
			t.Errorf("file %d: %d warnings (%v), want %d", i, rep.Warnings, err, want)
		}
	}
}

// TestReadErrorIsNoDamage: a read error of the disk says nothing about the file. If it counted as damage, recovery
// would truncate the file.
func TestReadErrorIsNoDamage(t *testing.T) {
	broken := errors.New("input/output error")
	for _, file := range []string{plainRecord, gzipped(plainRecord)} {
		for n := range len(file) {
			in := io.MultiReader(strings.NewReader(file[:n]), iotest.ErrReader(broken))
			r := NewReader(in)
			_, err := r.Next()
			if err == nil {
				err = r.Finish()
			}
			if err == nil {
				_, err = r.Next()
			}
			if !errors.Is(err, broken) || errors.Is(err, ErrDamaged) {
				t.Errorf("read error after %d bytes: got %v, want the read error, not ErrDamaged", n, err)
			}
			_, err = new(Verifier).Verify(io.MultiReader(strings.NewReader(file[:n]), iotest.ErrReader(broken)))
			if !errors.Is(err, broken) {
				t.Errorf("verify after %d bytes: got %v, want the read error", n, err)
			}
		}
	}
}

func TestPayload(t *testing.T) {
	deflated := func(raw bool) string {
		var b bytes.Buffer
		var w io.WriteCloser = zlib.NewWriter(&b)
		if raw {
			w, _ = flate.NewWriter(&b, 5)
		}
		io.WriteString(w, lorem)
		w.Close()
		return b.String()
	}
	z, _ := zstd.NewWriter(nil)
	zstded := string(z.EncodeAll([]byte(lorem), nil))
	for _, c := range []struct{ head, body, want string }{
		{"X: y", lorem, lorem},
		{"Content-Encoding: gzip", gzipped(lorem), lorem},
		{"Content-Encoding: X-GZIP", gzipped(lorem), lorem},
		{"content-encoding: br", brotlied(lorem), lorem},
		{"Content-Encoding: zstd", zstded, lorem},
		{"Content-Encoding: deflate", deflated(false), lorem},
		{"Content-Encoding: deflate", deflated(true), lorem},
		{"Content-Encoding: gzip, br", brotlied(gzipped(lorem)), lorem},
		{"Content-Encoding: gzip", "not gzip", "not gzip"},
		{"Content-Encoding: foo", "as it is", "as it is"},
		{"Transfer-Encoding: chunked\nContent-Encoding: gzip", chunked(gzipped(lorem), 99), lorem},
		{"Transfer-Encoding: chunked", "not chunked", "not chunked"},
		{"Content-Encoding: gzip", gzipped(lorem)[:60], "error"},
		{"Content-Encoding: a,b,c,d,e,f", "", "error"},
	} {
		dir := t.TempDir()
		ws := writeAll(t, testConfig(dir), []*Exchange{page("http://a.example/", "HTTP/1.1 200 OK\n"+c.head, c.body)})
		f, err := OpenWARC(nil, dir, ws[0].File)
		must.Do(t, err)
		defer f.Close()
		rec, err := Find(f, "http://A.example")
		if err != nil || rec == nil {
			t.Fatal(rec, err)
		}
		body, err := rec.Payload(t.Context())
		var got []byte
		if err == nil {
			got, err = io.ReadAll(body)
		}
		if (err != nil) != (c.want == "error") || err == nil && string(got) != c.want {
			t.Errorf("%s: got %.30q %v, want %.30q", c.head, got, err, c.want)
		}
	}
}

func TestHeadEnd(t *testing.T) {
	for _, c := range []struct {
		in  string
		end int
		ok  bool
	}{
		{"HTTP/1.1 200 OK\r\n\r\nbody", 19, true},
		{"HTTP/1.1 200 OK\n\nbody", 17, true},
		{"HTTP/1.1 200 OK\nA: b\r\n\r\nbody", 24, true},
		{"HTTP/1.1 200 OK\r\nA: b\r\n", 0, false},
		{"HTTP/1.1 200 OK\r\nA: b", 0, false},
		{"\r\n", 0, false},
		{"", 0, false},
		{"HTTP/1.1 200 OK\r\n \r\n\r\n", 0, false},
		{"HTTP/1.1 200 OK\r\n\xa0\r\n\r\n", 0, false},
	} {
		if end, ok := headEnd([]byte(c.in)); ok != c.ok || ok && end != c.end {
			t.Errorf("%q: got %d %v, want %d %v", c.in, end, ok, c.end, c.ok)
		}
	}
}

func TestStatus(t *testing.T) {
	for in, want := range map[string]string{
		"HTTP/1.1 200 OK\r\n": "200", "HTTP/1.1 200\r\n": "200", "HTTP/1.1  404  Not Found\n": "404",
		"HTTP/1.1\r\n": "", "": "",
		"ICY 200 OK": "200", "HTTP/1.0 204 No Content": "204", "HTTP/1.0 204 Error": "", "HTTP/1.1 abc": "abc",
	} {
		if got := statusOf([]byte(in)); got != want {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
	}
}

// Of several Content-Type values the last one that is a media type counts. A single one is not changed.
func TestMIME(t *testing.T) {
	for fields, want := range map[string]string{
		"Content-Type: Text/HTML; x=y":                        "Text/HTML",
		"Content-Type: html":                                  "html",
		"Content-Type: text/plain\r\nContent-Type: text/html": "text/html",
		"Content-Type: text/plain, text/html;x=y":             "text/html",
		"Content-Type: text/html\r\nContent-Type: bad":        "text/html",
		"Content-Type: bad\r\nContent-Type: worse":            "bad",
		"X: y": "unk",
	} {
		if got := parseHead([]byte("HTTP/1.1 200 OK\r\n" + fields + "\r\n\r\n")).MIME(); got != want {
			t.Errorf("%q: got %q, want %q", fields, got, want)
		}
	}
	h := []byte("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n")
	if n := testing.AllocsPerRun(100, func() { parseHead(h) }); n != 0 {
		t.Errorf("parseHead allocates %v times, want 0", n)
	}
}
