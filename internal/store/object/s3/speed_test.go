//go:build unix

package s3_test

import (
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/orbweaver/orbweaver/internal/store/object"
	"github.com/orbweaver/orbweaver/internal/store/object/s3"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/testcost"
	"github.com/orbweaver/orbweaver/internal/testkit/testtier"
)

// A noise is a content of a size that does not repeat, and costs almost nothing to make.
type noise struct {
	size, salt int64
	block      []byte
}

func (n noise) Size() int64 { return n.size }

func (n noise) ReadAt(p []byte, off int64) (done int, err error) {
	for done < len(p) && off < n.size {
		at := (off*7 + n.salt) % int64(len(n.block))
		m := copy(p[done:], n.block[at:min(int64(len(n.block)), at+n.size-off)])
		done, off = done+m, off+int64(m)
	}
	if done < len(p) {
		err = io.EOF
	}
	return done, err
}

// BenchmarkUpload sends 2 GiB, in two files of 1 GiB, to versitygw on this machine. It tells the bytes a second, and
// the processor time of this process and of the server.
func BenchmarkUpload(b *testing.B) {
	testtier.OnlySoak(b, "it builds a server and writes 2 GiB")
	const files, size = 2, 1 << 30
	block := make([]byte, 1<<20)
	for i := range block {
		block[i] = byte(i * i >> 7)
	}
	endpoint, server := startVersitygw(b)
	s := open(b, "s3://bucket/bench", at(endpoint), s3.Options{}, object.Config{})
	must.Get(s.Abilities(b.Context()))(b)
	before, begin := testcost.CPU(), time.Now()
	runs := 0
	for b.Loop() {
		for i := range files {
			key := fmt.Sprintf("%d/%d", runs, i)
			must.Get(s.Put(b.Context(), key, noise{size, int64(i), block}, object.Condition{IfAbsent: true}))(b)
		}
		runs++
	}
	took, ours, gib := time.Since(begin), testcost.CPU()-before, float64(runs*files)
	must.Do(b, server.Process.Kill())
	_ = server.Wait() // it was killed
	theirs := server.ProcessState.UserTime() + server.ProcessState.SystemTime()
	b.ReportMetric(gib*1024*1.048576/took.Seconds(), "MB/s")
	b.ReportMetric(ours.Seconds()/gib, "our-CPU-s/GiB")
	b.ReportMetric(theirs.Seconds()/gib, "store-CPU-s/GiB")
}
