package spare

import (
	"encoding/binary"
	"fmt"

	"github.com/orbweaver/orbweaver/internal/cluster/rpc"
	"github.com/orbweaver/orbweaver/internal/cluster/rpc/pb"
	"github.com/orbweaver/orbweaver/internal/web/link"
)

const (
	// maxPart bounds the bytes of a file in one call, maxPages the pages.
	maxPart  = 256 << 10
	maxPages = 4096
	// maxFiles bounds the files in an answer.
	maxFiles    = 2000
	maxFileSize = 1 << 50
	// maxInstance is the length of an instance, in octets.
	maxInstance = 16
)

// The kinds of a request say what the caller wants.
const (
	kindList  = 1 + iota // the copies of its files
	kindPart             // to store a part of a file; without data: how many bytes are there?
	kindDrop             // that all copies of its files are dropped
	kindPages            // to know which pages of a lost agent are in copies
)

// Call stores a part of an archive file at another agent, or asks what it has copies of.
var Call = rpc.Method[pb.CopyRequest, pb.CopyResponse]{Call: rpc.CallCopy, Request: checkRequest,
	Response: checkResponse}

func checkRequest(q *pb.CopyRequest) error {
	n := len(q.Pages) / keySize
	switch {
	case q.Kind < kindList || q.Kind > kindPages:
		return rpc.Malformedf("kind %d of a copy", q.Kind)
	case len(q.Data) > maxPart || n > maxPages:
		return fmt.Errorf("%w: %d octets of a file, %d pages", rpc.ErrTooLarge, len(q.Data), n)
	case q.Kind != kindPart && (q.File != nil || q.Offset != 0 || len(q.Data) > 0),
		q.Kind != kindPages && (q.Agent != "" || len(q.Instance)+len(q.Pages) > 0):
		return rpc.Malformedf("a copy of kind %d with fields of another", q.Kind)
	}
	switch q.Kind {
	case kindPart:
		if err := checkFile(q.File); err != nil {
			return err
		}
		if q.Offset > q.File.Size || uint64(len(q.Data)) > q.File.Size-q.Offset {
			return rpc.Malformedf("%d octets at offset %d of %d", len(q.Data), q.Offset, q.File.Size)
		}
	case kindPages:
		if err := rpc.CheckName(q.Agent); err != nil {
			return rpc.Malformedf("%v", err)
		}
		if len(q.Instance) != maxInstance || n == 0 || len(q.Pages)%keySize != 0 {
			return rpc.Malformedf("%d octets of an instance, %d of pages", len(q.Instance), len(q.Pages))
		}
	}
	return nil
}

func checkFile(f *pb.CopyFile) error {
	if f == nil || f.Name == "" || len(f.Name) > MaxName || f.Size > maxFileSize ||
		len(f.Digest) != len(File{}.Digest) {
		return rpc.Malformedf("an archive file of %d octets, named %.20q", f.GetSize(), f.GetName())
	}
	return nil
}

func checkResponse(q *pb.CopyRequest, r *pb.CopyResponse) error {
	if len(r.Files) > maxFiles || r.Have > maxFileSize {
		return rpc.Malformedf("%d copies, %d octets", len(r.Files), r.Have)
	}
	for _, f := range r.Files {
		if err := checkFile(f); err != nil {
			return err
		}
	}
	if n := len(q.Pages) / keySize; len(r.Known) != (n+7)/8 || n%8 != 0 && r.Known[len(r.Known)-1]>>(n%8) != 0 {
		return rpc.Malformedf("%d octets for %d pages", len(r.Known), n)
	}
	return nil
}

func fileToWire(f File) *pb.CopyFile {
	return &pb.CopyFile{Name: f.Name, Size: uint64(f.Size), Digest: f.Digest[:]}
}

func fileFromWire(f *pb.CopyFile) File { return File{f.Name, int64(f.Size), [32]byte(f.Digest)} }

func pagesToWire(pages []link.Link) (b []byte) {
	for _, l := range pages {
		k := link.KeyOf(l.URL)
		b = binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(b, k.Host), k.Path)
	}
	return b
}

func pagesFromWire(b []byte) (keys []link.Key) {
	for ; len(b) > 0; b = b[keySize:] {
		keys = append(keys, link.Key{Host: binary.BigEndian.Uint64(b), Path: binary.BigEndian.Uint64(b[8:])})
	}
	return keys
}

// knownToWire returns the bits of known, the lowest of an octet first.
func knownToWire(known []bool) []byte {
	b := make([]byte, (len(known)+7)/8)
	for i, k := range known {
		if k {
			b[i/8] |= 1 << (i % 8)
		}
	}
	return b
}

// isKnown returns the bit of a page.
func isKnown(r *pb.CopyResponse, page int) bool { return r.Known[page/8]>>(page%8)&1 == 1 }
