package main

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/orbweaver/orbweaver/internal/graph"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
)

// A graph with more nodes than memory is refused before the work begins.
func TestGraphTooLarge(t *testing.T) {
	defer func(of func() int64) { memory = of }(memory)
	memory = func() int64 { return 8e9 }
	var b bytes.Buffer
	w, err := graph.NewWriter(&b, graph.Numbers)
	if err == nil {
		err = w.List(nil)
	}
	if err == nil {
		_, err = w.Finish()
	}
	must.Do(t, err)
	const trailer, room = 64, 1 << 29 // room: a bit a node, for a hole
	head, end := b.Bytes()[:b.Len()-trailer], b.Bytes()[b.Len()-trailer:]
	binary.LittleEndian.PutUint64(end[8:], graph.MaxNodes)
	binary.LittleEndian.PutUint64(end[32:], uint64(len(head)+room))
	binary.LittleEndian.PutUint32(end[40:], crc32.Checksum(end[:40], crc32.MakeTable(crc32.Castagnoli)))
	name := filepath.Join(t.TempDir(), "large.graph")
	must.Do(t, os.WriteFile(name, head, 0o600))
	f := must.Get(os.OpenFile(name, os.O_WRONLY, 0))(t)
	defer f.Close()
	must.Get(f.WriteAt(end, int64(len(head)+room)))(t)
	var errs bytes.Buffer
	code := run([]string{"graph", "pagerank", name}, io.Discard, &errs)
	for _, want := range []string{"4,294,967,295 nodes", "takes 68.7 GB of memory; there are 8 GB", "; use a machine"} {
		if code != exitConfig || !strings.Contains(errs.String(), want) {
			t.Errorf("exit code %d, %s; want %q", code, errs.String(), want)
		}
	}
}
