package consensus

import (
	"flag"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/testdisk"
)

var update = flag.Bool("update", false, "write the golden files")

// TestGolden checks that the bytes of version 1 do not change.
func TestGolden(t *testing.T) {
	mem, h := testdisk.NewMem(), newHealth()
	l := must.Get(openLog(mem, ".", 1<<20, h))(t)
	v := must.Get(openVotes(mem, ".", h))(t)
	s := &snapshotStore{fs: mem, dir: ".", health: h, log: l}
	members := raft.Configuration{Servers: []raft.Server{{ID: "a:1", Address: "a:1"}, {ID: "b:1", Address: "b:1"}}}
	v.change(func(v *votes) { *v = votes{3, 2, []byte("b:1"), 5, 6} })
	must.Do(t, l.StoreLogs([]*raft.Log{
		{Index: 1, Term: 1, Type: raft.LogConfiguration, Data: raft.EncodeConfiguration(members)},
		{Index: 2, Term: 3, Type: raft.LogCommand, Data: []byte("command"), AppendedAt: time.Unix(1e9, 5)},
	}))
	k := must.Get(s.Create(1, 2, 3, members, 1, nil))(t)
	must.Get(k.Write([]byte("state")))(t)
	must.Do(t, k.Close())
	for _, name := range []string{segmentName("", 1), "vote", snapshotName("", 2, 3)} {
		got, err := disk.ReadFile(mem, name, 1<<20)
		must.Do(t, err)
		golden := filepath.Join("testdata", "v1", name)
		if *update {
			must.Do(t, os.WriteFile(golden, got, 0o644))
		}
		want, err := os.ReadFile(golden)
		if err != nil || string(got) != string(want) {
			t.Errorf("%s is\n%x\nwant\n%x (%v)", name, got, want, err)
		}
	}
	must.Do(t, l.close())
}

// FuzzFiles lets a member open files with any content: it gives an error or opens.
func FuzzFiles(f *testing.F) {
	for _, name := range []string{segmentName("", 1), "vote", snapshotName("", 2, 3)} {
		b := must.Get(os.ReadFile(filepath.Join("testdata", "v1", name)))(f)
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, name := range []string{segmentName("", 1), "vote", snapshotName("", 2, 3)} {
			mem := testdisk.NewMem()
			must.Do(t, disk.WriteFile(mem, name, b))
			network, err := newWire(0).port(1, "10.0.0.1:1")
			must.Do(t, err)
			n, err := Open(Config{FS: mem, Dir: ".", Self: "a:1", Members: []string{"a:1", "b:1"},
				Network: network, Machine: &book{judge: newJudge()}})
			if err == nil {
				err = n.Close()
			}
			if err != nil && err.Error() == "" {
				t.Errorf("%s: an error without text", name)
			}
		}
	})
}
