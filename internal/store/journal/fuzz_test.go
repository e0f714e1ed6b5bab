package journal_test

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/store/journal"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/testdisk"
)

// FuzzReplay reads arbitrary bytes as a segment, a snapshot or a part. If mend is true, it corrects the checksums
// first, so that the code that reads lengths, counts and varints is tested too.
func FuzzReplay(f *testing.F) {
	for _, name := range []string{
		"journal-00000002.log", "journal-00000004.log", "snapshot-00000002.log", "part-00000002-0000.log",
	} {
		b := must.Get(os.ReadFile(filepath.Join("testdata", "v1", name)))(f)
		typ := byte(strings.IndexByte("jsp", name[0]))
		f.Add(b, typ, true)
		f.Add(b[:len(b)-3], typ, false)
	}
	f.Add([]byte{}, byte(0), false)
	f.Fuzz(func(t *testing.T, data []byte, typ byte, mend bool) {
		snapshot := typ%3 > 0
		m := testdisk.NewMem()
		must.Do(t, m.MkdirAll("j", 0o755))
		if mend {
			data = mended(data, typ%3)
		}
		if snapshot {
			build(t, m, "j")
			name := [...]string{1: "snapshot-00000002.log", 2: "part-00000002-0000.log"}[typ%3]
			must.Do(t, disk.WriteFile(m, "j/"+name, data))
		} else {
			must.Do(t, disk.WriteFile(m, "j/journal-00000001.log", data))
		}
		got, st, err := replay(m, "j")
		if err != nil && !errors.Is(err, journal.ErrDamaged) && !errors.Is(err, journal.ErrVersion) {
			t.Fatalf("Replay: %v", err)
		}
		if int64(len(got)) != st.Records || st.Bytes > int64(len(data))+1000 {
			t.Fatalf("%d records for Stats %+v", len(got), st)
		}
		j, oerr := journal.Open(m, "j", journal.Config{})
		if !snapshot && (oerr == nil) != (err == nil) {
			t.Fatalf("Replay: %v, but Open: %v", err, oerr)
		}
		if oerr != nil {
			return
		}
		must.Do(t, j.Append(one("more")))
		must.Do(t, j.Close())
		if err == nil {
			wantReplay(t, m, "j", append(got, "a:more")...)
		}
	})
}

// mended returns data with a correct header and correct checksums.
func mended(data []byte, typ byte) []byte {
	table := crc32.MakeTable(crc32.Castagnoli)
	out := append([]byte(nil), data...)
	if len(out) < 36 {
		return out
	}
	number := uint32(1)
	copy(out, "owjrnl\r\n\x02\x00\x01\x00\x00\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00")
	if typ > 0 {
		number = 2
		out[10], out[16] = 1+typ, 2
	}
	binary.LittleEndian.PutUint32(out[32:], crc32.Checksum(out[:32], table))
	for off := 36; off+24 <= len(out); {
		h := out[off:]
		h[17], h[18], h[19] = 0, 0, 0
		n := min(int(binary.LittleEndian.Uint32(h)), 1<<16)
		if body := h[24:]; n <= len(body) {
			binary.LittleEndian.PutUint32(h[4:], crc32.Checksum(body[:n], table))
		}
		binary.LittleEndian.PutUint32(h[20:], crc32.Checksum(h[:20], table)^uint32(off)^number*0x9e3779b1)
		off += 24 + n
	}
	return out
}
