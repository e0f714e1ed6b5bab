package testweb

import (
	"io"

	"github.com/klauspost/compress/gzip"
)

func gzipWriter(w io.Writer) *gzip.Writer { return gzip.NewWriter(w) }
