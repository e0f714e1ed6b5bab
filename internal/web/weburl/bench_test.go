package weburl

import "testing"

// Hrefs of ordinary pages.
var ordinary = []string{
	"/library/functions.html#open",
	"../howto/sorting.html",
	"genindex.html",
	"https://docs.python.org/3/library/stdtypes.html?highlight=str&lang=en",
	"//www.example.com/assets/img/logo-small_2.png",
	"?page=2&sort=name",
	"#section",
	"",
	"/w/index.php?title=Go_%28programming_language%29&action=edit",
	"https://WWW.Example.ORG:443/a/./b/../c",
}

var ordinaryBase = MustParse("https://docs.python.org/3/library/index.html?x=1")

func BenchmarkResolve(b *testing.B) {
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		if _, err := ordinaryBase.Resolve(ordinary[i%len(ordinary)]); err != nil {
			b.Fatal(err)
		}
		i++
	}
}

func BenchmarkSite(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		Site("docs.python.org")
	}
}

func BenchmarkSURT(b *testing.B) {
	u, _ := ordinaryBase.Resolve(ordinary[3])
	b.ReportAllocs()
	for b.Loop() {
		u.SURT()
	}
}

func TestResolveAllocations(t *testing.T) {
	for _, ref := range ordinary {
		want := 2.0
		if ref == "" || ref[0] == '#' {
			want = 0 // the base itself
		}
		if got := testing.AllocsPerRun(100, func() { ordinaryBase.Resolve(ref) }); got > want {
			t.Errorf("%q: got %v allocations, want at most %v", ref, got, want)
		}
		raw := []byte(ref)
		if got := testing.AllocsPerRun(100, func() { ordinaryBase.ResolveBytes(raw) }); got > want {
			t.Errorf("%q in a buffer: got %v allocations, want at most %v", ref, got, want)
		}
	}
}
