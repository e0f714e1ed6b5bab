package testweb

import (
	"io"
	"net/http"

	"github.com/klauspost/compress/gzip"
)

func gzipWriter(w io.Writer) *gzip.Writer { return gzip.NewWriter(w) }

type httpRequest = http.Request
