package image_test

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/orbweaver/orbweaver/internal/store/image"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/teststore"
)

// TestGrowsWhilePacksGo saves a log that grows so often that small packs are to go. The log goes on to grow.
func TestGrowsWhilePacksGo(t *testing.T) {
	p := place(t, teststore.NewSim(1, teststore.Traits{}))
	w := newWorld(t, 1)
	s := must.Get(image.Claim(t.Context(), p, image.Config{}))(t)
	var log bytes.Buffer
	for n := range 200 {
		fmt.Fprintf(&log, "line %d\n", n)
		w.write("grow/log", bytes.Clone(log.Bytes()))
		w.write(fmt.Sprintf("dir/file%d", n), w.bytes(100))
		must.Get(w.save(s))(t)
	}
	w.restore(p)
}
