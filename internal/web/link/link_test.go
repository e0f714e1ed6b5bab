package link

import (
	"bytes"
	"encoding/hex"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/orbweaver/orbweaver/internal/testkit/must"
	_ "github.com/orbweaver/orbweaver/internal/testkit/testseed" // the seed of rapid
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// Hrefs of ordinary pages.
var ordinary = []string{
	"/library/functions.html#open",
	"../howto/sorting.html",
	"https://docs.python.org/3/library/stdtypes.html?highlight=str&lang=en",
	"//www.example.com/assets/img/logo-small_2.png",
	"?page=2&sort=name",
	"#section",
	"",
	"https://WWW.Example.ORG:443/a/./b/../c",
}

var ordinaryBase = weburl.MustParse("https://docs.python.org/3/library/index.html?x=1")

// Journals and stores hold keys, so keys must never change.
func TestKeyStays(t *testing.T) {
	got := KeyOf(weburl.MustParse("http://www.example.com/a?b"))
	want := Key{Host: 0x774337343878322e, Path: 0xe05dac0f65fbbf01}
	if got != want {
		t.Errorf("got %#x, want %#x", got, want)
	}
	other := KeyOf(weburl.MustParse("https://www.example.com/a?b"))
	if other.Host != got.Host || other.Path == got.Path {
		t.Errorf("https: got %#x, http: got %#x; want equal host parts and different path parts", other, got)
	}
}

func TestLink(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := Link{
			Via:   rapid.String().Draw(t, "via"),
			Hops:  rapid.StringOf(rapid.RuneFrom([]rune("LERPMX"))).Draw(t, "hops"),
			Seed:  rapid.String().Draw(t, "seed"),
			Ext:   rapid.SampledFrom([]string{"", "\x00\x00", "\x01\x03abc\x07\x00"}).Draw(t, "ext"),
			Level: rapid.Uint8().Draw(t, "level"),
		}
		if ref := rapid.SampledFrom(append([]string{"-"}, ordinary...)).Draw(t, "ref"); ref != "-" {
			want.URL, _ = ordinaryBase.Resolve(ref)
		}
		enc := want.AppendTo([]byte("x"))[1:]
		got, n, err := Decode(append(enc, "rest"...))
		if err != nil || n != len(enc) || got != want {
			t.Fatalf("got %+v, %d, %v, want %+v, %d", got, n, err, want, len(enc))
		}
		if _, _, err := Decode(enc[:rapid.IntRange(0, len(enc)-1).Draw(t, "cut")]); !errors.Is(err, ErrDamaged) {
			t.Fatalf("cut short: got %v, want ErrDamaged", err)
		}
	})
}

// The file has the encoding of each link in hex. Journals, queues and messages contain these bytes.
func TestLinkFormat(t *testing.T) {
	b := must.Get(os.ReadFile("testdata/links.txt"))(t)
	lines := slices.Collect(strings.Lines(string(b)))
	links := []Link{
		{},
		{URL: weburl.MustParse("http://a.example/")},
		{URL: weburl.MustParse("https://a.example:8443/x?y"), Via: "http://b.example/", Hops: "LR", Seed: "b.example",
			Level: 200},
		{URL: weburl.MustParse("http://a.example/"), Hops: "L", Seed: "a.example", Ext: "\x01\x03abc\x07\x00"},
		{URL: weburl.MustParse("http://a.example/"), Ext: "\xff\x80\x01" + strings.Repeat("e", 128)},
	}
	if len(lines) != len(links) {
		t.Fatalf("%d lines for %d links", len(lines), len(links))
	}
	for i, l := range links {
		enc := must.Get(hex.DecodeString(strings.TrimSpace(lines[i])))(t)
		if got := l.AppendTo(nil); !bytes.Equal(got, enc) {
			t.Errorf("%+v: got %x, want %x", l, got, enc)
		}
		if got, n, err := Decode(enc); got != l || n != len(enc) || err != nil {
			t.Errorf("%x: got %+v, %d, %v, want %+v", enc, got, n, err, l)
		}
	}
}

func TestLinkBare(t *testing.T) {
	var l Link
	l.SetBare()
	if got, _, err := Decode(l.AppendTo(nil)); err != nil || !got.Bare() || got.Ext != "\x01\x00" {
		t.Errorf("got %+v, %v, want a bare link", got, err)
	}
	for ext, want := range map[string]bool{"": false, "\x02\x00": false, "\x00\x02\x01\x00": false,
		"\x00\x01a\x01\x00": true, "\x01\x03abc": true} {
		if got := (Link{Ext: ext}).Bare(); got != want {
			t.Errorf("%q: got %v, want %v", ext, got, want)
		}
	}
}

func TestLinkHostDepth(t *testing.T) {
	for _, n := range []int{0, 1, 127, 128, 1 << 20} {
		l := Link{Hops: "L"}
		l.SetHostDepth(n)
		got, _, err := Decode(l.AppendTo(nil))
		if err != nil || got.HostDepth() != n || got.Bare() || (got.Ext == "") != (n == 0) {
			t.Errorf("%d: got %d, Ext %q, %v", n, got.HostDepth(), got.Ext, err)
		}
	}
	for ext, want := range map[string]int{"\x01\x00": 0, "\x01\x00\x02\x01\x05": 5, "\x02\x01\x05\x03\x00": 5,
		"\x02\x00": 0, "\x02\x02\xff\xff": 0, "\x02\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01": 1 << 30} {
		if got := (Link{Ext: ext}).HostDepth(); got != want {
			t.Errorf("%q: got %d, want %d", ext, got, want)
		}
	}
}

func TestLinkRefusesOtherExts(t *testing.T) {
	for _, ext := range []string{"\x01", "\x01\x02x", "\x02\x00\x01\x00", "\x01\x00\x01\x00",
		"\x01\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", "\x01\xfe\x07" + strings.Repeat("x", 1022)} {
		enc := Link{URL: weburl.MustParse("http://a.example/"), Hops: "L", Ext: ext}.AppendTo(nil)
		if l, _, err := Decode(enc); !errors.Is(err, ErrDamaged) {
			t.Errorf("%q: got %q, %v, want ErrDamaged", ext, l.Ext, err)
		}
	}
	enc := Link{Hops: "L\x00"}.AppendTo(nil)
	if _, _, err := Decode(enc); !errors.Is(err, ErrDamaged) {
		t.Errorf("an empty extension: got %v, want ErrDamaged", err)
	}
}

func TestLinkRefusesOtherURLs(t *testing.T) {
	for _, s := range []string{
		"http", "http://", "http:///", "http://a", "ftp://a/", "HTTP://a/", "http://A/", "http://a b/",
		"http://a:80/", "https://a:443/", "http://a:/", "http://a:08/", "http://a:65536/", "http://a:x/",
		"http://a./", "http://.a/", "http://a..b/", "http://u@a/", "http://0x7f.1/", "http://1.2.3/",
		"http://[::01]/", "http://[::1/", "http://[x]/", "http://\u00fc.de/", "http://a%41/",
		"http://a/..", "http://a/./b", "http://a/%2e", "http://a/b\\c", "http://a/b c", "http://a/#x",
		"http://a/?b c", "http://a/?'", "http://a/\x00", "http://a/%41", "http://a/%c3", "http://a/\u00fc",
		"http://a?b",
	} {
		enc := append(appendString([]byte{0}, s), 0, 0, 0)
		if l, _, err := Decode(enc); !errors.Is(err, ErrDamaged) {
			t.Errorf("%q: got %q, %v, want ErrDamaged", s, l.URL, err)
		}
	}
}

func TestDepth(t *testing.T) {
	for _, c := range []struct {
		hops string
		want int
	}{{"", 0}, {"L", 1}, {"RLPELE", 2}, {"MXL", 3}, {"RRR", 0}} {
		if got := (Link{Hops: c.hops}).Depth(); got != c.want {
			t.Errorf("%s: got %d, want %d", c.hops, got, c.want)
		}
	}
}

// FuzzDecode checks that Decode accepts only canonical URLs and that AppendTo encodes its
// result again.
func FuzzDecode(f *testing.F) {
	f.Add(Link{URL: ordinaryBase, Via: "http://a/", Hops: "LE", Seed: "a", Level: 3}.AppendTo(nil))
	f.Add(Link{}.AppendTo(nil))
	for _, ref := range ordinary {
		u, _ := ordinaryBase.Resolve(ref)
		f.Add(Link{URL: u}.AppendTo(nil))
	}
	f.Add([]byte{0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1})
	f.Fuzz(func(t *testing.T, src []byte) {
		l, n, err := Decode(src)
		if peeked, m, peekErr := Peek(src); peeked != l || m != n || peekErr != err {
			t.Fatalf("Decode: got %+v, %d, %v; Peek: got %+v, %d, %v", l, n, err, peeked, m, peekErr)
		}
		host, ok := PeekHost(src)
		if err != nil {
			return
		}
		if !ok || host != l.URL.Host() {
			t.Fatalf("%+v: PeekHost: got %q, %v", l, host, ok)
		}
		if n <= 0 || n > len(src) {
			t.Fatalf("took %d of %d octets", n, len(src))
		}
		enc := l.AppendTo([]byte("x"))
		back, _, err := Decode(enc[1:])
		if err != nil || back != l {
			t.Fatalf("%+v: encoded and decoded again: got %+v, %v", l, back, err)
		}
		u := l.URL
		_ = u.Scheme() + u.Host() + u.Port() + u.Path() + u.SURT() + u.Site()
		if u.IsZero() {
			return
		}
		again, err := weburl.Parse(u.String())
		if err != nil || again != u {
			t.Fatalf("%s: parsed: %s, %v", u, again, err)
		}
	})
}

func BenchmarkKey(b *testing.B) {
	u, _ := ordinaryBase.Resolve(ordinary[2])
	b.ReportAllocs()
	for b.Loop() {
		KeyOf(u)
	}
}

func BenchmarkDecode(b *testing.B) {
	u, _ := ordinaryBase.Resolve(ordinary[2])
	enc := Link{URL: u, Via: ordinaryBase.String(), Hops: "LLEL", Seed: "docs.python.org"}.AppendTo(nil)
	for name, decode := range map[string]func([]byte) (Link, int, error){"copy": Decode, "peek": Peek} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, _, err := decode(enc); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkAppend encodes the 50 links of a page, as the crawl does for each page.
func BenchmarkAppend(b *testing.B) {
	u, _ := ordinaryBase.Resolve(ordinary[2])
	l := Link{URL: u, Via: ordinaryBase.String(), Hops: "LLEL", Seed: "docs.python.org"}
	var enc []byte
	b.ReportAllocs()
	for b.Loop() {
		enc = enc[:0]
		for range 50 {
			enc = l.AppendTo(enc)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*50), "ns/link")
}

func ordinaryBytes() [][]byte {
	refs := make([][]byte, len(ordinary))
	for i, r := range ordinary {
		refs[i] = []byte(r)
	}
	return refs
}

func TestBatch(t *testing.T) {
	var b Batch
	for range 2 {
		b.SetBase(weburl.MustParse("https://a.example/d/p"))
		var keys []Key
		resolve := func(ref string) {
			if k, err := b.Resolve([]byte(ref)); err == nil {
				keys = append(keys, k)
			}
		}
		for _, ref := range []string{"1", "../2?q;jsessionid=5", "//b.example", "http://[", "/3"} {
			resolve(ref)
		}
		if got := string(b.Text(2)); len(b.at) != 4 || got != "https://b.example/" {
			t.Fatalf("%d URLs, the third %q", len(b.at), got)
		}
		b.Cut(3)
		keys = keys[:3]
		b.SetBase(weburl.URL{})
		if _, err := b.Resolve([]byte("4")); err == nil {
			t.Fatal("a relative reference without a base: got no error")
		}
		resolve("http://c.example/4")
		b.Seal()
		var got []string
		for i := range b.at {
			got = append(got, b.URL(i).String())
			if keys[i] != KeyOf(b.URL(i)) {
				t.Errorf("%s: key %v, want %v", got[i], keys[i], KeyOf(b.URL(i)))
			}
		}
		want := "https://a.example/d/1 https://a.example/2?q;jsessionid=5 https://b.example/ http://c.example/4"
		if s := strings.Join(got, " "); s != want || b.Size() != len(strings.ReplaceAll(want, " ", "")) {
			t.Fatalf("got %s (%d octets), want %s", s, b.Size(), want)
		}
		if u := b.URL(1); u.Clone() != u || u.Clone() != weburl.MustParse(u.String()) {
			t.Fatalf("%s and its clone differ", u)
		}
		b.Reset()
	}
	refs := ordinaryBytes()
	if n := testing.AllocsPerRun(100, func() {
		b.Reset()
		b.SetBase(ordinaryBase)
		for range 50 {
			for _, ref := range refs {
				b.Resolve(ref)
			}
		}
		b.Seal()
	}); n > 1 {
		t.Errorf("%v allocations for a page, want 1", n)
	}
}

func BenchmarkBatch(b *testing.B) {
	refs := ordinaryBytes()
	var batch Batch
	b.ReportAllocs()
	for b.Loop() {
		batch.Reset()
		batch.SetBase(ordinaryBase)
		for range 5 {
			for _, ref := range refs {
				batch.Resolve(ref)
			}
		}
		batch.Seal()
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*5*len(refs)), "ns/link")
}

func TestIsFile(t *testing.T) {
	for hops, want := range map[string]bool{
		"": false, "L": false, "R": false, "LR": false, "M": false, "EL": false, "EI": false, "EP": false,
		"E": true, "LE": true, "LER": true, "LRE": true, "EE": true, "EREE": true, "LEEEE": true,
		"LEEEEE": false, "EREEREE": false, "EEEEELE": true,
	} {
		if got := IsFile(hops); got != want {
			t.Errorf("%q: got %t, want %t", hops, got, want)
		}
	}
}

func TestSitemap(t *testing.T) {
	var l Link
	l.SetHostDepth(3)
	l.SetSteps(AddStep("", weburl.MustParse("http://a.example/"), 7))
	if l.IsSitemap() || l.IsGuess() || l.IsFile() {
		t.Error("any link is a sitemap")
	}
	l.URL = weburl.MustParse("http://a.example/sitemap.xml")
	key := l.Key()
	for _, guess := range []bool{true, false} {
		l.SetSitemap(guess)
		read, _, err := Decode(l.AppendTo(nil))
		if err != nil || !read.IsSitemap() || read.IsGuess() != guess || !read.IsFile() || !read.Sent().IsSitemap() ||
			read.HostDepth() != 3 || read.Steps() == "" || read.Key() != key {
			t.Errorf("guess %t: %+v, %v", guess, read, err)
		}
	}
}
