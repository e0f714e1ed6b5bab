package urlfrontier

import (
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/testkit/testdisk"
	"github.com/orbweaver/orbweaver/internal/urlfrontier/pb"
)

// TestSnapshotMeanwhile: calls go on while a snapshot is synced. What they change is not lost.
func TestSnapshotMeanwhile(t *testing.T) {
	mem := testdisk.NewMem()
	fs := testdisk.NewFaulty(mem, nil)
	s := open(t, fs, Config{SnapshotBytes: 1 << 40})
	for i := range 20 {
		put(t, s, discovered(fmt.Sprintf("http://a.example/%d", i), ""), start, pb.AckMessage_OK)
		put(t, s, discovered(fmt.Sprintf("http://b.example/%d", i), ""), start, pb.AckMessage_OK)
	}
	syncing, changed := make(chan bool), make(chan bool)
	fs.Break(func(c testdisk.Call) testdisk.Fault {
		if c.Op == testdisk.OpSync && strings.Contains(c.Name, "snapshot-") {
			close(syncing)
			<-changed
		}
		return testdisk.Fault{}
	})
	s.snapshotting = true
	go s.checkpoint()
	<-syncing
	for _, item := range []*pb.URLItem{
		discovered("http://new.example/", ""), known("http://a.example/1", "", 0),
		known("http://a.example/2", "moved", start/1000+100),
	} {
		if status, _, err := s.Put(item, start); err != nil || status != pb.AckMessage_OK {
			t.Errorf("%v: %v, %v", item, status, err)
		}
	}
	if infos, _, err := s.Take(Want{Any: true, Queues: 1, URLs: 5, Lease: 60}, start); err != nil || len(infos) != 5 {
		t.Errorf("taken: %v, %v", infos, err)
	}
	if n, _, err := s.remove("", proto.String("b.example")); err != nil || n != 20 {
		t.Errorf("deleted: %d, %v", n, err)
	}
	close(changed)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if s.snapshot == 0 {
		t.Error("no snapshot was written")
	}
	want := dump(s, start)
	s = open(t, mem.Crash(1), Config{})
	if got := dump(s, start); got != want {
		t.Errorf("after a restart:\n%s\nbefore it:\n%s", got, want)
	}
	s.Close()
}

var update = flag.Bool("update", false, "write the golden journal")

// TestGolden: a journal of this version is readable.
func TestGolden(t *testing.T) {
	const dir = "testdata/v1"
	play := func(s *Store) (now int64) {
		p := &player{s: s, rng: rand.New(rand.NewPCG(7, 7)), now: start}
		for range 200 {
			change, err := p.step()
			must(t, s, change, err)
		}
		return p.now
	}
	if *update {
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
		s, err := Open(disk.OS, dir, Config{SnapshotBytes: 4000})
		if err != nil {
			t.Fatal(err)
		}
		play(s)
		if err := errors.Join(s.Close(), os.Remove(filepath.Join(dir, disk.LockName))); err != nil {
			t.Fatal(err)
		}
	}
	fs := testdisk.NewMem()
	names, err := filepath.Glob(dir + "/journal/*")
	if err != nil || len(names) < 2 {
		t.Fatalf("%q, %v", names, err)
	}
	for _, name := range names {
		b, err := os.ReadFile(name)
		if err == nil {
			err = errors.Join(fs.MkdirAll("f/journal", 0o755), disk.WriteFile(fs, "f/journal/"+filepath.Base(name), b))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	s, want := open(t, fs, Config{}), open(t, testdisk.NewMem(), Config{})
	now := play(want)
	if got, want := dump(s, now), dump(want, now); got != want {
		t.Errorf("the golden journal holds:\n%s\nwant:\n%s", got, want)
	}
	s.Close()
	want.Close()
}
