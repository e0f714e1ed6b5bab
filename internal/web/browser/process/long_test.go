package process

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/orbweaver/orbweaver/internal/testkit/must"
)

// TestLongPath has a crawl directory whose path is longer than the name of a socket may be (108 bytes on Linux).
func TestLongPath(t *testing.T) {
	c := config(t)
	c.Dir = filepath.Join(c.Dir, strings.Repeat("a long name/", 12))
	must.Do(t, os.MkdirAll(c.Dir, 0o700))
	must.Get(Start(t.Context(), c))(t).End()
}
