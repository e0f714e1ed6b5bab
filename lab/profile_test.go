package lab

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/pprof/profile"
)

// stack returns frames, the innermost first, from name or name@file.
func stack(names ...string) []frame {
	var fs []frame
	for _, n := range names {
		name, file, _ := strings.Cut(n, "@")
		fs = append(fs, frame{name, file})
	}
	return fs
}

func TestPlace(t *testing.T) {
	const o = "github.com/orbweaver/orbweaver/"
	const visits = o + "internal/crawl/visit.(*Pool)"
	for _, c := range []struct {
		name  string
		stack []frame
		want  []string
	}{
		{"own code", stack(o+"internal/web/parse.(*scanner).skim@skim.go", visits+".visit@visit.go"),
			[]string{"parse", "own code", "parse.(*scanner).skim"}},
		{"a digest", stack("crypto/sha1.blockSHANI", "crypto/sha1.(*digest).Write",
			o+"archive.(*group).hash@encode.go"), []string{"archive", "SHA-1", "archive.(*group).hash"}},
		{"inflate", stack("runtime.memmove", "github.com/klauspost/compress/flate.(*dictDecoder).writeCopy",
			o+"fetch.gunzip@gunzip.go"), []string{"decode", "copying", "fetch.gunzip"}},
		{"disk is its caller's", stack("internal/runtime/syscall/linux.Syscall6", "syscall.Syscall", "syscall.write",
			"syscall.Write", "internal/poll.(*FD).Write", "os.(*File).Write", o+"disk.(*file).Write@os.go",
			o+"journal.(*Writer).flush@writer.go"),
			[]string{"journal", "system call: write", "journal.(*Writer).flush"}},
		{"a connection", stack("internal/runtime/syscall/linux.Syscall6", "syscall.Syscall", "syscall.connect",
			"syscall.Connect", o+"fetch.dial@dial_linux.go"), []string{"fetch", "system call: connect", "fetch.dial"}},
		{"a handshake", stack("crypto/internal/fips140/bigmod.addMulVVW2048",
			"crypto/tls.(*clientHandshakeStateTLS13).handshake", "crypto/tls.(*Conn).Handshake",
			o+"fetch.(*Fetcher).secure@dial.go"),
			[]string{"tls", "handshake", "fetch.(*Fetcher).secure"}},
		{"a record", stack("crypto/internal/fips140/aes/gcm.seal", "crypto/tls.(*Conn).writeRecordLocked",
			"crypto/tls.(*Conn).Write", o+"fetch.(*exchange).send@wire.go"),
			[]string{"tls", "records", "fetch.(*exchange).send"}},
		{"the dispatcher", stack("runtime.mallocgc", "runtime.newobject",
			o+"internal/crawl.(*Crawler).dispatch@crawl.go"),
			[]string{"dispatcher", "allocation", "crawl.(*Crawler).dispatch"}},
		{"a visit", stack(visits+".visit@visit.go", visits+".work@slow.go"),
			[]string{"visit", "own code", "visit.(*Pool).visit"}},
		{"collector", stack("runtime.scanobject", "runtime.gcDrain", "runtime.gcBgMarkWorker.func2",
			"runtime.systemstack", "runtime.gcBgMarkWorker"), []string{"runtime", "collector", "in the background"}},
		{"who allocates helps", stack("runtime.scanobject", "runtime.gcDrainN", "runtime.gcAssistAlloc1",
			"runtime.mallocgc", o+"seen.(*Store).Add@store.go"), []string{"runtime", "collector", "in turn for seen"}},
		{"scheduler", stack("runtime.futex", "runtime.futexsleep", "runtime.notesleep", "runtime.findRunnable",
			"runtime.schedule", "runtime.mcall"), []string{"runtime", "scheduler"}},
		{"another's package", stack("github.com/cespare/xxhash/v2.Sum64", o+"seen.(*Store).Add@store.go"),
			[]string{"seen", "package xxhash", "seen.(*Store).Add"}},
		{"an atomic", stack("internal/runtime/atomic.Load", o+"seen.(*Store).Add@store.go"),
			[]string{"seen", "own code", "seen.(*Store).Add"}},
		{"type arguments", stack("slices.insertionSort[go.shape.struct { "+o+"link.Key }]",
			o+"frontier.(*heap[go.shape."+o+"x]).down@heap.go"),
			[]string{"frontier", "package slices", "frontier.(*heap).down"}},
		{"nothing", nil, []string{"runtime", "unknown"}},
	} {
		if d := cmp.Diff(c.want, place(c.stack)); d != "" {
			t.Errorf("%s: %s", c.name, d)
		}
	}
}

func TestReadProfile(t *testing.T) {
	p := &profile.Profile{SampleType: []*profile.ValueType{{Type: "samples", Unit: "count"},
		{Type: "cpu", Unit: "nanoseconds"}}}
	add := func(d time.Duration, names ...string) {
		s := &profile.Sample{Value: []int64{1, int64(d)}}
		for _, f := range stack(names...) {
			fn := &profile.Function{ID: uint64(len(p.Function) + 1), Name: f.name, Filename: "/src/" + f.file}
			l := &profile.Location{ID: uint64(len(p.Location) + 1), Line: []profile.Line{{Function: fn}}}
			p.Function, p.Location = append(p.Function, fn), append(p.Location, l)
			s.Location = append(s.Location, l)
		}
		p.Sample = append(p.Sample, s)
	}
	add(60*time.Millisecond, "github.com/orbweaver/orbweaver/parse.find@scan.go")
	add(20*time.Millisecond, "runtime.memmove", "github.com/orbweaver/orbweaver/parse.find@scan.go")
	add(10*time.Millisecond, "github.com/orbweaver/orbweaver/parse.name@scan.go")
	add(9*time.Millisecond, "github.com/orbweaver/orbweaver/fetch.gunzip@gunzip.go")
	add(time.Millisecond, "github.com/orbweaver/orbweaver/dns.ask@ask.go")
	name := filepath.Join(t.TempDir(), "p")
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Write(f); err != nil {
		t.Fatal(err)
	}
	f.Close()
	tree, err := ReadProfile(name)
	if err != nil {
		t.Fatal(err)
	}
	want := strings.TrimPrefix(`
                µs/page    share
parse             900.0   90.0 %  ████████████████████████████████████
  own code        700.0   70.0 %  ▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒
    parse.find    600.0   60.0 %  ························
    parse.name    100.0   10.0 %  ····
  copying         200.0   20.0 %  ▒▒▒▒▒▒▒▒
decode             90.0    9.0 %  ████
  own code         90.0    9.0 %  ▒▒▒▒
all              1000.0  100.0 %
`, "\n")
	if d := cmp.Diff(want, tree.Flame(100, 3, 0.02)); d != "" {
		t.Error(d)
	}
	half := *tree
	half.Kids = tree.Kids[:2]
	half.Time = 0
	wantTable := strings.TrimPrefix(`
| where        | old (µs) | new (µs) | difference (µs) |
| ------------ | -------: | -------: | --------------: |
| parse        |    900.0 |    450.0 |          -450.0 |
| ····own code |    700.0 |    350.0 |          -350.0 |
| ····copying  |    200.0 |    100.0 |          -100.0 |
| decode       |     90.0 |     45.0 |           -45.0 |
| ····own code |     90.0 |     45.0 |           -45.0 |
| dns          |     10.0 |      0.0 |           -10.0 |
| ····own code |     10.0 |      0.0 |           -10.0 |
| all          |  1,000.0 |      0.0 |        -1,000.0 |
`, "\n")
	got := strings.ReplaceAll(Compare([]Profiled{{"old", tree, 100}, {"new", &half, 200}}, 0.005).Markdown(), "\u00a0",
		"·")
	if d := cmp.Diff(wantTable, got); d != "" {
		t.Error(d)
	}
	if err := os.WriteFile(name, []byte("no profile"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadProfile(name); err == nil {
		t.Error("what is no profile was read")
	}
}
