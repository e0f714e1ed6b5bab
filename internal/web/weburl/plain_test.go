package weburl

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/testneed"
	"github.com/orbweaver/orbweaver/internal/testkit/testseed"
	"github.com/orbweaver/orbweaver/internal/testkit/testtier"
)

type fataler interface {
	Fatalf(format string, args ...any)
}

// checkPlain checks that plain gives the same URL as the whole parser, after any content of the
// buffer, and that a Resolver agrees with Resolve in URL and error. It returns whether plain
// accepted input.
func checkPlain(t fataler, input string, base URL) bool {
	a := assembler{canonical: true}
	var err error
	if base.s == "" {
		err = a.resolve(input, nil)
	} else {
		l := base.layout()
		err = a.resolve(input, &l)
	}
	out, p, ok := base.plain([]byte("x"), input, &plainClass)
	switch {
	case !ok && string(out) != "x":
		t.Fatalf("%q against %s: refused, but changed the buffer to %q", input, base, out)
	case ok && err != nil:
		t.Fatalf("%q against %s: got %q, the whole parser fails with %v", input, base, out, err)
	case ok && (string(out) != "x"+string(a.out) || p != a.parts()):
		t.Fatalf("%q against %s: got %q %v, the whole parser gives %q %v", input, base, out, p, a.out, a.parts())
	}
	if raw, q, rawOK := base.plain([]byte("x"), input, &rawClass); rawOK {
		before, _, _ := strings.Cut(input, "#")
		if !ok || string(raw) != string(out) || q != p || strings.Contains(before, "&") {
			t.Fatalf("%q against %s: raw: got %q %v, want %q %v %v", input, base, raw, q, out, p, ok)
		}
	}
	want, wantErr := base.Resolve(input)
	var r Resolver
	r.SetBase(base)
	got, p, err := r.Append([]byte("x"), []byte(input))
	if err != wantErr {
		t.Fatalf("%q against %s: got error %v from a Resolver, want %v", input, base, err, wantErr)
	}
	if err != nil {
		if string(got) != "x" {
			t.Fatalf("%q against %s: after an error the Resolver has %q", input, base, got)
		}
		return ok
	}
	text := string(got[1:])
	if p, ok := plainParts(text); ok && p.URL(text) != want {
		t.Fatalf("%q: got the parts %v, want %+v", text, p, want)
	}
	if p.URL(text) != want || text != want.s {
		t.Fatalf("%q against %s: got %q %v, want %q", input, base, text, p, want)
	}
	return ok
}

func TestPlainOnVectors(t *testing.T) {
	n, took := 0, 0
	for _, c := range wptCases[wptCase](t, "urltestdata.json") {
		base := URL{}
		if c.Base != nil {
			base, _ = Parse(*c.Base)
		}
		n++
		if checkPlain(t, c.Input, base) {
			took++
		}
	}
	t.Logf("%d of %d inputs are plain", took, n)
	if took < 50 {
		t.Errorf("%d of %d inputs are plain, want more", took, n)
	}
}

// Pieces that plain handles, so that it accepts many of their sequences.
var plainPieces = []string{
	"http://", "https://", "http:", "//", "/", "/", "?", "#", "a.example", "h", "www.b.co.uk", "1.2.3.4", "x.0x7f",
	"A.example",
	".", "..", "./", "../", "../", "...", ".a", "a", "b.html", "c", "~d", "%2F", "%2f", "%41", "%", "%E4%BC", "'", "{",
	"^", ":", "a:b",
	"&x=1", "=", "\\", " ", "-", "_", "é", "@", ":80", "index", strings.Repeat("l", 63), strings.Repeat("l", 64),
}

func TestPlainOnPieces(t *testing.T) {
	bases := []URL{{}, MustParse("http://a.example/"), MustParse("https://h/a/b/c?d/e"),
		MustParse("http://h:81//x/%2F/"), MustParse("https://[::1]/q")}
	n, took := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		for range 40 {
			var in strings.Builder
			for range 1 + r.IntN(7) {
				in.WriteString(plainPieces[r.IntN(len(plainPieces))])
			}
			n++
			if checkPlain(t, in.String(), bases[r.IntN(len(bases))]) {
				took++
			}
		}
	})
	t.Logf("%d of %d inputs are plain", took, n)
	if took < n/40 {
		t.Errorf("%d of %d inputs are plain, want one in forty", took, n)
	}
}

func FuzzPlain(f *testing.F) {
	seedURLs(f)
	for _, p := range plainPieces {
		f.Add(p, "https://h/a/b/c?d/e")
	}
	f.Fuzz(func(t *testing.T, input, base string) {
		b, err := Parse(base)
		if base != "" && err != nil {
			return
		}
		checkPlain(t, input, b)
	})
}

var hrefOf = regexp.MustCompile(`(?i)(?:href|src)=["']([^"']*)["']`)

// On real pages nearly all references are plain.
func TestPlainOnRealPages(t *testing.T) {
	testtier.OnlySoak(t, "Debian's documentation is slow to install")
	pages := must.Get(filepath.Glob("/usr/share/doc/python3.11-doc/html/library/*.html"))(t)
	if len(pages) == 0 {
		testneed.Missing(t, "python3.11-doc")
	}
	n, took := 0, 0
	seen := map[string]bool{}
	for i, name := range pages {
		if i%4 > 0 {
			continue
		}
		body := must.Get(os.ReadFile(name))(t)
		base := MustParse("https://docs.python.org/3/library/" + filepath.Base(name))
		for _, m := range hrefOf.FindAllSubmatch(body, -1) {
			ref := string(m[1])
			if seen[ref] {
				continue
			}
			seen[ref] = true
			n++
			if checkPlain(t, ref, base) {
				took++
			}
		}
	}
	t.Logf("%d of %d references are plain", took, n)
	if took < n*9/10 {
		t.Errorf("%d of %d references are plain, want nine of ten", took, n)
	}
}

// FuzzPlainParts checks that plainParts and the whole parser agree on every string that plainParts
// accepts.
func FuzzPlainParts(f *testing.F) {
	for _, p := range plainPieces {
		f.Add("http://a.example/" + p)
		f.Add("https://" + p + "/")
	}
	f.Fuzz(func(t *testing.T, s string) {
		p, ok := plainParts(s)
		if !ok {
			return
		}
		if u, err := Parse(s); err != nil || u != (URL{s, p.hostEnd, p.pathStart, p.pathEnd}) {
			t.Fatalf("%q: got the parts %v, parsed: %+v, %v", s, p, u, err)
		}
	})
}

func TestPlainPartsOnPieces(t *testing.T) {
	r := testseed.Rand(t)
	took := 0
	for range 20_000 {
		s := []string{"http://", "https://", "http://a.example/"}[r.IntN(3)]
		for range r.IntN(6) {
			s += plainPieces[r.IntN(len(plainPieces))]
		}
		p, ok := plainParts(s)
		if !ok {
			continue
		}
		took++
		if u, err := Parse(s); err != nil || u != (URL{s, p.hostEnd, p.pathStart, p.pathEnd}) {
			t.Fatalf("%q: got the parts %v, parsed: %+v, %v", s, p, u, err)
		}
	}
	if took < 1000 {
		t.Errorf("took %d, want more", took)
	}
}
