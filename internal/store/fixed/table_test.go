package fixed

import (
	"bytes"
	"crypto/sha1"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"testing"

	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/testdisk"
)

// A model is a set of entries in RAM.
type model map[Key]string

func (m model) Entries(add func(key Key, value []byte) error) ([]byte, error) {
	for _, k := range slices.SortedFunc(maps.Keys(m), func(a, b Key) int { return bytes.Compare(a[:], b[:]) }) {
		if err := add(k, []byte(m[k])); err != nil {
			return nil, err
		}
	}
	return []byte("the note"), nil
}

func hashed(n int) Key { return sha1.Sum(binary.LittleEndian.AppendUint64(nil, uint64(n))) }

func filled(n int) model {
	m := model{}
	for i := range n {
		m[hashed(i)] = fmt.Sprintf("%*d", i%100, i)
	}
	return m
}

// closeKeys returns keys that agree in their first 16 bytes or more.
func closeKeys(n int) model {
	m := model{}
	for i := range n {
		k := hashed(1)
		binary.BigEndian.PutUint32(k[16:], uint32(i)*7)
		m[k] = fmt.Sprint(i)
	}
	return m
}

func TestFind(t *testing.T) {
	large := model{hashed(1): string(bytes.Repeat([]byte{'x'}, MaxValue)), hashed(2): "", hashed(3): "y"}
	for _, m := range []model{{}, filled(1), filled(3), filled(20_000), closeKeys(5000), large} {
		for _, memory := range []int64{0, 1 << 10, 1 << 16, 1 << 30} {
			mem := testdisk.NewMem()
			must.Do(t, mem.MkdirAll("/d", 0o755))
			must.Do(t, Write(mem, "/d/table", int64(len(m)), memory, m))
			table, err := Open(mem, "/d/table", memory)
			must.Do(t, err)
			if string(table.Note()) != "the note" || table.Len() != int64(len(m)) {
				t.Fatalf("note %q, %d entries, want %d", table.Note(), table.Len(), len(m))
			}
			passed := 0
			for i := 17_000; i < 24_000; i++ {
				k := hashed(i)
				neighbour := i%3 == 0 // the filter takes it for the key
				if neighbour {
					k[19]++
				}
				got, ok, err := table.Find([]byte("dst"), k)
				must.Do(t, err)
				want, known := m[k]
				if ok != known || string(got) != "dst"+want {
					t.Fatalf("%d entries, key %d: %q, %t; want %q, %t", len(m), i, got, ok, want, known)
				}
				if !known && !neighbour && table.filter.has(&k) {
					passed++
				}
			}
			for k, want := range m {
				if got, ok, err := table.Find(nil, k); !ok || string(got) != want || err != nil {
					t.Fatalf("%x: %q, %t, %v; want %q", k, got, ok, err, want)
				}
			}
			if memory == 1<<30 && len(m) == 20_000 && passed > 100 {
				t.Errorf("%d unknown keys passed the filter", passed)
			}
			must.Do(t, table.Close())
		}
	}
}

// TestMemory checks the bytes of RAM for each entry, with 45 bytes of value.
func TestMemory(t *testing.T) {
	m := model{}
	for i := range 50_000 {
		m[hashed(i)] = fmt.Sprintf("%045d", i)
	}
	mem := testdisk.NewMem()
	must.Do(t, mem.MkdirAll("/d", 0o755))
	must.Do(t, Write(mem, "/d/table", int64(len(m)), 1<<30, m))
	table, err := Open(mem, "/d/table", 1<<30)
	must.Do(t, err)
	if per := float64(table.Memory()) / 50_000; per > 1.6 {
		t.Errorf("%.2f bytes for each entry", per)
	}
	if small, err := Open(mem, "/d/table", 20_000); err != nil || small.Memory() > 20_000 {
		t.Errorf("with 20,000 bytes of memory: %v, %d bytes", err, small.Memory())
	}
}

// TestFaults fails every operation of Write in turn. The file is then absent.
func TestFaults(t *testing.T) {
	full := errors.New("no space")
	for n := int64(1); ; n++ {
		mem := testdisk.NewMem()
		must.Do(t, mem.MkdirAll("/d", 0o755))
		must.Do(t, mem.SyncDir("/"))
		faulty := testdisk.NewFaulty(mem, testdisk.FailAt(n, full))
		err := Write(faulty, "/d/table", 1000, 1<<20, filled(1000))
		if err == nil {
			if n < 5 {
				t.Fatalf("only %d operations", n)
			}
			return
		}
		if !errors.Is(err, full) {
			t.Fatal(err)
		}
		for _, after := range []*testdisk.Mem{mem, mem.Crash(uint64(n))} {
			table, err := Open(after, "/d/table", 1<<20)
			if errors.Is(err, fs.ErrNotExist) {
				continue
			}
			must.Do(t, err) // whole
			if table.Len() != 1000 {
				t.Fatalf("%d entries", table.Len())
			}
		}
	}
}

// TestDamage changes bytes of a file. No key gets a wrong value.
func TestDamage(t *testing.T) {
	m := filled(500)
	mem := testdisk.NewMem()
	must.Do(t, mem.MkdirAll("/d", 0o755))
	must.Do(t, Write(mem, "/d/table", 500, 1<<20, m))
	whole := must.Get(disk.ReadFile(mem, "/d/table", 1<<30))(t)
	for at := 0; at < len(whole); at += 37 {
		b := bytes.Clone(whole)
		b[at] ^= 0x40
		judge(t, b, m)
		judge(t, b[:at], m)
	}
}

// judge checks that a file gives no value that m does not have.
func judge(t *testing.T, b []byte, m model) {
	mem := testdisk.NewMem()
	must.Do(t, mem.MkdirAll("/d", 0o755))
	must.Do(t, disk.WriteFile(mem, "/d/table", b))
	table, err := Open(mem, "/d/table", 1<<20)
	if err != nil {
		if !errors.Is(err, ErrDamaged) {
			t.Fatal(err)
		}
		return
	}
	defer table.Close()
	lost := 0
	for k, want := range m {
		got, ok, err := table.Find(nil, k)
		must.Do(t, err)
		if ok && string(got) != want {
			t.Fatalf("%x: %q, want %q", k, got, want)
		}
		if !ok {
			lost++
		}
	}
	if lost > 0 && table.Damaged() == 0 {
		t.Fatalf("%d entries are lost without a word", lost)
	}
}

func FuzzOpen(f *testing.F) {
	mem := testdisk.NewMem()
	must.Do(f, mem.MkdirAll("/d", 0o755))
	must.Do(f, Write(mem, "/d/table", 200, 1<<20, filled(200)))
	f.Add(must.Get(disk.ReadFile(mem, "/d/table", 1<<30))(f))
	f.Add([]byte(magic))
	f.Fuzz(func(t *testing.T, b []byte) {
		mem := testdisk.NewMem()
		must.Do(t, mem.MkdirAll("/d", 0o755))
		must.Do(t, disk.WriteFile(mem, "/d/table", b))
		table, err := Open(mem, "/d/table", 1<<20)
		if err != nil {
			return
		}
		for i := range 50 {
			if _, _, err := table.Find(nil, hashed(i)); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// BenchmarkFind measures look-ups of known and unknown keys in a table of a million entries.
func BenchmarkFind(b *testing.B) {
	m := model{}
	for i := range 1_000_000 {
		m[hashed(i)] = "http://host.example/some/path/that/is/usual"
	}
	name := b.TempDir() + "/table"
	must.Do(b, Write(disk.OS, name, int64(len(m)), 1<<30, m))
	table, err := Open(disk.OS, name, 1<<30)
	must.Do(b, err)
	defer table.Close()
	for _, kind := range []string{"known", "unknown"} {
		b.Run(kind, func(b *testing.B) {
			var buf []byte
			for n := 0; b.Loop(); n++ {
				k := hashed(n % 1_000_000)
				if kind == "unknown" {
					k[0]++
				}
				if buf, _, err = table.Find(buf[:0], k); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
