package lines

import (
	"os"
	"testing"

	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/testdisk"
)

// TestOpenCutsWhatAPowerFailureLeft: Open removes an incomplete last line and everything from the first hole on.
func TestOpenCutsWhatAPowerFailureLeft(t *testing.T) {
	for _, c := range []struct{ have, want string }{
		{"", "new\n"},
		{"a\nb\n", "a\nb\nnew\n"},
		{"a\nb", "a\nnew\n"},
		{"a\nb\x00\x00\x00c\nd\n", "a\nnew\n"},
		{"\x00\x00\nd\n", "new\n"},
		{"a\n\x00", "a\nnew\n"},
	} {
		fs := testdisk.NewMem()
		must.Do(t, fs.MkdirAll("/l", 0o755))
		f := must.Get(fs.OpenFile("/l/x", os.O_CREATE|os.O_WRONLY, 0o644))(t)
		must.Get(f.Write([]byte(c.have)))(t)
		f.Close()
		a := must.Get(Open(fs, "/l/x", 1<<20))(t)
		a.Add(func(b []byte) []byte { return append(b, "new\n"...) })
		must.Do(t, a.Close())
		if got, err := disk.ReadFile(fs, "/l/x", 1<<20); err != nil || string(got) != c.want {
			t.Errorf("%q became %q, want %q; %v", c.have, got, c.want, err)
		}
	}
}
