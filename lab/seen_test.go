package lab

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/testtier"
	"github.com/orbweaver/orbweaver/lab/rivals"
)

// The short version of the experiment: a million keys in ours, fewer in the other stores. It
// asserts that only the Bloom filter gives a false answer, and bounds the memory and the disk space
// of ours. It asserts nothing about the speed.
func TestSeenIsExactAndSmall(t *testing.T) {
	testtier.OnlySoak(t, "a million keys in each store; the script seen has few in three of them")
	trial := buildTrial(t)
	out := t.TempDir()
	err := Do(context.Background(), &Seen{Each: 20 * time.Second, Keys: 100_000,
		Stores: slices.DeleteFunc(StoreNames(), isOurs)}, trial, out)
	if err != nil {
		t.Fatal(err, trial.Screen)
	}
	var ours []string
	for _, name := range StoreNames() {
		if isOurs(name) {
			ours = append(ours, name)
		}
	}
	if err := Do(context.Background(), &Seen{Each: time.Minute, Stores: ours}, trial,
		filepath.Join(out, "ours")); err != nil {
		t.Fatal(err, trial.Screen)
	}
	t.Log(trial.Screen)
	number := func(file, where, e string) float64 {
		t.Helper()
		f, err := os.Open(file)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		d, err := ReadData(f)
		if err != nil {
			t.Fatal(err)
		}
		n, err := (&page{d: d}).num(e, where)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	theirs, own := filepath.Join(out, "seen.csv"), filepath.Join(out, "ours", "seen.csv")
	for _, shape := range ShapeNames() {
		if n := number(theirs, "store=Bloom filter, stream="+shape, "sum(false_known)"); n == 0 {
			t.Errorf("%s: the Bloom filter has no false answer, so the judge does not work", shape)
		}
		for _, name := range slices.DeleteFunc(StoreNames(), isOurs) {
			k, _ := rivals.Find(name)
			if n := number(theirs, "stream="+shape+", store="+k.Title, "size(checks)"); int(n) != len(points(100_000)) {
				t.Errorf("%s, %s: %g points", shape, name, n)
			}
		}
		for _, name := range ours {
			k, _ := rivals.Find(name)
			at := "stream=" + shape + ", store=" + k.Title + ", point=1000000"
			wrong := number(own, at, "false_new + false_known + foreign")
			if wrong != 0 || number(own, at, "keys") < 1e6 {
				t.Errorf("%s, %s: %g false answers", shape, name, wrong)
			}
			// A million keys are few compared with the fixed parts of a store. Filters of such
			// small buckets have space for half as many keys again (10 bits each). How full they
			// are depends on the time of the last pass.
			index, runs := number(own, at, "index_bytes/known"), number(own, at, "run_bytes/known")
			if ram := number(own, at, "ram_bytes"); ram > 80e6 || index <= 0 || index > 1.5*10/8+0.1 || runs <= 0 ||
				runs > 6.5 {
				t.Errorf("%s, %s: %g octets of RAM, %.2f of filter and index a key, %.2f on disk", shape, name, ram,
					index, runs)
			}
		}
	}
	for _, ext := range []string{".md", ".csv", ".svg"} {
		b, err := os.ReadFile(filepath.Join(out, "seen"+ext))
		if err != nil || !bytes.Contains(b, []byte("Bloom filter")) && ext != ".csv" {
			t.Errorf("seen%s: %d bytes, %v", ext, len(b), err)
		}
	}
}

func isOurs(name string) bool {
	k, _ := rivals.Find(name)
	return k.Ours
}

// runStore runs a store in this process.
func runStore(t *testing.T, spec StoreSpec) *storeResult {
	t.Helper()
	spec.Dir = t.TempDir()
	b, err := json.Marshal(spec)
	if err != nil {
		t.Fatal(err)
	}
	var r storeResult
	if err := RunStore(context.Background(), b, &lines{fn: func(line []byte) {
		must.Do(t, r.line(line, nil))
	}}); err != nil || r.End.Why == "" {
		t.Fatalf("%+v, %v", r, err)
	}
	return &r
}

func TestRunStore(t *testing.T) {
	spec := StoreSpec{Store: "map", Shape: "zipf", Seed: 3, Memory: 1e9, Points: []int64{2000, 20_000}, Checks: 1e6,
		Window: time.Minute, Limit: time.Minute}
	l := runStore(t, spec)
	if l.End.Why != "done" || len(l.Points) != 2 {
		t.Fatalf("%+v, %d points", l.End, len(l.Points))
	}
	for i, p := range l.Points {
		want := spec.Points[i]
		if p.Keys < want || p.Keys > want+batchItems || p.Checks < want || p.Checks > p.Keys+batchItems ||
			p.False() != 0 || p.Cut {
			t.Errorf("point %d: %+v", i, p)
		}
		if p.Time <= 0 || p.Block.Max <= 0 || p.Known <= p.Keys || p.New.Max <= 0 && i > 0 {
			t.Errorf("point %d: %+v", i, p)
		}
	}
	// The process notices a write, if the system counts writes.
	spec.Store, spec.Memory, spec.Profile = "pebble", 4e6, filepath.Join(t.TempDir(), "profile")
	l = runStore(t, spec)
	hasProfile(t, spec.Profile)
	if p := l.Points[1]; p.Disk <= 0 || ownIO() != (IO{}) && p.IO.Written <= 0 {
		t.Errorf("%+v", p)
	}
	// The time is recorded. Very short processor times are not shown.
	spec.Limit = 1
	if l := runStore(t, spec); l.End.Why != "time" || len(l.Points) != 0 {
		t.Errorf("%+v, %d points", l.End, len(l.Points))
	}
	// The memory is recorded, if the system reports it.
	if ownMemory() == (residents{}) {
		return
	}
	spec = StoreSpec{Store: "map", Shape: "uniform", Seed: 3, Points: []int64{50_000_000}, Checks: 1e6,
		Window: time.Minute, Limit: time.Minute, Most: 30e6}
	if l := runStore(t, spec); l.End.Why != "memory" || l.End.Keys > 5_000_000 {
		t.Errorf("%+v", l.End)
	}
}

func TestRunStoreRefuses(t *testing.T) {
	for _, spec := range []string{"", `{"Store":"none","Shape":"zipf","Points":[1]}`,
		`{"Store":"map","Shape":"flat","Points":[1]}`, `{"Store":"map","Shape":"zipf"}`} {
		if err := RunStore(context.Background(), []byte(spec), io.Discard); err == nil {
			t.Errorf("%q was run", spec)
		}
	}
	var r storeResult
	if err := r.line([]byte("no"), nil); err == nil || len(r.Points) != 0 {
		t.Errorf("%+v, %v", r, err)
	}
}

// A false answer is an error, unless the store may give false answers.
func TestWrong(t *testing.T) {
	exact, _ := rivals.Find("pebble")
	bloom, _ := rivals.Find("bloom")
	good := &storeResult{Kind: exact, Points: []StorePoint{{Keys: 5}, {Keys: 9}}}
	if err := wrong([]*storeResult{good, {Kind: bloom, Points: []StorePoint{{Keys: 5, Missing: 3}}}}); err != nil {
		t.Error(err)
	}
	for _, p := range []StorePoint{{Keys: 7, Missing: 1}, {Keys: 7, Twice: 1}, {Keys: 7, Foreign: 1}} {
		err := wrong([]*storeResult{good, {Kind: exact, Shape: "zipf", Points: []StorePoint{p}}})
		if !errors.Is(err, ErrFalse) || !strings.Contains(err.Error(), "zipf, pebble at 7 keys") {
			t.Errorf("%+v: %v", p, err)
		}
	}
}

// All stores are measured at the common number of keys; only ours continues.
func TestCommonPoints(t *testing.T) {
	x := &Seen{Keys: 100_000_000}
	x.defaults(false)
	if want := []int64{1e6, 2e6, 5e6, 1e7, 2e7}; x.Common != 2e7 || !slices.Equal(x.points(x.Common), want) {
		t.Errorf("%d: %v, want %v", x.Common, x.points(x.Common), want)
	}
	x = &Seen{Keys: 1_000_000, Common: 30_000}
	x.defaults(true)
	if got, want := x.points(x.Keys), []int64{1e4, 2e4, 3e4, 5e4, 1e5, 2e5, 5e5, 1e6}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	ours := &storeResult{Kind: rivals.Kind{Title: "ours"}, Shape: "zipf", End: StoreEnd{Why: "done"},
		Points: []StorePoint{
			{Keys: 10_000, FillTime: time.Second},
			{Keys: 30_005, Checks: 100, Time: time.Second, FillTime: time.Second},
			{Keys: 50_000, Checks: 900, Time: time.Second}}}
	slow := &storeResult{Kind: rivals.Kind{Title: "slow"}, Shape: "zipf", End: StoreEnd{Why: "time", Keys: 12_000},
		Points: []StorePoint{{Keys: 10_000}}}
	x.Shapes = []string{"zipf"}
	text := rendered(t, x.result([]*storeResult{ours, slow}))
	for _, want := range []string{"All at 30 k known keys, zipf",
		"| ours  |      100 |           0.00 |            0.0 |                 0.0 |               0.0 |" +
			"             2 |        0 |", "| by time at 12 k |"} {
		if !strings.Contains(text, want) {
			t.Errorf("the text does not say %q:\n%s", want, text)
		}
	}
}

func TestPoints(t *testing.T) {
	for _, c := range []struct {
		most int64
		want []int64
	}{
		{1e6, []int64{1e4, 2e4, 5e4, 1e5, 2e5, 5e5, 1e6}},
		{3e6, []int64{5e4, 1e5, 2e5, 5e5, 1e6, 2e6, 3e6}},
		{1000, []int64{1000}},
	} {
		if got := points(c.most); !slices.Equal(got, c.want) {
			t.Errorf("%d: %v, want %v", c.most, got, c.want)
		}
	}
}

// The text compares ours with its targets.
func TestAgainst(t *testing.T) {
	ours := rivals.Kind{Name: "drum", Title: "ours", Ours: true, Exact: true}
	p := StorePoint{Keys: 1e8, Known: 1.1e8, Checks: 1e8, Time: 40 * time.Second, RAM: 500e6, Disk: 6e8,
		Block: Percentiles{P999: 11 * time.Millisecond}, Told: map[string]int64{indexBytes: 2e8}}
	rs := []*storeResult{{Kind: ours, Shape: "zipf", Points: []StorePoint{p}}}
	x := &Seen{Keys: 1e8, Common: 1e8, Shapes: []string{"zipf"}}
	verdicts := func() vec {
		v, err := subset{d: x.result(rs).Rows}.value("verdict")
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	got, want := verdicts(), vec{"reached", "reached", "reached", "missed", "missed", "reached"}
	if !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	rs[0].Points[0].Keys = 5e7
	if got := verdicts(); got != nil {
		t.Errorf("%v for a number of keys that has no target", got)
	}
}

func TestLogPanel(t *testing.T) {
	line := func(n string, xy ...float64) Line {
		l := Line{Name: n, Bold: n == "ours"}
		for i := 0; i < len(xy); i += 2 {
			l.Points = append(l.Points, struct{ X, Y float64 }{xy[i], xy[i+1]})
		}
		return l
	}
	f := &Figure{Panels: []Panel{
		{Title: "Speed", X: "known keys", Y: "checks/s", Log: true,
			Lines: []Line{line("ours", 1e6, 4e6, 1e7, 3e6, 1e8, 2e6), line("theirs", 1e6, 9e4)}},
		{Title: "One", X: "known keys", Y: "octets", Log: true, Lines: []Line{line("ours", 1000, 0.02)}},
		{Title: "None", Log: true},
	}}
	var b bytes.Buffer
	if err := f.SVG(&b); err != nil {
		t.Fatal(err)
	}
	got := words(t, b.Bytes())
	for _, want := range []string{"ours", "theirs", "1 M", "10 M", "100 k", "known keys", "1 k", "0.01", "0.1"} {
		if !strings.Contains(got, want) {
			t.Errorf("the picture does not say %q:\n%s", want, got)
		}
	}
	if bytes.Contains(b.Bytes(), []byte("NaN")) || bytes.Contains(b.Bytes(), []byte("Inf")) {
		t.Error("the picture holds no numbers")
	}
	if m := (decades{}).Ticks(0, 1); m != nil {
		t.Errorf("%v from zero on", m)
	}
}
