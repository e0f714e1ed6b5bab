package lines

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"syscall"
	"testing"

	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/testdisk"
)

// louder is a Form that leaves lines with "#" out.
type louder struct{}

func (louder) Append(dst, line []byte) []byte {
	if bytes.HasPrefix(line, []byte("#")) {
		return dst
	}
	return append(append(dst, bytes.ToUpper(line)...), "!\n"...)
}

// loud returns the copy of a file.
func loud(text string) (copied string) {
	for line := range strings.Lines(text) {
		copied += string(louder{}.Append(nil, []byte(strings.TrimSuffix(line, "\n"))))
	}
	return copied
}

// text returns the content of a file; "" if it is missing.
func text(fs disk.FS, name string) string {
	b, err := disk.ReadFile(fs, name, 1<<20)
	if err != nil {
		return ""
	}
	return string(b)
}

// TestOpenWithCopy: whatever the copy has, it has the lines of the file afterwards. Only if the file is gone, the copy
// keeps its own.
func TestOpenWithCopy(t *testing.T) {
	for _, c := range []struct{ file, copied, want string }{
		{"", "", ""},
		{"a\nb\n", "A!\nB!\n", ""},
		{"a\nb\n", "", ""},
		{"a\nb\n", "A!\n", ""},
		{"a\nb\n", "A!\nB", ""},
		{"a\nb\n", "A!\nB!\nC!\nD!\n", ""},
		{"a\nb\n", "A!\nX!\n", ""},
		{"a\nb\n", "X!\nY!\nZ!\n", ""},
		{"a\nb", "A!\nB!\n", ""},
		{"a\n#b\nc\n#\n", "A!\n", ""},
		{"a\na\na\n", "A!\n", ""},
		{"a\na\n", "A!\nA!\nA!\nA!\n", ""},
		{"b\na\na\nc\n", "B!\nA!\n", ""},
		{strings.Repeat("long ", 50_000) + "\nb\n", "", ""},
		{"", "A!\nB!\nC", "A!\nB!\n"},
	} {
		fs := testdisk.NewMem()
		must.Do(t, fs.MkdirAll("/l", 0o755))
		must.Do(t, disk.WriteFile(fs, "/l/file", []byte(c.file)))
		must.Do(t, disk.WriteFile(fs, "/l/copy", []byte(c.copied)))
		f := must.Get(OpenWithCopy(fs, "/l/file", 1<<20, "/l/copy", louder{}))(t)
		f.Add(func(b []byte) []byte { return append(b, "new\n"...) })
		must.Do(t, f.Flush())
		file := text(fs, "/l/file")
		if got, want := text(fs, "/l/copy"), c.want+loud(file); got != want || !strings.HasSuffix(file, "new\n") {
			t.Errorf("%.20q with the copy %q: the file is %.20q and the copy is %.30q, want %.30q", c.file, c.copied,
				file, got, want)
		}
		must.Do(t, f.Close())
	}
}

// filled adds lines to a file with a copy until it fails.
func filled(fs disk.FS, seed uint64) error {
	f, err := OpenWithCopy(fs, "/l/file", 1<<10, "/l/copy", louder{})
	if err != nil {
		return err
	}
	defer f.Close()
	rnd := rand.New(rand.NewPCG(seed, 1))
	for n := range 60 {
		f.Add(func(b []byte) []byte { return fmt.Appendf(b, "line %d%s\n", n, strings.Repeat("x", rnd.IntN(40))) })
		switch rnd.IntN(8) {
		case 0:
			err = f.Sync()
		case 1, 2, 3:
			err = f.Flush()
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// TestCopyAfterFaults lets each call of the disk fail, once or from then on. The process is killed then, or the power
// fails. After the next start file and copy agree.
func TestCopyAfterFaults(t *testing.T) {
	for _, fault := range []func(int64, error) func(testdisk.Call) testdisk.Fault{testdisk.FailAt, testdisk.FailFrom} {
		for n := int64(1); ; n++ {
			mem := testdisk.NewMem()
			if filled(testdisk.NewFaulty(mem, fault(n, syscall.ENOSPC)), uint64(n)) == nil {
				if n < 40 {
					t.Errorf("%d calls change the disk; the test needs more", n)
				}
				break
			}
			for seed := range uint64(4) {
				left := mem.Clone()
				if seed > 0 {
					left = mem.Crash(seed)
				}
				if f, err := Open(left, "/l/file", 1<<10); err == nil && f.Size() == 0 {
					must.Do(t, f.Close())
					continue // as if somebody had removed the file
				}
				must.Do(t, filled(left, 7))
				if file := text(left, "/l/file"); text(left, "/l/copy") != loud(file) {
					t.Errorf("call %d failed, then crash %d:\n%s\nbecame\n%s", n, seed, file, text(left, "/l/copy"))
				}
			}
		}
	}
}

// TestCopyErrors: an error of the copy names it once, and is an error of the file.
func TestCopyErrors(t *testing.T) {
	mem := testdisk.NewMem()
	fs := testdisk.NewFaulty(mem, nil)
	f := must.Get(OpenWithCopy(fs, "/l/file", 1<<10, "/l/copy", louder{}))(t)
	fs.Break(func(c testdisk.Call) testdisk.Fault {
		if c.Op == testdisk.OpWrite && c.Name == "/l/copy" {
			return testdisk.Fault{Err: syscall.ENOSPC, Short: 1}
		}
		return testdisk.Fault{}
	})
	f.Add(func(b []byte) []byte { return append(b, "a\n"...) })
	want := "log /l/copy: write: " + syscall.ENOSPC.Error()
	for name, err := range map[string]error{"Flush": f.Flush(), "Sync": f.Sync(), "Err": f.Err(), "Close": f.Close()} {
		if err == nil || err.Error() != want || !disk.IsFull(err) {
			t.Errorf("%s: %v, want %s", name, err, want)
		}
	}
	if _, err := OpenWithCopy(fs, "/l/file", 1<<10, "/l/copy", louder{}); err == nil || err.Error() != want {
		t.Errorf("OpenWithCopy: %v, want %s", err, want)
	}
	fs.Heal()
	must.Do(t, must.Get(OpenWithCopy(fs, "/l/file", 1<<10, "/l/copy", louder{}))(t).Close())
	if got := text(mem, "/l/copy"); got != "A!\n" {
		t.Errorf("the copy is %q", got)
	}
}
